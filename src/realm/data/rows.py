"""The rows of a source table on their way into `Annotations`: columns by role, blanks, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.categorical import Categorical, Codes
from realm.data.columns import Mask, Rows, as_array, take_column
from realm.data.ledger import ROWS_KEPT, Ledger
from realm.data.options import read_options, written_with_point
from realm.data.roles import TIME_ROLES
from realm.data.sources import place
from realm.data.times import Floats, read_durations, read_times
from realm.errors import RealmError

NO_LABEL = "no label"
NO_ANNOTATION = "item without an annotation: neither annotator nor label"
POINT_ZERO = "label written like 1.0, read as 1"


@dataclass
class SourceRows:
    """The rows of a table.

    | field | shape | meaning |
    |---|---|---|
    | columns | (rows,) each | the column of each role that is read, all but the options |
    | times | (rows,) each | `created_at` and `lead_time` in seconds, where there are such columns |
    | options | (rows,) lists or None | the options that the row lists for its item; null where it lists none |
    | numbers | (rows,) | the number of the row in its source, for messages |
    | positions | (rows,) | where the row is in the table that was given |
    | annotated | (rows,) | whether the row has an annotation |
    | wants_annotations | | whether annotations are read at all |
    | names | | the name of each role's column |
    """

    columns: dict[str, Categorical]
    options: pa.LargeListArray | None
    times: dict[str, Floats]
    numbers: Rows
    positions: Rows
    annotated: Mask
    wants_annotations: bool
    names: dict[str, str]
    source: str
    ledger: Ledger

    @classmethod
    def of(
        cls, table: Any, names: dict[str, str], numbers: Rows, wants_annotations: bool, source: str, ledger: Ledger
    ) -> SourceRows:
        """The columns of these names."""
        columns = {
            role: Categorical.of(take_column(table, name, source), name, source)
            for role, name in names.items()
            if role != "options" and role not in TIME_ROLES
        }
        times = _times(table, names, source, ledger)
        options = read_options(table, names["options"], numbers, source) if "options" in names else None
        if options is not None and options.null_count == len(options):
            options = None
        annotated = np.full(len(table), wants_annotations)
        positions = np.arange(len(table), dtype=np.int64)
        return cls(columns, options, times, numbers, positions, annotated, wants_annotations, names, source, ledger)

    def __len__(self) -> int:
        return len(self.numbers)

    def error(self, rows: Mask | Codes, message: str) -> RealmError:
        """An error that names these rows of the source."""
        return RealmError(f"{place(self.source, self.numbers[rows])}: {message}")

    def record(self, reason: str, rows: Mask | Codes) -> None:
        """Put these rows into the ledger."""
        numbers = np.sort(self.numbers[rows])
        self.ledger.add(reason, numbers[:ROWS_KEPT], len(numbers))

    def drop_missing(self, missing: str) -> None:
        """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
        if self.wants_annotations:
            no_annotator = self.columns["annotator"].missing()
            no_label = self.columns["label"].missing(nan_words=True)
            left_out = ~self.annotated  # rows of excluded annotators that have gold
            self.annotated = ~(no_annotator & no_label)
            self.record(NO_ANNOTATION, ~self.annotated & ~left_out)
            self._refuse(no_annotator & ~no_label, "annotator", "Every label needs its annotator.")
            unlabelled = no_label & ~no_annotator
            if missing == "error":
                self._refuse(unlabelled, "label", 'Leave such rows out with `missing="drop"`.')
            elif unlabelled.any():
                self.record(NO_LABEL, unlabelled)
                self.leave_out(unlabelled)
            if not self.annotated.any():
                raise RealmError(f"{self.source}: there is not one annotation in it: every label is missing.")
        for role in ("text", "task", "item"):
            if role in self.columns:
                self._refuse(self.columns[role].missing(), role, f"Fill in the {role} or take the row out.")

    def leave_out(self, rows: Mask) -> None:
        """Drop these rows."""
        mask = ~rows
        self.columns = {role: column.filter(mask) for role, column in self.columns.items()}
        self.options = None if self.options is None else self.options.filter(pa.array(mask))
        self.times = {role: seconds[mask] for role, seconds in self.times.items()}
        self.numbers, self.positions = self.numbers[mask], self.positions[mask]
        self.annotated = self.annotated[mask]

    def _refuse(self, missing: Mask, role: str, remedy: str) -> None:
        if missing.any():
            raise self.error(missing, f"no {role} ({int(missing.sum()):,} in all). {remedy}")

    def normalise(self, label_names: Sequence[str]) -> None:
        """Null for blank labels, gold and contexts, and 1 for 1.0, unless a label is called "1.0"."""
        if "context" in self.columns:
            self.columns["context"] = self.columns["context"].without_blanks()
        spellings = {*label_names, *([] if self.options is None else written_with_point(self.options))}
        for role in ("label", "gold"):
            if role in self.columns:
                column = self.columns[role].without_blanks(nan_words=True)
                self.columns[role], changed = column.whole_numbers(spellings)
                self.record(POINT_ZERO.replace("label", role), changed)
                # Gold is spelled as the labels are, where they are versions rather than numbers.
                spellings.update(self.columns[role].values.to_pylist())


def _times(table: Any, names: dict[str, str], source: str, ledger: Ledger) -> dict[str, Floats]:
    """The times and durations in seconds, where there are any; those that cannot be read are counted in a warning."""
    times = {}
    for role, read in (("created_at", read_times), ("lead_time", read_durations)):
        if role not in names:
            continue
        column = as_array(take_column(table, names[role], source))
        seconds = read(column)
        present = np.asarray(column.is_valid()) & ~blank_cells(column)
        if lost := int((present & np.isnan(seconds)).sum()):
            ledger.warn(
                f"column '{names[role]}': {lost:,} of {int(present.sum()):,} times cannot be read and are left out."
            )
        if np.isfinite(seconds).any():
            times[role] = seconds
    return times


def blank_cells(column: pa.Array) -> Mask:
    """Which cells are an empty text."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return np.zeros(len(column), dtype=bool)
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(column), "").fill_null(True))
