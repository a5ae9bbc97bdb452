"""A plain table of items read in chunks, so that its rows need the memory of one chunk.

Chunks hold every row of the table, in order, with its own columns. Exports, JSON documents and zips are read whole.
"""

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
from realm.data.readers import EXPORTS, detect_format, export_rows
from realm.data.readers.files import CONTAINERS, SourceFile, open_unread

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
    """The rows of a file in chunks of at most `chunk_rows` (by default 16,384).

    `tasks` are those of the model that will answer; the other arguments are those of `Items.read`.
    """
    options = checked(None, arguments, wants="items", tasks=tasks)
    path = Path(path)
    container = CONTAINERS.get(options.format or "")
    unread = open_unread(path, container, options.max_unpacked_gb, options.encoding)
    file = unread[0]
    is_export = options.format in EXPORTS
    if len(unread) == 1 and not is_export:
        n_rows = 0
        for table in file.parts(chunk_rows or CHUNK_ROWS):
            first = SourceFile(file.path, file.source, table)
            if not n_rows and options.format is None and detect_format(first) is not None:
                is_export = True
                break
            rows = np.arange(n_rows + 1, n_rows + len(table) + 1, dtype=np.int64)
            yield RowChunk(table, build_items_of_rows(table, options, file.source, rows))
            n_rows += len(table)
        if n_rows:
            return
        if not is_export:
            raise file.source.error("there are no rows in it.")
    items = export_rows([each.read() for each in unread], replace(options, tasks=tasks), path)
    own = {"item": items.ids, "text": items.texts, "context": items.contexts, "options": items.options}
    yield RowChunk(pa.table({name: column for name, column in own.items() if column is not None}), items)
