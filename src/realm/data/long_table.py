"""The long table that every reader returns: one row per annotation, with its row in the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_array, as_text, cell_text, column_of, is_list
from realm.data.ledger import Ledger
from realm.data.options import options_column
from realm.data.read_options import LabelForm, ReadOptions
from realm.data.roles import ITEM_ROLES, ROLES, TIME_ROLES, resolve_columns
from realm.data.source import Rows, Source
from realm.errors import RealmError

NO_ANNOTATIONS = "record without annotations"
NO_ANSWER = "annotation without an answer"
MAY_BE_ABSENT = ("gold", *TIME_ROLES)
"""Roles without which one of several files says the same of its items and annotations, only less."""


@dataclass(frozen=True)
class LongTable:
    """One row per annotation.

    | field | shape | meaning |
    |---|---|---|
    | columns | (rows,) each | the column of each role that is there; of the options, lists |
    | rows | (rows,) | the number of each row in the source |
    | names | | what the column of a role is called in the source, where it is not called like the role |
    | others | (rows,) each | columns of a plain table that have no role |
    | labels, label_form | | the label set that an export lists, and how its labels point at options |
    | repeats | | whether of several labels of one item by one annotator all count, or the last |
    | lists_answers | | several answers are lists: a separator in a cell is part of the label |
    """

    columns: dict[str, pa.Array]
    rows: Rows
    source: Source
    ledger: Ledger
    names: Mapping[str, str] = field(default_factory=dict)
    others: pa.Table | None = None
    labels: Sequence[str] | None = None
    label_form: LabelForm = "auto"
    repeats: Literal["keep", "last"] = "keep"
    lists_answers: bool = False

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
    """The column of each role that is there, and its name. Of a table without texts the ids stand for them, unnamed."""
    names = resolve_columns(options, table.column_names, source, roles)
    columns = {role: table.column(name) for role, name in names.items() if role != "options"}
    if "options" in names:
        columns["options"] = as_array(options_column(table, names["options"], source))
    if "text" not in columns and "item" in columns and options.wants_annotations:
        columns["text"] = columns["item"]
        names["text"] = ""
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
        self._has_annotations = True
        values = answers if isinstance(answers, list) else [answers]
        values = [value for value in values if value is not None and value != ""]
        if not values:
            self.ledger.add(NO_ANSWER, [self._row])
            return
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
        roles = ["text", *ITEM_ROLES]
        required = {"text"}
        if self.options.wants_annotations:
            roles += ["annotator", "label", *TIME_ROLES]
            required |= {"annotator", "label"}
        values = {role: [entry.get(role) for entry in self._entries] for role in roles}
        if not self._entries or ("label" in values and all(label is None for label in values["label"])):
            reasons = f" ({self.ledger.reasons()})" if self.ledger.counts else ""
            raise self.source.error(f"there is not one annotation in it{reasons}.")
        columns = {
            role: column_of(column, role, self.source)
            for role, column in values.items()
            if role in required or any(value is not None for value in column)
        }
        rows = np.array(self._rows, dtype=np.int64)
        return LongTable(columns, rows, self.source, self.ledger, lists_answers=True, **fields)


# ---------------------------------------------------------------- several files


def join(parts: Sequence[LongTable], counts: Sequence[int], formats: Sequence[str], is_export: bool) -> LongTable:
    """One long table of those of several files, rows numbered through them; `counts` are their records. (files,)

    All must have one format and the same columns for what is read. Gold and times may be in some of them only; what a
    file does not have is blank there.
    """
    names = [str(part.source) for part in parts]
    for name, format in zip(names, formats, strict=True):
        if format != formats[0]:
            first, other = ("a plain table" if each == "table" else each for each in (formats[0], format))
            raise RealmError(
                f"{names[0]} was read as {first} and {name} as {other}: files that are "
                "read together must have one format. Write each as a table with `realm check`, and give the tables."
            )
    counts = [max(count, int(part.rows.max(initial=0))) for part, count in zip(parts, counts, strict=True)]
    source = Source.joined(names, counts)
    ledger = _joined_ledger(source, parts)
    columns = {}
    for role in dict.fromkeys(role for part in parts for role in part.columns):
        owner = next(part for part in parts if role in part.columns)
        without = [name for name, part in zip(names, parts, strict=True) if role not in part.columns]
        column = owner.names.get(role, role)
        if without and not is_export:  # of an export a field is left out where it is blank throughout
            if role not in MAY_BE_ABSENT:
                raise RealmError(
                    f"{without[0]}: there is no column '{column}' for the {role}, which {owner.source} has. Files "
                    "that are read together must have the same columns."
                )
            ledger.warn(f"{', '.join(without)}: no column '{column}', so that the {role} is not known there.")
        columns[role] = _concatenated([part.columns.get(role) for part in parts], parts, role)
    rows = np.concatenate([part.rows + start for part, start in zip(parts, source.starts, strict=True)])
    labels = [part.labels for part in parts]
    return replace(
        parts[0],
        columns=columns,
        rows=rows,
        source=source,
        ledger=ledger,
        names={role: name for part in reversed(parts) for role, name in part.names.items()},
        others=_common([part.others for part in parts]),
        labels=None if None in labels else list(dict.fromkeys(label for each in labels for label in each or ())),
        label_form=next((part.label_form for part in parts if part.label_form != "auto"), "auto"),
    )


def _joined_ledger(source: Source, parts: Sequence[LongTable]) -> Ledger:
    joined = Ledger(source=source)
    for start, part in zip(source.starts, parts, strict=True):
        for reason, count in part.ledger.counts.items():
            joined.add(reason, [row + start for row in part.ledger.rows[reason]], count)
    for part in parts:
        for message in part.ledger.warnings:
            in_all = all(message in other.ledger.warnings for other in parts)
            joined.warn(message if in_all else f"{part.source}: {message}")
    return joined


def _concatenated(arrays: Sequence[pa.Array | None], parts: Sequence[LongTable], role: str) -> pa.Array:
    """The column of a role in all files, as text where their types differ: of lists as JSON."""
    kinds = {as_array(each).type for each in arrays if each is not None and not pa.types.is_null(each.type)}
    kind = next(iter(kinds), pa.null()) if len(kinds) <= 1 else pa.large_string()
    cast = []
    for each, part in zip(arrays, parts, strict=True):
        array = None if each is None else as_array(each)
        if array is None or pa.types.is_null(array.type):
            cast.append(pa.nulls(len(part), kind))
        elif array.type == kind:
            cast.append(array)
        elif is_list(array.type):
            cast.append(pa.array(map(cell_text, array.to_pylist()), pa.large_string()))
        else:
            cast.append(as_text(array, part.names.get(role, role), part.source))
    return pa.concat_arrays(cast)


def _common(tables: Sequence[pa.Table | None]) -> pa.Table | None:
    """The columns without a role that all tables have in one type."""
    if any(table is None for table in tables):
        return None
    first, *others = [table for table in tables if table is not None]
    fields = [each for each in first.schema if all(each in list(other.schema) for other in others)]
    names = [each.name for each in fields if first.column_names.count(each.name) == 1]
    return pa.concat_tables([table.select(names) for table in (first, *others)]) if names else None


def is_blank_text(column: pa.Array) -> Mask:
    """Which cells are an empty text. Shape (rows,)."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return np.zeros(len(column), dtype=bool)
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(column), "").fill_null(True))
