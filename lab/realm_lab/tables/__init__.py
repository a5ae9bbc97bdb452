"""The paper's tables from a results file: each in its own shape, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from realm import RealmError
from realm.comparison.results import Results
from realm.lab.paper import PaperTable
from realm.lab.recorded import RecordedResults
from realm.lab.spec import Spec
from realm.lab.spec_results import SpecResults, load_spec_results
from realm.lab.tables.accuracies import ACCURACY_LAYOUTS, accuracy_table
from realm.lab.tables.contrasts import (
    COUNT_LAYOUTS,
    contrast_table,
    contrasts,
    count_table,
    real_annotators_table,
    summaries,
)
from realm.lab.tables.expertise import EXPERTISE_LAYOUTS, expertise_table, rank_table
from realm.lab.tables.render import FORMATS, comma_separated, latex, markdown
from realm.lab.tables.table import Table, display

__all__ = ["FORMATS", "LAYOUTS", "Tables", "layout_of", "make_tables"]

LAYOUTS = (*ACCURACY_LAYOUTS, *EXPERTISE_LAYOUTS, *COUNT_LAYOUTS)


@dataclass(frozen=True)
class Tables:
    """A spec's table in the paper's shape, what stands behind it (tests, ranks), and remarks on what is missing.

    `base_rates` are what always giving the most frequent label would get right, by benchmark.
    """

    main: Table
    behind: Sequence[Table]
    remarks: Sequence[str]
    base_rates: Mapping[str, float] = field(default_factory=dict)

    def text(self, form: str) -> str:
        """As `md`, `latex` or `csv` (the main table alone, a line per figure)."""
        if form == "csv":
            return comma_separated(self.main)
        comment, render = ("% ", latex) if form == "latex" else ("", markdown)
        tables = [render(table) for table in (self.main, *self.behind)]
        return "\n".join([*tables, *(f"{comment}{remark}\n" for remark in self.remarks)])


DEFAULT_LAYOUT = "rivals"
"""Of a spec that names no table: a row per configuration, a column per method."""


def layout_of(spec: Spec) -> str:
    """The layout of a spec's table; an error where it names one that there is not."""
    if spec.table is not None and spec.table not in LAYOUTS:
        raise RealmError(f"{spec.path}: there is no table '{spec.table}'. There are: {', '.join(LAYOUTS)}.")
    return spec.table or DEFAULT_LAYOUT


def make_tables(spec: Spec, results: Results | RecordedResults | None, command: str | None = None) -> Tables:
    """The tables of a spec. Without results they list what there is to run; `command` is what would run it."""
    layout = layout_of(spec)
    spec_results, paper = load_spec_results(spec, results), PaperTable(spec.paper)
    if layout in ACCURACY_LAYOUTS:
        main = accuracy_table(spec_results, ACCURACY_LAYOUTS[layout], paper)
    elif layout in EXPERTISE_LAYOUTS:
        main = expertise_table(spec_results, EXPERTISE_LAYOUTS[layout], paper)
    else:
        main = count_table(spec_results, layout, paper)
    comparisons = [] if layout in COUNT_LAYOUTS else contrasts(spec_results)
    behind = [contrast_table(comparisons) if comparisons else None, rank_table(spec_results)]
    if layout == "real":
        behind.insert(0, real_annotators_table(main, PaperTable("abstract" if spec.paper else None)))
    remarks = summaries(comparisons)
    if spec_results.missing:
        remarks.append(f"{spec_results.missing} of {len(spec_results.frame)} cells are missing.")
        remarks[-1] += f" To run them: {command}" if command else ""
    return Tables(main, [table for table in behind if table is not None], remarks, _base_rates(spec_results))


def _base_rates(spec_results: SpecResults) -> dict[str, float]:
    if "base_rate" not in spec_results.frame:  # no cell is finished
        return {}
    known = spec_results.frame.dropna(subset="base_rate")
    return {display(name): float(rows["base_rate"].mean()) for name, rows in known.groupby("benchmark", sort=False)}
