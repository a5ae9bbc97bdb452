"""Plain tables: one row per annotation (long), or one row per item and one column per annotator (wide)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text, blank, in_one, resolve, take_column
from realm.data.ledger import Ledger
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANNOTATIONS, LongTable, resolve_multiple
from realm.data.request import ANNOTATION_ROLES, ROLES, ReadRequest
from realm.errors import RealmError

ITEM_ROLES = tuple(role for role in ROLES if role not in ANNOTATION_ROLES)
NOBODY = -1
"""The cell of a row for an item that no annotator labelled."""


def read_long(file: SourceFile, request: ReadRequest) -> LongTable:
    """One row per annotation. A label that is a list of one is that one; of several, as `multi` says."""
    table, source, ledger = file.table(), file.source, Ledger()
    columns = resolve(request.columns(), request.required, table.column_names, source)
    rows = np.arange(1, len(table) + 1, dtype=np.int64)
    label = columns.get("label")
    if label is not None and request.wants_annotations and len(table):
        cells = in_one(take_column(table, label, source))
        if pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type):
            counts = pc.list_value_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
            resolve_multiple(rows[counts > 1], request.multi, ledger, source)
            first = np.where(counts > 0, np.cumsum(counts) - counts, -1)
            labels = cells.flatten().take(pa.array(first, mask=first < 0))
            table = table.set_column(table.column_names.index(label), label, labels)
            if request.multi == "drop":
                single = np.flatnonzero(counts < 2)
                table, rows = table.take(pa.array(single)), rows[single]
    return LongTable(table.select(_source_columns(table, columns.values())), rows, ledger)


def _source_columns(table: pa.Table, names: Collection[str]) -> list[str]:
    """The table's columns of these names; several may stand in one name (options), comma separated."""
    columns: dict[str, None] = {}
    for name in names:
        for part in [name] if name in table.column_names else name.split(","):
            columns[part if part in table.column_names else part.strip()] = None
    return list(columns)


def read_wide(file: SourceFile, request: ReadRequest, wide: Sequence[str]) -> LongTable:
    """One row per item, one column per annotator; a blank is an annotator who did not label the item."""
    table, source, ledger = file.table(), file.source, Ledger()
    _check_wide(table, request, wide, source)
    names = [name for name in table.column_names if name not in (*wide, *ANNOTATION_ROLES)]
    columns = resolve(request.columns(ITEM_ROLES), ("text",), names, source)
    n_rows, n_annotators = len(table), len(wide)
    cells = pa.concat_arrays([as_text(take_column(table, name, source), name, source) for name in wide])
    row_by_row = pa.array(np.arange(n_rows * n_annotators).reshape(n_annotators, n_rows).T.ravel())
    labels = cells.take(row_by_row)
    has_label = ~blank(labels, nan_words=True)
    cell = np.flatnonzero(has_label)
    row = cell // max(n_annotators, 1)
    if not len(cell):
        raise RealmError(f"{source}: the columns of `wide` are blank on every row.")
    unlabelled = ~has_label.reshape(n_rows, n_annotators).any(1)
    has_gold = _has_gold(table, columns, source)
    ledger.add(NO_ANNOTATIONS, np.flatnonzero(unlabelled & ~has_gold) + 1)
    # An item with gold stays though nobody labelled it, in its place, with neither annotator nor label.
    row = np.concatenate([row, np.flatnonzero(unlabelled & has_gold)])
    cell = np.concatenate([cell, np.full(len(row) - len(cell), NOBODY)])
    order = np.argsort(row, kind="stable")
    row, cell = row[order], cell[order]
    long: dict[str, Any] = {
        name: table.column(name).take(pa.array(row)) for name in _source_columns(table, columns.values())
    }
    annotators = pa.array(list(wide), pa.large_string()).take(pa.array(cell % n_annotators, mask=cell == NOBODY))
    long |= {"annotator": annotators, "label": labels.take(pa.array(cell, mask=cell == NOBODY))}
    return LongTable(pa.table(long), row.astype(np.int64) + 1, ledger)


def _check_wide(table: pa.Table, request: ReadRequest, wide: Sequence[str], source: str) -> None:
    if absent := [name for name in wide if name not in table.column_names]:
        there = ", ".join(table.column_names)
        raise RealmError(f"{source}: `wide={', '.join(absent)}`: there is no such column. The columns are: {there}.")
    for role, named in request.columns(ANNOTATION_ROLES).items():
        raise RealmError(f'{source}: `{role}="{named}"`: not with `wide`, whose columns are the annotators.')
    if len(set(wide)) < len(wide):
        raise RealmError(f"{source}: `wide` lists a column twice.")


def _has_gold(table: pa.Table, columns: dict[str, str], source: str) -> Mask:
    if "gold" not in columns:
        return np.zeros(len(table), dtype=bool)
    return ~blank(as_text(take_column(table, columns["gold"], source), columns["gold"], source), nan_words=True)
