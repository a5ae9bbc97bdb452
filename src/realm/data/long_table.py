"""The long table that every reader returns, one row per annotation, and its rows on their way into `Annotations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from realm.data.columns import (
    Categorical,
    Codes,
    Mask,
    as_array,
    as_text,
    blank,
    cell_text,
    column_of,
    is_list,
    is_text,
)
from realm.data.ledger import ROWS_KEPT, Ledger
from realm.data.options import parse_options
from realm.data.read_options import LabelForm, ReadOptions
from realm.data.roles import ITEM_ROLES, ROLES, TIME_ROLES, Corrections, resolve_columns, split_columns
from realm.data.source import Rows, Source
from realm.data.times import Floats, read_durations, read_times
from realm.errors import RealmError

NO_ANNOTATIONS = "record without annotations"
NO_ANSWER = "annotation without an answer"
MAY_BE_ABSENT = ("gold", *TIME_ROLES)
"""Roles without which one of several files says the same of its items and annotations, only less."""


@dataclass(frozen=True)
class LongTable:
    """One row per annotation; arrays have one entry for each."""

    columns: dict[str, pa.Array]  # of each role that is there; of the options, lists
    rows: Rows  # the number of each row in the source
    source: Source
    ledger: Ledger
    names: Mapping[str, str] = field(default_factory=dict)  # of columns that are not called like their role
    others: pa.Table | None = None  # columns of a plain table that have no role
    labels: Sequence[str] | None = None  # the label set that an export lists
    label_form: LabelForm = "auto"  # how its labels point at an item's own options
    repeats: Literal["keep", "last"] = "keep"  # of several labels of one item by one annotator
    lists_answers: bool = False  # several answers are lists: a separator in a cell is part of the label

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, mask: Mask) -> LongTable:
        """The rows where `mask` is true."""
        columns = {role: column.filter(pa.array(mask)) for role, column in self.columns.items()}
        others = None if self.others is None else self.others.filter(pa.array(mask))
        return replace(self, columns=columns, rows=self.rows[mask], others=others)


def columns_of(
    table: pa.Table, options: ReadOptions, source: Source, roles: Sequence[str] = ROLES
) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """The column of each role that is there, and its name. Of a table without texts the ids stand for them, unnamed.

    Options that are in several columns, one option each, become one column of lists.
    """
    names = resolve_columns(options, table.column_names, source, roles)
    columns = {}
    for role, name in names.items():
        if role == "options" and name not in table.column_names:
            parts = split_columns(name, table.column_names)
            cells = zip(*(as_text(table.column(part), part, source).to_pylist() for part in parts), strict=True)
            columns[role] = pa.array([[cell for cell in row if cell] for row in cells], pa.list_(pa.string()))
        else:
            columns[role] = table.column(name)
    if "text" not in columns and "item" in columns and options.wants_annotations:
        columns["text"], names["text"] = columns["item"], ""
    return columns, names


def without_rows(
    columns: Mapping[str, pa.Array], reasons: Mapping[str, Mask], source: Source, **fields: Any
) -> LongTable:
    """The long table of an export that has one row per annotation, without the rows in these masks.

    A row goes into the ledger under the first reason that it is dropped for.
    """
    ledger, n_rows = Ledger(), len(next(iter(columns.values())))
    keep = np.ones(n_rows, dtype=bool)
    for reason, mask in reasons.items():
        ledger.add(reason, np.flatnonzero(mask & keep) + 1)
        keep &= ~mask
    if not keep.any():
        raise source.error(f"no row is left ({ledger.reasons()}).")
    rows = np.arange(1, n_rows + 1, dtype=np.int64)
    return LongTable(dict(columns), rows, source, ledger, **fields).take(keep)


@dataclass
class LongTableBuilder:
    """Builds a long table record by record.

    Call `item` for each record, then `annotation` for each annotation of it. Where annotations are not wanted, they
    are ignored and every record is kept; otherwise a record without any is dropped, unless it has gold.
    """

    options: ReadOptions
    source: Source
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self._item_fields = self.options.columns(ITEM_ROLES)
        self._row = 0
        self._item: dict[str, Any] = {}
        self._has_annotations = True
        self._rows: list[int] = []
        self._entries: list[dict[str, Any]] = []

    def item(self, row: int, fields: Mapping[str, Any], *, item: Any, text: Any, **values: Any) -> None:
        """Begin the record on this row. The options may name some of its `fields` for roles; `values` override them."""
        self._end_record()
        self._row, self._has_annotations = row, False
        by_role = {role: fields.get(name) for role, name in self._item_fields.items()}
        self._item = {"item": item, "text": text, **by_role, **values}
        if not self.options.wants_annotations:
            self._append()

    def annotation(self, annotator: Any, answers: Any, **times: Any) -> None:
        """One annotation of the current record; `answers` is a value or a list of values.

        `times` are its `created_at` and `lead_time`, as far as the export has them.
        """
        if not self.options.wants_annotations:
            return
        values = answers if isinstance(answers, list) else [answers]
        values = [value for value in values if value is not None and value != ""]
        if not values:
            self.drop(NO_ANSWER)
            return
        self._has_annotations = True
        self._append(annotator=annotator, label=values[0] if len(values) == 1 else values, **times)

    def drop(self, reason: str) -> None:
        """Leave out an annotation, or the whole of the current record, for this reason."""
        self._has_annotations = True
        if self.options.wants_annotations:
            self.ledger.add(reason, [self._row])

    def _append(self, **annotation: Any) -> None:
        self._rows.append(self._row)
        self._entries.append({**self._item, **annotation})

    def _end_record(self) -> None:
        if self._rows and self._rows[-1] == self._row:
            return
        if self._item.get("gold") not in (None, ""):
            self._append()
        elif not self._has_annotations:
            self.ledger.add(NO_ANNOTATIONS, [self._row])

    def finish(self, **fields: Any) -> LongTable:
        """The long table. A column in which every cell is empty is left out; `fields` are more of the table's."""
        self._end_record()
        wanted = self.options.wants_annotations
        required = ("text", "annotator", "label") if wanted else ("text",)
        columns = {}
        for role in (*required, *ITEM_ROLES, *(TIME_ROLES if wanted else ())):
            values = [entry.get(role) for entry in self._entries]
            if role in required or any(value is not None for value in values):
                columns[role] = column_of(values, role, self.source)
        if not self._entries or (wanted and all(entry.get("label") is None for entry in self._entries)):
            reasons = f" ({self.ledger.reasons()})" if self.ledger.counts else ""
            raise self.source.error(f"there is not one annotation in it{reasons}.")
        rows = np.array(self._rows, dtype=np.int64)
        return LongTable(columns, rows, self.source, self.ledger, lists_answers=True, **fields)


