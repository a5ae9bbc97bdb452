"""A plain table of items read in chunks, so that a file of any length takes the memory of one chunk.

Chunks hold every row of the table, in order, with its own columns. Exports, JSON documents, and tables whose quoting
cannot be settled without the whole file are read whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.build import build_rows
from realm.data.items import Items, Task
from realm.data.readers import CONTAINERS, detect_format, read_rows
from realm.data.readers.delimited import first_record, read_delimited, row_ends
from realm.data.readers.encodings import BOM, HEAD_BYTES, UTF_16
from realm.data.readers.files import (
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
    path: str | Path,
    *,
    tasks: Sequence[Task],
    chunk_rows: int | None = None,
    format: str | None = None,
    max_unpacked_gb: float | None = None,
    encoding: str | None = None,
    **columns: Any,
) -> Iterator[RowChunk]:
    """The rows of a file in chunks of at most `chunk_rows` (by default 16,384).

    `tasks` are those of the model that will answer; `columns` names the column of a role, as for `Items.read`. Text in
    another encoding than UTF-8 is read whole.
    """
    path, limits = Path(path), Limits(max_unpacked_gb)
    whole = {"tasks": tasks, "format": format, "max_unpacked_gb": max_unpacked_gb, "encoding": encoding, **columns}
    try:
        if encoding is None and (tables := _plain_tables(path, format, chunk_rows or CHUNK_ROWS, limits)) is not None:
            n_rows = 0
            for table in tables:
                rows = np.arange(n_rows + 1, n_rows + len(table) + 1, dtype=np.int64)
                yield RowChunk(table, build_rows(table, tasks=tasks, source=str(path), rows=rows, **columns))
                n_rows += len(table)
            return
    except RealmError:
        # Only a reading of the whole file can name rows and lines as they are in it, and count them.
        read_rows(path, **whole)
        raise
    yield RowChunk(*read_rows(path, **whole))


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
