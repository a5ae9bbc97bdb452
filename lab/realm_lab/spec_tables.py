"""The tables of a spec: the paper's own in its shape, the paper's figures beside ours, and what stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from realm import RealmError
from realm_lab import tables_of_counts as counts
from realm_lab.paper import add_paper
from realm_lab.results import SpecResults, Store, display, load_results
from realm_lab.specs import Spec
from realm_lab.tables import LAYOUTS, Table, accuracy_table
from realm_lab.tables_of_expertise import expertise_table, rank_tables

OTHER_LAYOUTS = ("expertise", "expertise-steps", "significance", "wins")
"""Tables that are no pivot of accuracies."""


@dataclass(frozen=True)
class Tables:
    """A spec's table in the paper's shape, what stands behind it (tests, ranks), and remarks on what is missing."""

    main: Table
    behind: Sequence[Table]
    remarks: Sequence[str]

    def text(self, form: str) -> str:
        """As `md`, `latex` or `csv` (the main table alone, a line per figure)."""
        if form == "csv":
            return self.main.csv()
        comment = "% " if form == "latex" else ""
        tables = [table.latex() if form == "latex" else table.markdown() for table in (self.main, *self.behind)]
        return "\n".join([*tables, *(f"{comment}{remark}\n" for remark in self.remarks)])


def layout_of(spec: Spec) -> str:
    """The layout of a spec's table; an error where it names one that there is not."""
    if spec.table not in (names := (*LAYOUTS, *OTHER_LAYOUTS)):
        raise RealmError(f"{spec.path}: there is no table '{spec.table}'. There are: {', '.join(names)}.")
    return spec.table


def make_tables(spec: Spec, store: Store | None) -> Tables:
    """The tables of a spec. Without results they show what there is to run."""
    name, results = layout_of(spec), load_results(spec, store)
    tests = counts.contrasts(results)
    behind: list[Table] = []
    if name in ("significance", "wins"):
        main, *behind = (counts.significance_tables if name == "significance" else counts.wins_tables)(results, tests)
    else:
        main = accuracy_table(results, LAYOUTS[name]) if name in LAYOUTS else expertise_table(results)
        behind += [counts.real_table(main)] if name == "real" else []
        behind += [counts.contrast_table(tests)] if tests else []
    behind += rank_tables(results)
    for table in (main, *behind):
        add_paper(table.figures, spec.paper and f"{spec.paper}, abstract" if name == "real" else spec.paper)
    cells = results.frame.drop_duplicates("id")["finished"]
    remarks = counts.remarks(tests) + base_rates(results)
    remarks += [f"{(~cells).sum()} of {len(cells)} cells are missing."] if not cells.all() else []
    return Tables(main, behind, remarks)


def base_rates(results: SpecResults) -> list[str]:
    """What an accuracy is to be read beside."""
    if "base_rate" not in results.frame:  # no cell is finished
        return []
    known = results.frame.dropna(subset="base_rate").groupby("benchmark", sort=False)["base_rate"].mean()
    rates = (f"{display(name)} {float(rate):.1%}" for name, rate in known.items())
    return [f"Base rate, always giving the most frequent label: {', '.join(rates)}."]
