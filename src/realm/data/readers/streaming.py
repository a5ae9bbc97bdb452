"""A plain table of items read in chunks, so that a file of any length takes the memory of one chunk.

Chunks hold what the whole table would: an item is yielded once, where it first appears, and its id means one item
throughout. Earlier items are remembered on disk. Exports, JSON documents, and tables whose quoting cannot be settled
without the whole file are read whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.data.build import build_items
from realm.data.items import Items, Task
from realm.data.readers import CONTAINERS, detect_format, read_items
from realm.data.readers.delimited import first_record, read_delimited, row_ends
from realm.data.readers.files import (
    BOM,
    HEAD_BYTES,
    UTF_16,
    Container,
    SourceFile,
    container_of,
    is_archive,
    parquet_batches,
    parse_line,
    reading_parquet,
)
from realm.data.readers.unpacking import GZIP, Limits, in_arrow, open_stream, reading
from realm.errors import RealmError

CHUNK_ROWS = 16_384
"""Rows of a chunk: enough that the cost of a chunk is that of its rows, few enough that texts of 5 kB take 80 MB."""
BLOCK = 1 << 20
"""Bytes read from a file at a time: 1 MB, where larger reads are no faster."""
QUERY_KEYS = 500
"""Keys of one SQL query: below the 999 parameters that older SQLite libraries allow."""


def stream_items(
    path: str | Path,
    *,
    tasks: Sequence[Task],
    chunk_rows: int | None = None,
    format: str | None = None,
    max_unpacked_gb: float | None = None,
    **arguments: Any,
) -> Iterator[Items]:
    """The items of a file in chunks of at most `chunk_rows` rows (by default 16,384).

    `tasks` are those of the model that will answer; `arguments` is what `Items.read` takes.
    """
    path, limits = Path(path), Limits(max_unpacked_gb)
    whole = {"tasks": tasks, "format": format, "max_unpacked_gb": max_unpacked_gb, **arguments}
    try:
        if (tables := _plain_tables(path, format, chunk_rows or CHUNK_ROWS, limits)) is not None:
            columns = {name: value for name, value in arguments.items() if name not in ("wide", "multi", "rejected")}
            yield from _chunks(tables, str(path), tasks=tasks, **columns)
            return
    except RealmError:
        # Only a reading of the whole file can name rows and lines as they are in it, and count them.
        read_items(path, **whole)
        raise
    yield read_items(path, **whole)


def _chunks(tables: Iterator[pa.Table], source: str, **columns: Any) -> Iterator[Items]:
    earlier, n_rows = _EarlierItems(source), 0
    for table in tables:
        rows = np.arange(n_rows + 1, n_rows + len(table) + 1, dtype=np.int64)
        chunk = build_items(table, source=source, rows=rows, **columns)
        n_rows += len(table)
        if len(new := earlier.new(chunk)):
            yield chunk if len(new) == len(chunk) else chunk.take(new)


def _plain_tables(path: Path, format: str | None, chunk_rows: int, limits: Limits) -> Iterator[pa.Table] | None:
    """The chunks of a plain table; None for a file that must be read whole, and for the export of a tool."""
    kind = _container(path, format, limits)
    if kind is None:
        return None
    if kind == "parquet":
        tables = _parquet(path, chunk_rows, limits)
    elif kind == "jsonl":
        tables = _json_lines(path, chunk_rows, limits)
    else:
        tables = _delimited(path, kind, chunk_rows, limits)
    first = next(tables, None)
    if first is None or (format is None and detect_format(SourceFile(path, str(path), first)) is not None):
        return None
    return chain([first], tables)


def _container(path: Path, format: str | None, limits: Limits) -> Container | None:
    """The container of a file that can be read in chunks; None for one that must be read whole."""
    if not os.path.isfile(path) or is_archive(path):  # a pipe can be read once only
        return None
    if format not in (None, "table", *CONTAINERS):
        return None
    try:
        with path.open("rb") as file:
            is_gzip = file.read(len(GZIP)) == GZIP
        with reading(path), open_stream(path, limits) as stream:
            head = stream.read(HEAD_BYTES)
    except (OSError, RealmError):  # the reading of the whole file says what is wrong
        return None
    start = head.removeprefix(BOM).lstrip()[:1]
    if not start or head.startswith(UTF_16):
        return None
    kind = CONTAINERS.get(format or "") or container_of(path, head)
    needs_whole = kind == "json" or (kind == "parquet" and is_gzip) or (kind == "jsonl" and start == b"[")
    return None if needs_whole else kind


# ---------------------------------------------------------------- containers


def _parquet(path: Path, chunk_rows: int, limits: Limits) -> Iterator[pa.Table]:
    with reading_parquet(str(path)), pa.memory_map(os.fsencode(path)) as file:
        for batch in parquet_batches(file, chunk_rows, str(path), limits, streamed=True):
            yield pa.Table.from_batches([batch])


def _json_lines(path: Path, chunk_rows: int, limits: Limits) -> Iterator[pa.Table]:
    """Every chunk has every field that some record has, as the whole table would."""
    names: dict[str, None] = {}
    for record in _records(path, limits):
        names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
    records = _records(path, limits)
    while chunk := list(islice(records, chunk_rows)):
        yield _table_of(chunk, names, path)


def _records(path: Path, limits: Limits) -> Iterator[Any]:
    with reading(path), open_stream(path, limits) as file:
        for number, line in enumerate(file, 1):
            if (line := line.removeprefix(BOM) if number == 1 else line).strip():
                yield parse_line(line, number, str(path))


def _table_of(records: list[Any], names: dict[str, None], path: Path) -> pa.Table:
    table = SourceFile(path, str(path), records).table()
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table)))
    return table.select(list(names))


def _delimited(path: Path, kind: str, chunk_rows: int, limits: Limits) -> Iterator[pa.Table]:
    """Whole rows behind the header, cut at line ends that are not within quotes."""
    with reading(path), open_stream(path, limits) as file:
        data = file.read(BLOCK).removeprefix(BOM)
        header = first_record(pa.py_buffer(data)) + b"\n"
        data = data[len(data) - len(data.lstrip(b"\r\n")) + len(header) :]
        while True:
            block = file.read(BLOCK)
            ends = row_ends(data, header, kind)
            if ends is None:  # quotes in places that only a reading of the whole can make sense of
                yield read_delimited(in_arrow(header + data + block + file.read()), kind, str(path))
                return
            cuts = ends[chunk_rows - 1 :: chunk_rows].tolist()
            start = 0
            for cut in cuts if block else [*cuts, len(data)]:
                if data[start:cut].strip():
                    yield read_delimited(in_arrow(header + data[start:cut]), kind, str(path))
                start = cut
            if not block:
                return
            data = data[start:] + block


# ---------------------------------------------------------------- earlier items


class _EarlierItems:
    """The items of earlier chunks: digests of each one's task and id and of its content, in a temporary database."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.database = sqlite3.connect("", isolation_level=None)
        self.database.execute("pragma journal_mode = off")
        self.database.execute("create table items (item blob primary key, content blob) without rowid")

    def new(self, chunk: Items) -> npt.NDArray[np.int64]:
        """The indices of the items that no earlier chunk had; an id that now shows something else is an error."""
        keys, contents = [], []
        for task, item in zip(chunk.item_tasks.tolist(), chunk, strict=True):
            keys.append(_digest([task, item.id]))
            contents.append(_digest([item.text, item.context, item.options]))
        earlier: dict[bytes, bytes] = {}
        for start in range(0, len(keys), QUERY_KEYS):
            batch = keys[start : start + QUERY_KEYS]
            marks = ",".join("?" * len(batch))
            earlier.update(self.database.execute(f"select item, content from items where item in ({marks})", batch))
        for index, key in enumerate(keys):
            if earlier.get(key, contents[index]) != contents[index]:
                raise RealmError(f"{self.source}: the item '{chunk.ids[index].as_py()}' shows two different things.")
        new = [index for index, key in enumerate(keys) if key not in earlier]
        self.database.executemany("insert into items values (?, ?)", [(keys[index], contents[index]) for index in new])
        return np.array(new, dtype=np.int64)


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).digest()  # 16 bytes: no two items collide
