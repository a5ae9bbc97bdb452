"""`make_tables`: the tables of a spec, from its results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realm.errors import RealmError
from realm.lab.grid.spec import Spec
from realm.lab.tables.contrasts import contrast_table, contrasts, summary
from realm.lab.tables.counts import COUNTED, counted_table, real_table
from realm.lab.tables.expertise import EXPERTISE, expertise_table
from realm.lab.tables.gather import Gathered, Kept, gather
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


def make_tables(spec: Spec, kept: Kept | None, results: Path | None = None) -> Tables:
    """The tables of a spec. `kept` is its results file; None shows what there is to run."""
    gathered = gather(spec, kept)
    if spec.table is None:
        raise RealmError(f"{spec.path}: names no `table`. There are: {', '.join(LAYOUTS)}.")
    published = Published(spec.paper)
    if spec.table in GROUPED:
        main = grouped_table(gathered, GROUPED[spec.table], published)
    elif spec.table in EXPERTISE:
        main = expertise_table(gathered, EXPERTISE[spec.table], published)
    elif spec.table in COUNTED:
        main = counted_table(gathered, spec.table, published)
    else:
        raise RealmError(f"{spec.path}: there is no table '{spec.table}'. There are: {', '.join(LAYOUTS)}.")
    compared = [] if spec.table in COUNTED else contrasts(gathered)
    behind = [contrast_table(compared) if compared else None, rank_table(gathered)]
    if spec.table == "real":
        behind.insert(0, real_table(main, Published("abstract" if spec.paper else None)))
    return Tables(
        main, [table for table in behind if table is not None], [*summary(compared), *missing_said(gathered, results)]
    )


LAYOUTS = (*GROUPED, *EXPERTISE, *COUNTED)


def missing_said(gathered: Gathered, results: Path | None) -> list[str]:
    """How many cells are missing, and the command that runs them."""
    if not gathered.missing:
        return []
    where = f" --results {shlex.quote(str(results))}" if results is not None else ""
    spec = gathered.spec
    name = spec.name if spec.path.parent.name == "specs" else shlex.quote(str(spec.path))
    return [f"{gathered.missing} of {len(gathered.frame)} cells are missing. To run them: realm lab run {name}{where}"]
