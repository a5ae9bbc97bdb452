"""Which rows are of the same item: those with one id, or else with the same task, text, context and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from realm.data.categorical import Categorical, Codes, combine, encode
from realm.data.columns import Rows
from realm.data.options import option_keys
from realm.errors import RealmError

HEX_DIGITS = 16
"""Of a 64-bit hash."""


@dataclass(frozen=True)
class AssignedItems:
    """The item of every row (rows,), the row on which each item first appears (items,), and their ids (items,)."""

    item_of_row: Codes
    first_row: Codes
    ids: pa.LargeStringArray


def assign_items(
    columns: Mapping[str, Categorical],
    options: pa.LargeListArray | None,
    task_of_row: Codes,
    numbers: Rows,
    source: str,
) -> AssignedItems:
    """Tell the items apart: by (task, id) where there is an id column, else by task, text, context and options."""
    keys = None if options is None else option_keys(options)
    parts = {"text": columns["text"].codes}
    if "context" in columns:
        parts["context"] = columns["context"].codes
    if keys is not None:
        parts["options"] = encode(keys)[0]
    if "item" not in columns:
        item_of_row, first = combine([task_of_row, *parts.values()])
        return AssignedItems(item_of_row, first, _hashed_ids(columns, keys, first))
    item_of_row, first = combine([task_of_row, columns["item"].codes])
    for name, codes in parts.items():
        if (differing := np.flatnonzero(codes != codes[first][item_of_row])).size:
            row = int(differing[0])
            both = f"rows {numbers[first[item_of_row[row]]]} and {numbers[row]}"
            hint = " If it means one item per task, name the task column with `task`." if name == "text" else ""
            raise RealmError(
                f"{source}, {both}: the item '{columns['item'].at(row)}' has two "
                f"different {name.removesuffix('s')}s. An id must mean one item.{hint}"
            )
    return AssignedItems(item_of_row, first, columns["item"].take(first))


def _hashed_ids(
    columns: Mapping[str, Categorical], keys: pa.LargeStringArray | None, first: Codes
) -> pa.LargeStringArray:
    """Ids of items that came without: a hash of what is shown, so that the same item has it in every table.

    The hash combines 64-bit hashes of the columns as Java combines those of a list: 31 * sum + next.
    """
    import pandas as pd

    shown = [columns["text"].take(first)]
    if "context" in columns:
        shown.append(columns["context"].take(first).fill_null(""))
    key = np.zeros(len(first), dtype=np.uint64)
    for part in shown:
        key = key * np.uint64(31) + pd.util.hash_array(part.to_numpy(zero_copy_only=False), categorize=False)
    if keys is not None:
        own = keys.take(pa.array(first)).fill_null("").to_numpy(zero_copy_only=False)
        # Without options of its own an item has the id it has in a table without such a column.
        key = np.where(own == "", key, key * np.uint64(31) + pd.util.hash_array(own, categorize=False))
    digits = key.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(first) + 1, dtype=np.int64) * HEX_DIGITS
    return pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(digits))
