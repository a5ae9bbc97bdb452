"""The long table that every reader makes: one row per annotation, with the row of the source that each came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.columns import Rows, name_rows
from realm.data.ledger import Ledger
from realm.data.options import LabelForm
from realm.data.readers.files import column_of
from realm.data.request import Multi, ReadRequest
from realm.errors import RealmError

NO_ANNOTATIONS = "record without annotations"
NO_ANSWER = "annotation without an answer"
SEVERAL_FIRST = "several answers in one annotation: the first is kept"
SEVERAL_DROPPED = "several answers in one annotation: dropped"


@dataclass(frozen=True)
class LongTable:
    """One row per annotation under the canonical names, and the row of the source that each came from.

    `labels` is the label set where the export itself lists it, `label_form` how its labels point at options.
    """

    table: pa.Table
    rows: Rows
    ledger: Ledger
    labels: Sequence[str] | None = None
    label_form: LabelForm = "auto"


@dataclass
class LongTableBuilder:
    """Builds a long table record by record.

    Call `item` for each record, then `annotation` for each annotation of it. Where annotations are not wanted, they
    are ignored and every record is kept; otherwise a record without any is dropped, unless it has gold.
    """

    request: ReadRequest
    source: str
    ledger: Ledger = field(default_factory=Ledger)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    _row: int = 0
    _values: dict[str, Any] = field(default_factory=dict)
    _record_has_annotations: bool = True
    _record_is_in_table: bool = True
    _table_has_annotations: bool = False
    _multiple: list[int] = field(default_factory=list)

    def item(self, row: int, **values: Any) -> None:
        """Begin the record on this row: item, text, context, options, task, gold, as far as they are there."""
        self._end_record()
        self._row, self._values = row, values
        self._record_has_annotations = self._record_is_in_table = False
        if not self.request.wants_annotations:
            self._append()

    def annotation(self, annotator: Any, answers: Any) -> None:
        """One annotation of the current record; `answers` is a value or a list of values."""
        if not self.request.wants_annotations:
            return
        self._record_has_annotations = True
        values = answers if isinstance(answers, list) else [answers]
        values = [value for value in values if value is not None and value != ""]
        if not values:
            self.ledger.add(NO_ANSWER, [self._row])
            return
        if len(values) > 1:
            self._multiple.append(self._row)
            if self.request.multi == "drop":
                return
        self._append(annotator=annotator, label=values[0])
        self._table_has_annotations = True

    def drop(self, reason: str) -> None:
        """Leave out an annotation, or the whole of the current record, for this reason."""
        self._record_has_annotations = True
        if self.request.wants_annotations:
            self.ledger.add(reason, [self._row])

    def _append(self, **annotation: Any) -> None:
        values = {**self._values, **annotation}
        for name in values.keys() - self.columns.keys():
            self.columns[name] = [None] * len(self.rows)
        for name, column in self.columns.items():
            column.append(values.get(name))
        self.rows.append(self._row)
        self._record_is_in_table = True

    def _end_record(self) -> None:
        if self._record_is_in_table or not self.request.wants_annotations:
            return
        if self._values.get("gold") not in (None, ""):
            self._append(annotator=None, label=None)
        elif not self._record_has_annotations:
            self.ledger.add(NO_ANNOTATIONS, [self._row])

    def finish(self, labels: Sequence[str] | None = None, label_form: LabelForm = "auto") -> LongTable:
        """The long table. A column in which every cell is empty is left out."""
        self._end_record()
        self._record_is_in_table = True
        resolve_multiple(self._multiple, self.request.multi, self.ledger, self.source)
        if not (self._table_has_annotations if self.request.wants_annotations else self.rows):
            reasons = "; ".join(f"{count:,} x {reason}" for reason, count in self.ledger.counts.items())
            raise RealmError(f"{self.source}: there is not one annotation in it{f' ({reasons})' if reasons else ''}.")
        columns = {
            name: column_of(values, name, self.source)
            for name, values in self.columns.items()
            if any(value is not None for value in values) or name in ("text", "annotator", "label")
        }
        return LongTable(pa.table(columns), np.array(self.rows, dtype=np.int64), self.ledger, labels, label_form)


def resolve_multiple(rows: Iterable[int], multi: Multi | None, ledger: Ledger, source: str) -> None:
    """Annotations with several answers go to the ledger, or are refused with their count."""
    several = np.array(list(rows), dtype=np.int64)
    if not len(several):
        return
    if multi is None:
        raise RealmError(
            f"{source}, {name_rows(several)}: {len(several):,} annotations have several answers. "
            'Keep the first of each with `multi="first"`, or leave them out with `multi="drop"`.'
        )
    ledger.add(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, several.tolist())
