"""A plain table of items read part by part, so that a file of any length takes the memory of one part.

Parts hold what the whole table would: an item is yielded once, where it is first met, and its id means one item
throughout. What was met is remembered on disk. Exports, JSON documents, and tables whose quoting only a whole reading
can settle are read whole.
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

from realm.data.annotations import Annotations
from realm.data.build import build
from realm.data.items import Task
from realm.data.readers import read
from realm.data.readers.bundles import is_bundle
from realm.data.readers.delimited import first_record, read_delimited, row_ends
from realm.data.readers.files import BOM, SUFFIXES, Container, Opened, guess, parse_line
from realm.data.readers.recognise import CONTAINERS, recognise
from realm.errors import RealmError

PART_ROWS = 16_384
BLOCK = 1 << 20


def read_parts(
    path: str | Path,
    *,
    tasks: Sequence[Task],
    part_rows: int | None = None,
    format: str | None = None,
    **asked: Any,
) -> Iterator[Annotations]:
    """The items of a file as tables of at most `part_rows` rows (by default 16,384).

    `tasks` are those of the run that will answer; `asked` is what `realm.data.readers.read` takes.
    """
    path = Path(path)
    try:
        kind = _container(path, format)
        tables = None if kind is None else _plain(_tables(path, kind, part_rows or PART_ROWS), path, format)
        if tables is not None:
            columns = {name: value for name, value in asked.items() if name not in ("wide", "multi", "rejected")}
            yield from _parts(tables, str(path), tasks=tasks, **columns)
            return
    except RealmError:
        # Only a reading of the whole file can name rows and lines as they are in it, and count them.
        read(path, need="items", tasks=tasks, format=format, **asked)
        raise
    yield read(path, need="items", tasks=tasks, format=format, **asked)


def _parts(tables: Iterable[pa.Table], source: str, **columns: Any) -> Iterator[Annotations]:
    met = _Met(source)
    done = 0
    for table in tables:
        rows = np.arange(done + 1, done + len(table) + 1, dtype=np.int64)
        part = build(table, need="items", source=source, rows=rows, **columns)
        done += len(table)
        if len(new := met.new(part)):
            yield part if len(new) == part.n_items else part.take_items(new)


def _container(path: Path, format: str | None) -> Container | None:
    """The container of a file that can be read in parts; None for one that must be read whole."""
    if not os.path.isfile(path) or is_bundle(path):  # a pipe can be read once only
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
    if format is None and recognise(Opened(path, str(path), first)) is not None:
        return None

    def every() -> Iterator[pa.Table]:
        yield first
        yield from tables

    return every()


def _tables(path: Path, kind: Container, part_rows: int) -> Iterator[pa.Table]:
    if kind == "parquet":
        return _parquet(path, part_rows)
    return _json_lines(path, part_rows) if kind == "jsonl" else _delimited(path, kind, part_rows)


def _bytes(path: Path) -> gzip.GzipFile | BufferedReader:
    """The file's bytes, decompressed where they need be."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")


# ------------------------------------------------------------------------------------------------ containers


def _parquet(path: Path, part_rows: int) -> Iterator[pa.Table]:
    try:
        with path.open("rb") as file:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=part_rows):
                yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise RealmError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0][:200]}).") from None


def _json_lines(path: Path, part_rows: int) -> Iterator[pa.Table]:
    """Every part has every field that some record has, as the whole table would."""
    names: dict[str, None] = {}
    for record in _records(path):
        names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
    part: list[Any] = []
    for record in _records(path):
        part.append(record)
        if len(part) == part_rows:
            yield _table_of(part, names, path)
            part = []
    if part:
        yield _table_of(part, names, path)


def _records(path: Path) -> Iterator[Any]:
    try:
        with _bytes(path) as file:
            for number, line in enumerate(file, 1):
                if (line := line.removeprefix(BOM) if number == 1 else line).strip():
                    yield parse_line(line, number, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None


def _table_of(records: list[Any], names: dict[str, None], path: Path) -> pa.Table:
    table = Opened(path, str(path), records).table()
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table)))
    return table.select(list(names))


def _delimited(path: Path, kind: str, part_rows: int) -> Iterator[pa.Table]:
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
                cuts = ends[part_rows - 1 :: part_rows].tolist()
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


# ------------------------------------------------------------------------------------------------ items met before


@dataclass
class _Met:
    """The items of earlier parts: digests of each one's task and id and of what it shows, in a nameless file."""

    source: str

    def __post_init__(self) -> None:
        self.disk = sqlite3.connect("", isolation_level=None)
        self.disk.execute("pragma journal_mode = off")
        self.disk.execute("create table met (item blob primary key, shown blob) without rowid")

    def new(self, part: Annotations) -> npt.NDArray[np.int64]:
        """The indices of the items that no earlier part had; an id that now shows something else is an error."""
        items: list[bytes] = []
        shown: list[bytes] = []
        for task, (item, text, context, options) in zip(part.item_tasks.tolist(), part.iter_items(), strict=True):
            items.append(_digest([task, item]))
            shown.append(_digest([text, context, options]))
        before: dict[bytes, bytes] = {}
        for start in range(0, len(items), 500):
            asked = items[start : start + 500]
            marks = ",".join("?" * len(asked))
            before.update(self.disk.execute(f"select item, shown from met where item in ({marks})", asked))
        for index, key in enumerate(items):
            if before.get(key, shown[index]) != shown[index]:
                raise RealmError(
                    f"{self.source}: the item '{part.item_ids[index].as_py()}' shows two different things."
                )
        new = [index for index, key in enumerate(items) if key not in before]
        self.disk.executemany("insert into met values (?, ?)", [(items[index], shown[index]) for index in new])
        return np.array(new, dtype=np.int64)


def _digest(said: Any) -> bytes:
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).digest()
