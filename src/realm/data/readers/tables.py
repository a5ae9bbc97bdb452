"""Plain tables: one row per annotation (long), or one row per item and one column per annotator (wide)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.build import REQUIRED, UNREAD
from realm.data.columns import ROLES, Mask, as_text, blank, in_one, resolve, take_column
from realm.data.ledger import Ledger
from realm.data.readers.collect import NO_ANNOTATIONS, Asked, Long, settle_several
from realm.data.readers.files import Opened
from realm.errors import RealmError

OF_ITEM = ("item", "text", "task", "gold", "options", "context")
NOBODY = -1


def read_long(opened: Opened, asked: Asked) -> Long:
    """One row per annotation. A label that is a list of one is that one; of several, as --multi says."""
    table, source, ledger = opened.table(), opened.source, Ledger()
    given = {role: None if role in UNREAD[asked.need] else getattr(asked, role) for role in ROLES}
    chosen = resolve(given, REQUIRED[asked.need], table.column_names, source)
    rows = np.arange(1, len(table) + 1, dtype=np.int64)
    label = chosen.get("label")
    if label is not None and asked.need == "annotations" and len(table):
        column = in_one(take_column(table, label, source))
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
            settle_several(rows[counts > 1], asked.multi, ledger, source)
            at = np.where(counts > 0, np.cumsum(counts) - counts, -1)
            index = pa.array(at, mask=at < 0)
            table = table.set_column(table.column_names.index(label), label, column.flatten().take(index))
            if asked.multi == "drop":
                kept = np.flatnonzero(counts < 2)
                table, rows = table.take(pa.array(kept)), rows[kept]
    return Long(_mapped(table, chosen), rows, ledger)


def _mapped(table: pa.Table, chosen: dict[str, str]) -> pa.Table:
    """The columns that are needed, and no other, under their own names."""
    wanted = list(dict.fromkeys(n for name in chosen.values() for n in _parts(table, name)))
    return table.select(wanted)


def _parts(table: pa.Table, name: str) -> list[str]:
    if name in table.column_names:
        return [name]
    return [part if part in table.column_names else part.strip() for part in name.split(",")]


def read_wide(opened: Opened, asked: Asked, wide: Sequence[str]) -> Long:
    """One row per item, one column per annotator; a blank is an annotator who did not label the item."""
    table, source, ledger = opened.table(), opened.source, Ledger()
    if absent := [name for name in wide if name not in table.column_names]:
        there = ", ".join(table.column_names)
        raise RealmError(f"{source}: --wide {', '.join(absent)}: there is no such column. The columns are: {there}.")
    for role in ("annotator", "label"):
        if (named := getattr(asked, role)) is not None:
            raise RealmError(f"{source}: --{role} {named}: not with --wide, whose columns are the annotators.")
    if len(set(wide)) < len(wide):
        raise RealmError(f"{source}: --wide lists a column twice.")
    given = {role: getattr(asked, role) for role in ROLES if role in OF_ITEM}
    names = [name for name in table.column_names if name not in wide]
    chosen = resolve(given, ("text",), names, source)
    n_rows, n_people = len(table), len(wide)
    cells = pa.concat_arrays([as_text(take_column(table, name, source), name, source) for name in wide])
    row_by_row = pa.array(np.arange(n_rows * n_people).reshape(n_people, n_rows).T.ravel())
    labels = cells.take(row_by_row)
    given_label = ~blank(labels, nan_words=True)
    kept = np.flatnonzero(given_label)
    row = kept // max(n_people, 1)
    if not len(kept):
        raise RealmError(f"{source}: the columns of --wide are blank on every row.")
    bare = ~given_label.reshape(n_rows, n_people).any(1)
    known = _with_gold(table, chosen, source)
    ledger.add(NO_ANNOTATIONS, np.flatnonzero(bare & ~known) + 1)
    # An item with gold stays though nobody labelled it, in its place, with neither annotator nor label.
    row = np.concatenate([row, np.flatnonzero(bare & known)])
    kept = np.concatenate([kept, np.full(len(row) - len(kept), NOBODY)])
    order = np.argsort(row, kind="stable")
    row, kept = row[order], kept[order]
    made: dict[str, Any] = {
        name: table.column(name).take(pa.array(row)) for name in _mapped(table, chosen).column_names
    }
    people = pa.array(list(wide), pa.large_string()).take(pa.array(kept % n_people, mask=kept == NOBODY))
    made |= {"annotator": people, "label": labels.take(pa.array(kept, mask=kept == NOBODY))}
    return Long(pa.table(made), row.astype(np.int64) + 1, ledger)


def _with_gold(table: pa.Table, chosen: dict[str, str], source: str) -> Mask:
    if "gold" not in chosen:
        return np.zeros(len(table), dtype=bool)
    return ~blank(as_text(take_column(table, chosen["gold"], source), chosen["gold"], source), nan_words=True)
