"""Plain tables: one row per annotation (long), or one row per item and one column per annotator (wide)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from realm.data.columns import as_array, as_text, blank, is_list, list_lengths
from realm.data.ledger import Ledger
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANNOTATIONS, LongTable, resolve_multiple
from realm.data.roles import ANNOTATION_ROLES, ITEM_ROLES, ReadRequest, split_columns
from realm.errors import RealmError

NOBODY = -1
"""The cell of a row for an item that no annotator labelled."""


def read_long(file: SourceFile, request: ReadRequest) -> LongTable:
    """One row per annotation. A label that is a list of one is that one; of several, as `multi` says."""
    table, source, ledger = file.table(), file.source, Ledger()
    columns = request.resolve(table.column_names, source)
    rows = np.arange(1, len(table) + 1, dtype=np.int64)
    if "label" in columns and len(table) and is_list(table.column(columns["label"]).type):
        lists = as_array(table.column(columns["label"]))
        counts = list_lengths(lists)
        resolve_multiple(rows[counts > 1], request.multi, ledger, source)
        labels = lists.flatten().take(pa.array(np.cumsum(counts) - counts, mask=counts == 0))
        table = table.set_column(table.column_names.index(columns["label"]), columns["label"], labels)
        if request.multi == "drop":
            single = np.flatnonzero(counts < 2)
            table, rows = table.take(pa.array(single)), rows[single]
    return LongTable(table, rows, ledger)


def _select(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """The columns of these roles, once each; several may stand in one name (options), comma separated."""
    names = table.column_names
    return table.select(list(dict.fromkeys(part for name in columns.values() for part in split_columns(name, names))))


def read_wide(file: SourceFile, request: ReadRequest, wide: Sequence[str]) -> LongTable:
    """One row per item, one column per annotator; a blank is an annotator who did not label the item."""
    table, source, ledger = file.table(), file.source, Ledger()
    _check_wide(table, request, wide, source)
    names = [name for name in table.column_names if name not in (*wide, *ANNOTATION_ROLES)]
    columns = request.resolve(names, source, roles=("text", *ITEM_ROLES))
    n_rows, n_annotators = len(table), len(wide)
    cells = pa.concat_arrays([as_text(table.column(name), name, source) for name in wide])
    row_by_row = pa.array(np.arange(n_rows * n_annotators).reshape(n_annotators, n_rows).T.ravel())
    labels = cells.take(row_by_row)
    has_label = ~blank(labels, nan_words=True)
    cell = np.flatnonzero(has_label)
    if not len(cell):
        raise RealmError(f"{source}: the columns of `wide` are blank on every row.")
    unlabelled = ~has_label.reshape(n_rows, n_annotators).any(1)
    has_gold = np.zeros(n_rows, dtype=bool)
    if gold := columns.get("gold"):
        has_gold = ~blank(as_text(table.column(gold), gold, source), nan_words=True)
    ledger.add(NO_ANNOTATIONS, np.flatnonzero(unlabelled & ~has_gold) + 1)
    # An item with gold stays though nobody labelled it, in its place, with neither annotator nor label.
    row = np.concatenate([cell // n_annotators, np.flatnonzero(unlabelled & has_gold)])
    cell = np.concatenate([cell, np.full(len(row) - len(cell), NOBODY)])
    order = np.argsort(row, kind="stable")
    row, cell = row[order], cell[order]
    annotators = pa.array(list(wide), pa.large_string()).take(pa.array(cell % n_annotators, mask=cell == NOBODY))
    long = _select(table, columns).take(pa.array(row))
    long = long.append_column("annotator", annotators)
    long = long.append_column("label", labels.take(pa.array(cell, mask=cell == NOBODY)))
    return LongTable(long, row + 1, ledger)


def _check_wide(table: pa.Table, request: ReadRequest, wide: Sequence[str], source: str) -> None:
    if absent := [name for name in wide if name not in table.column_names]:
        there = ", ".join(table.column_names)
        raise RealmError(f"{source}: `wide={', '.join(absent)}`: there is no such column. The columns are: {there}.")
    for role, column in request.columns(ANNOTATION_ROLES).items():
        raise RealmError(f'{source}: `{role}="{column}"`: not with `wide`, whose columns are the annotators.')
    if len(set(wide)) < len(wide):
        raise RealmError(f"{source}: `wide` lists a column twice.")
