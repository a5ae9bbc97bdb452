"""The rows of a source table on their way into `Annotations`: columns by role, blanks, and what is dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from realm.data.columns import Categorical, Codes, Mask, is_list, lists_as_json
from realm.data.ledger import ROWS_KEPT, Ledger
from realm.data.long_table import LongTable, is_blank_text
from realm.data.options import read_options, written_with_point
from realm.data.read_options import ReadOptions
from realm.data.roles import TIME_ROLES
from realm.data.source import Rows, Source
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
    | columns | (rows,) each | the column of each role that is read, all but the options and times |
    | times | (rows,) each | `created_at` and `lead_time` in seconds, where there are such columns |
    | options | (rows,) lists or None | the options that the row lists for its item; null where it lists none |
    | numbers | (rows,) | the number of the row in its source, for messages |
    | others | (rows,) or None | columns of a plain table that have no role |
    | annotated | (rows,) | whether the row has an annotation |
    | wants_annotations | | whether annotations are read at all |
    | lists_answers | | several answers of one annotation are lists, and nothing else is |
    | names | | the name of each role's column |
    """

    columns: dict[str, Categorical]
    times: dict[str, Floats]
    options: pa.LargeListArray | None
    numbers: Rows
    others: pa.Table | None
    annotated: Mask
    wants_annotations: bool
    lists_answers: bool
    names: dict[str, str]
    source: Source
    ledger: Ledger

    @classmethod
    def of(cls, long: LongTable, options: ReadOptions) -> SourceRows:
        ledger = long.ledger.copy()
        columns, times = {}, {}
        lists_answers = long.lists_answers
        for role, column in long.columns.items():
            name = long.names.get(role, role)
            if role == "label" and is_list(column.type):
                column, lists_answers = lists_as_json(column), True
            if role in TIME_ROLES:
                if (seconds := _seconds(column, role, name, ledger)) is not None:
                    times[role] = seconds
            elif role != "options":
                columns[role] = Categorical.of(column, name, long.source)
        own = long.columns.get("options")
        if own is not None:
            own = read_options(own, long.names.get("options", "options"), long.rows, long.source)
        wanted = options.wants_annotations
        return cls(
            columns,
            times,
            None if own is None or own.null_count == len(own) else own,
            long.rows,
            long.others,
            np.full(len(long), wanted),
            wanted,
            lists_answers,
            {role: long.names.get(role, role) for role in long.columns},
            long.source,
            ledger,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def error(self, rows: Mask | Codes, message: str) -> RealmError:
        """An error that names these rows of the source."""
        return self.source.error(message, self.numbers[rows])

    def record(self, reason: str, rows: Mask | Codes) -> None:
        """Put these rows into the ledger."""
        numbers = np.sort(self.numbers[rows])
        self.ledger.add(reason, numbers[:ROWS_KEPT], len(numbers))

    def leave_out(self, rows: Mask) -> None:
        """Drop these rows."""
        mask = ~rows
        self.columns = {role: column.filter(mask) for role, column in self.columns.items()}
        self.options = None if self.options is None else self.options.filter(pa.array(mask))
        self.times = {role: seconds[mask] for role, seconds in self.times.items()}
        self.others = None if self.others is None else self.others.filter(pa.array(mask))
        self.numbers, self.annotated = self.numbers[mask], self.annotated[mask]

    def drop_missing(self, missing: str | None) -> None:
        """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
        if self.wants_annotations:
            no_annotator = self.columns["annotator"].missing()
            no_label = self.columns["label"].missing(label=True)
            left_out = ~self.annotated  # rows of excluded annotators that have gold
            self.annotated = ~(no_annotator & no_label)
            self.record(NO_ANNOTATION, ~self.annotated & ~left_out)
            self._refuse(no_annotator & ~no_label, "annotator", "Every label needs its annotator.")
            unlabelled = no_label & ~no_annotator
            if missing != "drop":
                self._refuse(unlabelled, "label", 'Leave such rows out with `missing="drop"`.')
            elif unlabelled.any():
                self.record(NO_LABEL, unlabelled)
                self.leave_out(unlabelled)
            self.refuse_no_annotation("missing")
        for role in ("text", "task", "item"):
            if role in self.columns:
                self._refuse(self.columns[role].missing(), role, f"Fill in the {role} or take the row out.")

    def refuse_no_annotation(self, why: str) -> None:
        if not self.annotated.any():
            raise self.source.error(f"there is not one annotation in it: every label is {why}.")

    def _refuse(self, missing: Mask, role: str, remedy: str) -> None:
        if missing.any():
            raise self.error(missing, f"no {role} ({int(missing.sum()):,} in all). {remedy}")

    def normalise(self, label_names: list[str]) -> None:
        """Null for blank labels, gold and contexts, and 1 for 1.0 in labels, gold and ids, unless a label is "1.0"."""
        if (ids := self.columns.get("item")) is not None:
            self.columns["item"], changed = ids.whole_numbers()
            self.record(POINT_ZERO.replace("label", "item id"), changed)
        if (context := self.columns.get("context")) is not None:
            self.columns["context"] = context.null_where(context.missing())
        spellings = {*label_names, *([] if self.options is None else written_with_point(self.options))}
        for role in ("label", "gold"):
            if role in self.columns:
                column = self.columns[role]
                column = column.null_where(column.missing(label=True))
                self.columns[role], changed = column.whole_numbers(spellings)
                self.record(POINT_ZERO.replace("label", role), changed)
                # Gold is spelled as the labels are, where they are versions rather than numbers.
                spellings.update(self.columns[role].values.to_pylist())


def _seconds(column: pa.Array, role: str, name: str, ledger: Ledger) -> Floats | None:
    """Times or durations in seconds, where there are any; those that cannot be read are counted in a warning."""
    seconds = (read_times if role == "created_at" else read_durations)(column)
    present = np.asarray(column.is_valid()) & ~is_blank_text(column)
    if lost := int((present & np.isnan(seconds)).sum()):
        ledger.warn(f"column '{name}': {lost:,} of {int(present.sum()):,} times cannot be read and are left out.")
    return seconds if np.isfinite(seconds).any() else None