def join(parts: Sequence[LongTable], counts: Sequence[int], formats: Sequence[str], is_export: bool) -> LongTable:
    """One long table of those of several files, rows numbered through them; `counts` are their records. (files,)

    All must have one format and the same columns for what is read. Gold and times may be in some of them only; what a
    file does not have is null there, and of an export a field is left out where it is blank throughout.
    """
    names = [str(part.source) for part in parts]
    if len(set(formats)) > 1:
        read_as = ", ".join(f"{name} as {format}" for name, format in zip(names, formats, strict=True))
        raise RealmError(f"files that are read together must have one format, and these were read: {read_as}.")
    source = Source.joined(
        names, [max(n, int(part.rows.max(initial=0))) for part, n in zip(parts, counts, strict=True)]
    )
    ledger, columns = Ledger(source=source), {}
    for start, part in zip(source.starts, parts, strict=True):
        for reason, count in part.ledger.counts.items():
            ledger.add(reason, [row + start for row in part.ledger.rows[reason]], count)
        for message in part.ledger.warnings:
            in_all = all(message in other.ledger.warnings for other in parts)
            ledger.warn(message if in_all else f"{part.source}: {message}")
    for role in dict.fromkeys(role for part in parts for role in part.columns):
        if not is_export and (without := [str(part.source) for part in parts if role not in part.columns]):
            column = next(part.names.get(role, role) for part in parts if role in part.columns)
            message = f"{', '.join(without)}: there is no column '{column}' for the {role}, which other files have."
            if role not in MAY_BE_ABSENT:
                raise RealmError(message)
            ledger.warn(message)
        columns[role] = _concatenated(parts, role)
    labels = list(dict.fromkeys(label for part in parts for label in part.labels or ()))
    return replace(
        parts[0],
        columns=columns,
        rows=np.concatenate([part.rows + start for part, start in zip(parts, source.starts, strict=True)]),
        source=source,
        ledger=ledger,
        names={role: name for part in reversed(parts) for role, name in part.names.items()},
        others=None,
        labels=labels if all(part.labels is not None for part in parts) else None,
        label_form=next((part.label_form for part in parts if part.label_form != "auto"), "auto"),
    )


def _concatenated(parts: Sequence[LongTable], role: str) -> pa.Array:
    """The column of a role in all files, as text where their types differ: of lists as JSON."""
    arrays = [as_array(part.columns.get(role, pa.nulls(len(part)))) for part in parts]
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        arrays = [
            pa.array(map(cell_text, array.to_pylist()), pa.large_string())
            if is_list(array.type)
            else as_text(array, role, part.source)
            for array, part in zip(arrays, parts, strict=True)
        ]
        kinds = {pa.large_string()}
    kind = next(iter(kinds), pa.null())
    return pa.concat_arrays([array.cast(kind) for array in arrays])


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
