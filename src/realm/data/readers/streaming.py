"""A plain table of items read in chunks, in the memory of one chunk; exports and JSON are read whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.build import build_items_of_rows
from realm.data.items import Items, Task
from realm.data.read_options import checked
from realm.data.readers import EXPORTS, build_files, detect_format
from realm.data.readers.files import open_bytes

CHUNK_ROWS = 16_384
"""Rows of a chunk: enough that the cost of a chunk is that of its rows, few enough that texts of 5 kB take 80 MB."""


@dataclass(frozen=True)
class RowChunk:
    """Rows of a file: its own columns (rows,) and the item that each row shows (rows,).

    An item that several rows show is there several times. Of an export there is a row for each item.
    """

    table: pa.Table
    items: Items

    def __len__(self) -> int:
        return len(self.items)


def stream_rows(
    path: str | Path, *, tasks: Sequence[Task], chunk_rows: int | None = None, **arguments: Any
) -> Iterator[RowChunk]:
    """The rows of a file in chunks of at most `chunk_rows` (by default 16,384), in order and with their own columns.

    `tasks` are those of the model that will answer; the other arguments are those of `Items.read`.
    """
    options = checked(None, arguments, wants="items", tasks=tasks)
    file = open_bytes(Path(path), options.encoding, options.max_unpacked_gb)
    n_rows, size = 0, chunk_rows or CHUNK_ROWS
    for each in file.parts(size):
        rows = each.table()
        part = replace(each, content=rows)
        if not n_rows and (options.format in EXPORTS or (options.format is None and detect_format(part) is not None)):
            items = build_files([file.read()], options).items
            own = {"item": items.ids, "text": items.texts, "context": items.contexts, "options": items.options}
            yield RowChunk(pa.table({name: column for name, column in own.items() if column is not None}), items)
            return
        for start in range(0, len(rows), size):
            table = rows.slice(start, size)
            numbers = np.arange(n_rows + 1, n_rows + len(table) + 1, dtype=np.int64)
            yield RowChunk(table, build_items_of_rows(table, options, file.source, numbers))
            n_rows += len(table)
    if not n_rows:
        raise file.source.error("there are no rows in it.")
