"""`make_tables`: the tables of a spec, from its results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realm import RealmError
from realm.comparison import Results
from realm.lab.spec import Spec
from realm.lab.spec_results import SpecResults, spec_results
from realm.lab.tables.contrasts import contrast_table, contrasts, summary
from realm.lab.tables.counts import COUNTED, counted_table, real_table
from realm.lab.tables.expertise import EXPERTISE, expertise_table
from realm.lab.tables.grouped import grouped_table
from realm.lab.tables.layouts import GROUPED
from realm.lab.tables.published import Published
from realm.lab.tables.ranks import rank_table
from realm.lab.tables.render import comma_separated, latex, markdown
from realm.lab.tables.table import Table


@dataclass(frozen=True)
class Tables:
    """A spec's table in the paper's shape, what stands behind it (tests, ranks), and remarks on what is missing."""

    main: Table
    behind: Sequence[Table]
    remarks: Sequence[str]

    def text(self, form: str) -> str:
        """As `md`, `latex` or `csv` (the main table alone, a line per figure)."""
        if form == "csv":
            return comma_separated(self.main)
        mark = "% " if form == "latex" else ""
        said = [(latex if form == "latex" else markdown)(table) for table in (self.main, *self.behind)]
        return "\n".join([*said, *(f"{mark}{remark}\n" for remark in self.remarks)])


def make_tables(spec: Spec, results: Results | None, path: Path | None = None) -> Tables:
    """The tables of a spec. Without results they show what there is to run; `path` is where it would be recorded."""
    of_spec = spec_results(spec, results)
    if spec.table is None:
        raise RealmError(f"{spec.path}: names no `table`. There are: {', '.join(LAYOUTS)}.")
    published = Published(spec.paper)
    if spec.table in GROUPED:
        main = grouped_table(of_spec, GROUPED[spec.table], published)
    elif spec.table in EXPERTISE:
        main = expertise_table(of_spec, EXPERTISE[spec.table], published)
    elif spec.table in COUNTED:
        main = counted_table(of_spec, spec.table, published)
    else:
        raise RealmError(f"{spec.path}: there is no table '{spec.table}'. There are: {', '.join(LAYOUTS)}.")
    compared = [] if spec.table in COUNTED else contrasts(of_spec)
    behind = [contrast_table(compared) if compared else None, rank_table(of_spec)]
    if spec.table == "real":
        behind.insert(0, real_table(main, Published("abstract" if spec.paper else None)))
    return Tables(
        main, [table for table in behind if table is not None], [*summary(compared), *missing_cells(of_spec, path)]
    )


LAYOUTS = (*GROUPED, *EXPERTISE, *COUNTED)


def missing_cells(of_spec: SpecResults, path: Path | None) -> list[str]:
    """How many cells are missing, and the command that runs them."""
    if not of_spec.missing:
        return []
    option = f" --results {shlex.quote(str(path))}" if path is not None else ""
    spec = of_spec.spec
    name = spec.name if spec.path.parent.name == "specs" else shlex.quote(str(spec.path))
    return [f"{of_spec.missing} of {len(of_spec.frame)} cells are missing. To run them: realm lab run {name}{option}"]
