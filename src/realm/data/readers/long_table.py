"""The long table that every reader returns: one row per annotation, with its row in the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.columns import Mask, Rows, name_rows
from realm.data.ledger import Ledger
from realm.data.options import LabelForm
from realm.data.readers.files import column_of
from realm.data.roles import ITEM_ROLES, TIME_ROLES, Multi, ReadRequest
from realm.errors import RealmError

NO_ANNOTATIONS = "record without annotations"
NO_ANSWER = "annotation without an answer"
SEVERAL_FIRST = "several answers in one annotation: the first is kept"
SEVERAL_DROPPED = "several answers in one annotation: dropped"


@dataclass(frozen=True)
class LongTable:
    """One row per annotation, a column for each role that is there, and the number of each row in the source.

    `labels` is the label set where the export itself lists it, `label_form` how its labels point at options.
    """

    table: pa.Table
    rows: Rows
    ledger: Ledger
    labels: Sequence[str] | None = None
    label_form: LabelForm = "auto"


def drop_rows(
    columns: Mapping[str, pa.Array], reasons: Mapping[str, Mask], source: str, ledger: Ledger | None = None
) -> LongTable:
    """The long table of an export that has one row per annotation, without the rows in these masks.

    A row goes into the ledger under the first reason that it is dropped for; `ledger` is what there is to say already.
    """
    table, ledger = pa.table(dict(columns)), Ledger() if ledger is None else ledger
    keep = np.ones(len(table), dtype=bool)
    for reason, mask in reasons.items():
        ledger.add(reason, np.flatnonzero(mask & keep) + 1)
        keep &= ~mask
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise RealmError(f"{source}: no row is left ({ledger.reasons()}).")
    return LongTable(table.take(pa.array(rows)), rows + 1, ledger)


@dataclass
class LongTableBuilder:
    """Builds a long table record by record.

    Call `item` for each record, then `annotation` for each annotation of it. Where annotations are not wanted, they
    are ignored and every record is kept; otherwise a record without any is dropped, unless it has gold.
    """

    request: ReadRequest
    source: str
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self._item_fields = self.request.columns(ITEM_ROLES)
        self._row = 0
        self._item: dict[str, Any] = {}
        self._has_annotations = True
        # Of each row of the table: its row in the source, its item, the annotator, the label and the times.
        self._entries: list[tuple[int, dict[str, Any], Any, Any, dict[str, Any]]] = []
        self._multiple: list[int] = []

    def item(self, row: int, fields: Mapping[str, Any], *, item: Any, text: Any, **values: Any) -> None:
        """Begin the record on this row. The request may name some of its `fields` for roles; `values` override them."""
        self._end_record()
        self._row, self._has_annotations = row, False
        by_role = {role: fields.get(name) for role, name in self._item_fields.items()}
        self._item = {"item": item, "text": text, **by_role, **values}
        if not self.request.wants_annotations:
            self._append(None, None)

    def annotation(self, annotator: Any, answers: Any, **times: Any) -> None:
        """One annotation of the current record; `answers` is a value or a list of values.

        `times` are its `created_at` and `lead_time`, as far as the export has them.
        """
        if not self.request.wants_annotations:
            return
        self._has_annotations = True
        values = answers if isinstance(answers, list) else [answers]
        values = [value for value in values if value is not None and value != ""]
        if not values:
            self.ledger.add(NO_ANSWER, [self._row])
            return
        if len(values) > 1:
            self._multiple.append(self._row)
            if self.request.multi == "drop":
                return
        self._append(annotator, values[0], times)

    def drop(self, reason: str) -> None:
        """Leave out an annotation, or the whole of the current record, for this reason."""
        self._has_annotations = True
        if self.request.wants_annotations:
            self.ledger.add(reason, [self._row])

    def _append(self, annotator: Any, label: Any, times: dict[str, Any] | None = None) -> None:
        self._entries.append((self._row, self._item, annotator, label, times or {}))

    def _end_record(self) -> None:
        if self._entries and self._entries[-1][1] is self._item:
            return
        if self._item.get("gold") not in (None, ""):
            self._append(None, None)
        elif not self._has_annotations:
            self.ledger.add(NO_ANNOTATIONS, [self._row])

    def finish(self, labels: Sequence[str] | None = None, label_form: LabelForm = "auto") -> LongTable:
        """The long table. A column in which every cell is empty is left out."""
        self._end_record()
        resolve_multiple(self._multiple, self.request.multi, self.ledger, self.source)
        columns = {name: [item.get(name) for _, item, *_ in self._entries] for name in ("text", *ITEM_ROLES)}
        required = {"text"}
        is_empty = not self._entries
        if self.request.wants_annotations:
            required |= {"annotator", "label"}
            columns["annotator"] = [annotator for _, _, annotator, _, _ in self._entries]
            columns["label"] = [label for _, _, _, label, _ in self._entries]
            columns |= {role: [times.get(role) for *_, times in self._entries] for role in TIME_ROLES}
            is_empty = all(label is None for label in columns["label"])
        if is_empty:
            reasons = f" ({self.ledger.reasons()})" if self.ledger.counts else ""
            raise RealmError(f"{self.source}: there is not one annotation in it{reasons}.")
        arrays = {
            name: column_of(values, name, self.source)
            for name, values in columns.items()
            if name in required or any(value is not None for value in values)
        }
        rows = np.array([row for row, *_ in self._entries], dtype=np.int64)
        return LongTable(pa.table(arrays), rows, self.ledger, labels, label_form)


def resolve_multiple(rows: Iterable[int], multi: Multi | None, ledger: Ledger, source: str) -> None:
    """Annotations with several answers go to the ledger, or are refused with their count."""
    numbers = np.array(list(rows), dtype=np.int64)
    if len(numbers) and multi is None:
        raise RealmError(
            f"{source}, {name_rows(numbers)}: {len(numbers):,} annotations have several answers. "
            'Keep the first of each with `multi="first"`, or leave them out with `multi="drop"`.'
        )
    ledger.add(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, numbers)
