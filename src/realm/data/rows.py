"""The rows of a source table on their way into `Annotations`; the steps of `realm.data.build` change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from realm.data.columns import Categorical, Codes, Mask, as_array, blank, cell_text, is_list, is_text
from realm.data.ledger import ROWS_KEPT, Ledger
from realm.data.long_table import LongTable
from realm.data.options import parse_options
from realm.data.read_options import ReadOptions
from realm.data.roles import TIME_ROLES, Corrections
from realm.data.source import Rows, Source
from realm.data.times import Floats, read_durations, read_times
from realm.errors import RealmError


@dataclass
class SourceRows:
    """The rows of a table. Every array has one entry for each row that is left."""

    long: LongTable
    options: ReadOptions
    ledger: Ledger
    position: Codes  # its row of `long`
    annotated: Mask  # whether the row has an annotation
    labels: Sequence[str] | None  # the label set that the user or the export lists
    lists_answers: bool
    columns: dict[str, Categorical] = field(default_factory=dict)  # by role, but for the times
    times: dict[str, Floats] = field(default_factory=dict)  # `created_at` and `lead_time`, in seconds
    corrections: Corrections = field(default_factory=Corrections)

    @classmethod
    def of(cls, long: LongTable, options: ReadOptions) -> SourceRows:
        labels = options.labels if options.labels is not None or options.tasks is not None else long.labels
        every, annotated = np.arange(len(long)), np.full(len(long), options.wants_annotations)
        rows = cls(long, options, long.ledger.copy(), every, annotated, labels, long.lists_answers)
        for role, column in long.columns.items():
            if role in TIME_ROLES:
                rows._read_times(role, column)
            elif role == "options":
                if (own := parse_options(column, rows.name(role), long.rows, long.source)).values:
                    rows.columns[role] = own
            elif role == "label" and is_list(column.type):
                rows.lists_answers = True
                cells = [[value for value in cell or () if value not in (None, "")] for cell in column.to_pylist()]
                texts = [cell_text(cell[0] if len(cell) == 1 else cell) if cell else None for cell in cells]
                rows.columns[role] = Categorical.of(pa.array(texts, pa.large_string()), role, long.source)
            else:
                rows.columns[role] = Categorical.of(column, rows.name(role), long.source)
        return rows

    def _read_times(self, role: str, column: pa.Array) -> None:
        seconds = (read_times if role == "created_at" else read_durations)(column)
        given = ~blank(as_array(column)) if is_text(column.type) else np.asarray(column.is_valid())
        if lost := int((given & np.isnan(seconds)).sum()):
            self.ledger.warn(f"column '{self.name(role)}': {lost:,} times cannot be read and are left out.")
        if np.isfinite(seconds).any():
            self.times[role] = seconds

    def __len__(self) -> int:
        return len(self.position)

    @property
    def source(self) -> Source:
        return self.long.source

    @property
    def numbers(self) -> Rows:
        """The number of each row in its source, for messages."""
        return self.long.rows[self.position]

    @property
    def known(self) -> set[str]:
        """The labels that are listed by the user, the export or the run."""
        return {*(self.labels or ()), *(label for task in self.options.tasks or () for label in task.labels or ())}

    def name(self, role: str) -> str:
        """What the column of a role is called in the source."""
        return self.long.names.get(role, role)

    def error(self, rows: Mask | Codes, message: str) -> RealmError:
        """An error that names these rows of the source."""
        return self.source.error(message, self.numbers[rows])

    def record(self, reason: str, rows: Mask | Codes) -> None:
        """Put these rows into the ledger."""
        numbers = np.sort(self.numbers[rows])
        self.ledger.add(reason, numbers[:ROWS_KEPT], len(numbers))

    def rename(self, role: str, names: Mapping[str, str | None], reason: str | None = None) -> None:
        """Change texts of a column (None: to null); the changed rows go into the ledger."""
        self.columns[role], changed = self.columns[role].renamed(names)
        if reason is not None:
            self.record(reason, changed)

    def leave_out(self, rows: Mask) -> None:
        """Drop these rows."""
        self.columns = {role: column.take(~rows) for role, column in self.columns.items()}
        self.times = {role: seconds[~rows] for role, seconds in self.times.items()}
        self.position, self.annotated = self.position[~rows], self.annotated[~rows]

    def refuse_no_annotation(self, why: str) -> None:
        if not self.annotated.any():
            raise self.source.error(f"there is not one annotation in it: every label is {why}.")
