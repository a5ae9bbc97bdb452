"""A plain table of items read in chunks, so that a file of any length takes the memory of one chunk.

Chunks hold what the whole table would: an item is yielded once, where it first appears, and its id means one item
throughout. Earlier items are remembered on disk. Exports, JSON documents, and tables whose quoting cannot be settled
without the whole file are read whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from realm.data.build import build_items
from realm.data.items import Items, Task
from realm.data.readers import read_items
from realm.data.readers.archives import is_archive
from realm.data.readers.delimited import first_record, read_delimited, row_ends
from realm.data.readers.files import BOM, SUFFIXES, Container, SourceFile, guess, parse_line
from realm.data.readers.formats import CONTAINERS, detect_format
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
    **arguments: Any,
) -> Iterator[Items]:
    """The items of a file in chunks of at most `chunk_rows` rows (by default 16,384).

    `tasks` are those of the model that will answer; `arguments` is what `Items.read` takes.
    """
    path = Path(path)
    try:
        kind = _container(path, format)
        tables = None if kind is None else _plain(_tables(path, kind, chunk_rows or CHUNK_ROWS), path, format)
        if tables is not None:
            columns = {name: value for name, value in arguments.items() if name not in ("wide", "multi", "rejected")}
            yield from _chunks(tables, str(path), tasks=tasks, **columns)
            return
    except RealmError:
        # Only a reading of the whole file can name rows and lines as they are in it, and count them.
        read_items(path, tasks=tasks, format=format, **arguments)
        raise
    yield read_items(path, tasks=tasks, format=format, **arguments)


def _chunks(tables: Iterable[pa.Table], source: str, **columns: Any) -> Iterator[Items]:
    earlier = _EarlierItems(source)
    done = 0
    for table in tables:
        rows = np.arange(done + 1, done + len(table) + 1, dtype=np.int64)
        chunk = build_items(table, source=source, rows=rows, **columns)
        done += len(table)
        if len(new := earlier.new(chunk)):
            yield chunk if len(new) == len(chunk) else chunk.take(new)


def _container(path: Path, format: str | None) -> Container | None:
    """The container of a file that can be read in chunks; None for one that must be read whole."""
    if not os.path.isfile(path) or is_archive(path):  # a pipe can be read once only
        return None
    if format not in (None, "table", *CONTAINERS):
        return None
    named = CONTAINERS.get(format or "") or SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    try:
        with _bytes(path) as file:
            head = file.read(4096)
            compressed = isinstance(file, gzip.GzipFile)
    except (OSError, EOFError, zlib.error):  # the whole reading says what is wrong
        return None
    if not head.removeprefix(BOM).strip() or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    kind = named or guess(head)
    if kind == "json" or (kind == "parquet" and compressed):
        return None
    listed = kind == "jsonl" and head.removeprefix(BOM).lstrip()[:1] == b"["
    return None if listed else kind


def _plain(tables: Iterator[pa.Table], path: Path, format: str | None) -> Iterator[pa.Table] | None:
    """The tables, unless the first bears the signature of a tool's export."""
    first = next(tables, None)
    if first is None:
        return None
    if format is None and detect_format(SourceFile(path, str(path), first)) is not None:
        return None

    def every() -> Iterator[pa.Table]:
        yield first
        yield from tables

    return every()


def _tables(path: Path, kind: Container, chunk_rows: int) -> Iterator[pa.Table]:
    if kind == "parquet":
        return _parquet(path, chunk_rows)
    return _json_lines(path, chunk_rows) if kind == "jsonl" else _delimited(path, kind, chunk_rows)


def _bytes(path: Path) -> gzip.GzipFile | BufferedReader:
    """The file's bytes, decompressed where they need be."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")


# ------------------------------------------------------------------------------------------------ containers


def _parquet(path: Path, chunk_rows: int) -> Iterator[pa.Table]:
    try:
        with path.open("rb") as file:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=chunk_rows):
                yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise RealmError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0][:200]}).") from None


def _json_lines(path: Path, chunk_rows: int) -> Iterator[pa.Table]:
    """Every chunk has every field that some record has, as the whole table would."""
    names: dict[str, None] = {}
    for record in _records(path):
        names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
    chunk: list[Any] = []
    for record in _records(path):
        chunk.append(record)
        if len(chunk) == chunk_rows:
            yield _table_of(chunk, names, path)
            chunk = []
    if chunk:
        yield _table_of(chunk, names, path)


def _records(path: Path) -> Iterator[Any]:
    try:
        with _bytes(path) as file:
            for number, line in enumerate(file, 1):
                if (line := line.removeprefix(BOM) if number == 1 else line).strip():
                    yield parse_line(line, number, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None


def _table_of(records: list[Any], names: dict[str, None], path: Path) -> pa.Table:
    table = SourceFile(path, str(path), records).table()
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table)))
    return table.select(list(names))


def _delimited(path: Path, kind: str, chunk_rows: int) -> Iterator[pa.Table]:
    """Whole rows behind the header, cut at line ends that are not within quotes."""
    try:
        with _bytes(path) as file:
            data = file.read(BLOCK).removeprefix(BOM)
            header = first_record(pa.py_buffer(data)) + b"\n"
            data = data[len(data) - len(data.lstrip(b"\r\n")) + len(header) :]
            while True:
                block = file.read(BLOCK)
                ends = row_ends(data, header, kind)
                if ends is None:  # quotes in places that only a whole reading can make sense of
                    yield read_delimited(pa.py_buffer(header + data + block + file.read()), kind, str(path))
                    return
                cuts = ends[chunk_rows - 1 :: chunk_rows].tolist()
                if not block:
                    cuts.append(len(data))
                start = 0
                for cut in cuts:
                    if data[start:cut].strip():
                        yield read_delimited(pa.py_buffer(header + data[start:cut]), kind, str(path))
                    start = cut
                if not block:
                    return
                data = data[start:] + block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None


# ------------------------------------------------------------------------------------------------ earlier items


@dataclass
class _EarlierItems:
    """The items of earlier chunks: digests of each one's task and id and of what it shows, in a temporary database."""

    source: str

    def __post_init__(self) -> None:
        self.database = sqlite3.connect("", isolation_level=None)
        self.database.execute("pragma journal_mode = off")
        self.database.execute("create table items (item blob primary key, content blob) without rowid")

    def new(self, chunk: Items) -> npt.NDArray[np.int64]:
        """The indices of the items that no earlier chunk had; an id that now shows something else is an error."""
        keys: list[bytes] = []
        contents: list[bytes] = []
        for task, (item, text, context, options) in zip(chunk.item_tasks.tolist(), chunk, strict=True):
            keys.append(_digest([task, item]))
            contents.append(_digest([text, context, options]))
        earlier: dict[bytes, bytes] = {}
        for start in range(0, len(keys), QUERY_KEYS):
            some = keys[start : start + QUERY_KEYS]
            marks = ",".join("?" * len(some))
            earlier.update(self.database.execute(f"select item, content from items where item in ({marks})", some))
        for index, key in enumerate(keys):
            if earlier.get(key, contents[index]) != contents[index]:
                raise RealmError(f"{self.source}: the item '{chunk.ids[index].as_py()}' shows two different things.")
        new = [index for index, key in enumerate(keys) if key not in earlier]
        self.database.executemany("insert into items values (?, ?)", [(keys[index], contents[index]) for index in new])
        return np.array(new, dtype=np.int64)


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).digest()  # 16 bytes: no two items collide
