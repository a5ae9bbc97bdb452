"""Opening files: CSV and TSV, JSON and JSON lines, Parquet and Arrow, plain or gzipped, in any encoding.

All bytes are in Arrow's own memory: one of its threads may release a buffer of Python's while the interpreter ends,
which ends the whole process with `terminate called without an active exception`.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.data.columns import column_of, is_unicode
from realm.data.source import Source
from realm.errors import RealmError
from realm.files import parse_json

SUFFIXES = {f".{name}": name for name in ("csv", "tsv", "json", "jsonl", "parquet", "arrow")}
SUFFIXES |= {".tab": "tsv", ".ndjson": "jsonl", ".feather": "arrow"}
GZIP, PARQUET, ARROW_FILE, ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
NOT_TABLES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"BZh91AY", b"\xfd7zXZ", b"SQLite format 3")
"""How archives (a spreadsheet is one) and databases begin."""
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ENCODINGS = 'Name its encoding with `encoding` (often "cp1252" for files that Excel saved on Windows, or "utf-16").'
USUAL_GB = 2.0
"""Gigabytes that a file may unpack to unless more is allowed: some ten million annotations."""
CHUNK = 1 << 20
"""Bytes unpacked at a time: 1 MB, where larger reads are no faster."""
BLOCK, MAX_BLOCK = 1 << 23, (1 << 31) - 1
"""Bytes of CSV parsed at a time: 8 MB keeps all of Arrow's threads busy. A longer row takes a larger block, of which
the largest is an int32."""
FIRST_RECORDS = 100
"""Records that a format is detected by: some exports begin with records that have no annotations."""


class Record(dict[str, Any]):
    """A record of a file, or an object in one, with its row; a value of another type than it should have is refused."""

    __slots__ = ("row", "source")

    def __init__(self, fields: Mapping[str, Any], row: int, source: Source) -> None:
        super().__init__(fields)
        self.row, self.source = row, source

    def value(self, name: str) -> Any:
        """One plain value; None where it is absent."""
        value = self.get(name)
        return self._of_type(value, name, str) if isinstance(value, dict | list) else value

    def values_of(self, name: str) -> list[Any]:
        """A list; empty where it is absent or null."""
        return self._of_type(self.get(name), name, list) or []

    def object(self, name: str) -> Record:
        """An object; empty where it is absent or null."""
        return Record(self._of_type(self.get(name), name, dict) or {}, self.row, self.source)

    def objects(self, name: str) -> list[Record]:
        """A list of objects."""
        return [Record(self._of_type(each, name, dict) or {}, self.row, self.source) for each in self.values_of(name)]

    def _of_type(self, value: Any, name: str, types: Any) -> Any:
        if value is not None and not isinstance(value, types):
            needed = {dict: "an object", list: "a list"}.get(types, "one value")
            raise self.error(f"the field '{name}' should have {needed} and has {type(value).__name__}.")
        return value

    def error(self, message: str) -> RealmError:
        """An error that names the row."""
        return self.source.error(message, [self.row])


@dataclass(frozen=True)
class SourceFile:
    """What a file holds: a table of columns (CSV, TSV, Parquet, Arrow), or records (JSON, JSON lines)."""

    path: Path
    source: Source
    content: pa.Table | Sequence[Any]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of columns, or of the records' fields."""
        if isinstance(self.content, pa.Table):
            return frozenset(self.content.column_names)
        return frozenset(name for record in self.content if isinstance(record, dict) for name in record)

    @cached_property
    def inner_names(self) -> frozenset[str]:
        """The names of fields one level further down, where some tools keep those of the item."""
        records = self.first if isinstance(self.content, pa.Table) else self.content
        values = [value for record in records if isinstance(record, dict) for value in record.values()]
        parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
        return frozenset(str(name) for part in parts if isinstance(part, dict) for name in part)

    @cached_property
    def first(self) -> list[dict[str, Any]]:
        """The first records, to recognise a format by."""
        content = self.content[:FIRST_RECORDS]
        records = content.to_pylist() if isinstance(content, pa.Table) else content
        return [record for record in records if isinstance(record, dict)]

    def records(self) -> list[Record]:
        """Every record; record n is row n."""
        records = self.content.to_pylist() if isinstance(self.content, pa.Table) else self.content
        for row, record in enumerate(records, 1):
            if not isinstance(record, dict):
                raise self.source.error(f"not a record with named fields but {type(record).__name__}.", [row])
        return [Record(record, row, self.source) for row, record in enumerate(records, 1)]

    def table(self) -> pa.Table:
        """The records as columns; a field that is absent is null, and one of mixed types becomes text."""
        if isinstance(self.content, pa.Table):
            return self.content
        records = self.records()
        names = dict.fromkeys(name for record in records for name in record)
        if wrong := [name for name in names if not is_unicode(name)]:
            raise self.source.error(f"the name of a field, {wrong[0]!a}, holds half a character (a lone surrogate).")
        return pa.table({name: column_of([each.get(name) for each in records], name, self.source) for name in names})


@dataclass(frozen=True)
class OpenFile:
    """The bytes of one file, unpacked and in UTF-8 where it is text, before anything is made of them."""

    path: Path
    source: Source
    data: pa.Buffer
    kind: str

    def read(self) -> SourceFile:
        """All of it."""
        with _reading(self.source):
            if self.kind == "parquet":
                content: Any = pq.ParquetFile(pa.BufferReader(self.data)).read()
            elif self.kind == "arrow":
                is_file = bytes(self.data[: len(ARROW_FILE)]) == ARROW_FILE
                content = (pa.ipc.open_file(self.data) if is_file else pa.ipc.open_stream(self.data)).read_all()
                content.validate(full=True)
            elif self.kind in ("csv", "tsv"):
                content = _Csv(self.data, self.kind, self.source).read()
            else:
                content = _read_json(bytes(self.data), self.kind, self.source)
        return SourceFile(self.path, self.source, content)

    def parts(self, rows: int) -> Iterator[SourceFile]:
        """The same in parts, of which one is in memory at a time; JSON and Arrow are read whole."""
        if self.kind not in ("parquet", "csv", "tsv"):
            yield self.read()
            return
        with _reading(self.source):
            if self.kind == "parquet":
                batches = pq.ParquetFile(pa.BufferReader(self.data)).iter_batches(batch_size=rows)
            else:
                batches = _Csv(self.data, self.kind, self.source).batches()
            for batch in batches:
                yield SourceFile(self.path, self.source, pa.Table.from_batches([batch]))


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files, and in place of a folder those in it that can be read, by name."""
    files: list[Path] = []
    for path in paths:
        with _reading(path):
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        if path.is_dir():  # what begins with a dot is another program's, or half written
            inside = [each for each in inside if _kind_by_name(each) and "/." not in f"/{each.relative_to(path)}"]
        if not inside:
            raise RealmError(f"{path} is a folder, and there is no {', '.join(SUFFIXES)} in it.")
        files += inside
    places = [os.path.realpath(file) for file in files]
    for file, place in zip(files, places, strict=True):
        if places.count(place) > 1:
            raise RealmError(f"{file}: given twice.")
    return files


def _kind_by_name(path: Path) -> str | None:
    return SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def open_file(path: Path) -> SourceFile:
    """A table or a file of records that an option names."""
    return open_bytes(path).read()


def open_bytes(path: Path, encoding: str | None = None, max_gb: float | None = None) -> OpenFile:
    """Open a file, whose text is UTF-8, or has a byte order mark, unless `encoding` names another."""
    source, limit = Source(str(path)), (max_gb or USUAL_GB) * 1e9
    with _reading(source):
        if path.is_file() and path.stat().st_size:
            data = pa.memory_map(os.fsencode(path)).read_buffer()
        else:
            with path.open("rb") as pipe:
                data = _collected(pipe, limit, source)
        if bytes(data[: len(GZIP)]) == GZIP:
            data = _collected(pa.CompressedInputStream(pa.BufferReader(data), "gzip"), limit, source)
    head, kind = bytes(data[: len(NOT_TABLES[-1])]), _kind_by_name(path)
    if head.startswith(NOT_TABLES):
        raise source.error(
            "a spreadsheet, an archive or a database, not a table. Save a spreadsheet as CSV (UTF-8); unpack an "
            "archive, and give the folder."
        )
    if kind is None and head.startswith((PARQUET, ARROW_FILE, ARROW_STREAM)):
        kind = "parquet" if head.startswith(PARQUET) else "arrow"
    if kind not in ("parquet", "arrow"):
        data = _as_utf8(data, source, encoding)
        start = re.compile(rb"\s*(\S)").match(data)
        if start is None:
            raise source.error("the file is empty.")
        kind = kind or {b"[": "json", b"{": "jsonl"}.get(start[1], "csv")
    elif encoding is not None:
        raise source.error(f'`encoding="{encoding}"`: not for Parquet and Arrow, whose text is always UTF-8.')
    if kind == "parquet":
        with _reading(source):
            parquet = pq.read_metadata(pa.BufferReader(data))
        _check_size(sum(parquet.row_group(i).total_byte_size for i in range(parquet.num_row_groups)), limit, source)
    return OpenFile(path, source, data, kind)


def _collected(file: Any, limit: float, source: Source) -> pa.Buffer:
    stream = pa.BufferOutputStream()
    while chunk := file.read(CHUNK):
        stream.write(chunk)
        _check_size(stream.tell(), limit, source)
    return stream.getvalue()


def _check_size(unpacked: int, limit: float, source: Source) -> None:
    if unpacked > limit:
        raise source.error(
            f"unpacks to more than {limit / 1e9:g} GB, and may be made to fill the memory. If you know where it is "
            "from, allow more with `max_unpacked_gb`."
        )


@contextmanager
def _reading(name: Path | Source) -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise RealmError(f"{name}: there is no such file.") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0][:200]
        raise RealmError(f"{name}: cannot be read ({reason}). Is it damaged or cut short?") from None


def _as_utf8(data: pa.Buffer, source: Source, encoding: str | None) -> pa.Buffer:
    """The text in UTF-8, without a byte order mark. Nothing is guessed."""
    mark = next((mark for mark in MARKS if bytes(data[:4]).startswith(mark)), b"")
    try:
        name = codecs.lookup(encoding or MARKS.get(mark, "utf-8")).name
        takes_any_bytes = len(bytes(range(128, 256)).decode(name, "replace")) == 128
    except (LookupError, ValueError):  # there is none of the name, or it is none of text
        raise RealmError(f'`encoding="{encoding}"`: there is no such encoding. {ENCODINGS}') from None
    ends = pa.py_buffer(np.array([0, len(data)], dtype=np.int64))
    try:  # Arrow looks at the bytes where they lie
        pa.LargeStringArray.from_buffers(1, ends, data).validate(full=True)
        is_utf8 = True
    except pa.ArrowInvalid:
        is_utf8 = False
    if is_utf8 and name in ("utf-8", "utf-8-sig", "ascii"):  # every byte of ASCII is the same in UTF-8
        return data[len(mark) :] if mark == codecs.BOM_UTF8 else data
    content = bytes(data)
    if is_utf8 and takes_any_bytes and not content.isascii():
        raise source.error(f"the text is UTF-8, and would be garbled if it were read as {encoding}.")
    try:
        stream = pa.BufferOutputStream()
        stream.write(content.decode(name).removeprefix("\ufeff").encode())
        return stream.getvalue()
    except UnicodeDecodeError as error:
        line, byte = content[: error.start].count(b"\n") + 1, content[error.start]
        text = "UTF-8" if name == "utf-8" else name
        raise RealmError(
            f"{source}, line {line}: byte {error.start:,} (0x{byte:02x}) is not {text} text. {ENCODINGS}"
        ) from None
    except ValueError as error:
        raise source.error(f"cannot be read as {name} text ({error}).") from None


# ---------------------------------------------------------------- CSV and TSV


class _Csv:
    """A CSV or TSV, every column of which is text. Quotes that would make rows run together are refused."""

    def __init__(self, data: pa.Buffer, kind: str, source: Source) -> None:
        self.data, self.source = data, source
        first_line = bytes(data[: 1 << 16]).lstrip().partition(b"\n")[0]
        # a .csv may well be separated by semicolons or tabs: the header says
        self.delimiter = "\t" if kind == "tsv" else max(",\t;", key=lambda mark: first_line.count(mark.encode()))
        self.has_quotes = re.search(b'"', data) is not None
        self.names = next(self._rows())
        if self.has_quotes:
            self._check_rows()

    def read(self, block: int = BLOCK) -> pa.Table:
        try:
            return pa_csv.read_csv(pa.BufferReader(self.data), *self._options(block))
        except pa.ArrowException as error:
            if "straddling" in str(error) and block <= len(self.data):
                return self.read(min(len(self.data) + 1, MAX_BLOCK))
            self._check_rows()
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from pa_csv.open_csv(pa.BufferReader(self.data), *self._options(BLOCK))
        except pa.ArrowException:
            self._check_rows()
            raise

    def _options(self, block: int) -> tuple[Any, ...]:
        types = {name: pa.string() for name in self.names}
        return (
            pa_csv.ReadOptions(block_size=block),
            pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.has_quotes),
            pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False, check_utf8=False),
        )

    def _rows(self) -> Iterator[list[str]]:
        """The rows by Python's own reader, which says where a quote is not closed."""
        limit, row = csv.field_size_limit(len(self.data) + 1), -1
        text = io.TextIOWrapper(pa.BufferReader(self.data), "utf-8", newline="")
        try:
            for cells in csv.reader(text, delimiter=self.delimiter, strict=True):
                if cells:
                    row += 1
                    yield cells
        except csv.Error as error:
            raise self.source.error(
                f"a quote that begins a cell is not closed as it should be ({error}). Write a quote within a quoted "
                'cell twice (""), or mend the file if it is cut short.',
                [row + 1],
            ) from None
        finally:
            csv.field_size_limit(limit)

    def _check_rows(self) -> None:
        row = 0
        for row, cells in enumerate(self._rows()):
            if len(cells) != len(self.names):
                message = f"{len(cells)} cells where the header has {len(self.names)}."
                raise self.source.error(f"{message} A text with a separator in it must be quoted.", [row])
        if not row:
            raise self.source.error("a header and no rows.")


# ---------------------------------------------------------------- JSON


def _read_json(data: bytes, kind: str, source: Source) -> list[Any]:
    """The records of a JSON document or of JSON lines, told apart by what is there rather than by the name alone.

    Of an object of records by id, as LeWiDi's are, each gets its id.
    """
    place = str(source)
    try:
        if kind == "json" or data.lstrip()[:1] == b"[":
            try:
                content = parse_json(data)
                if isinstance(content, dict) and content and all(isinstance(each, dict) for each in content.values()):
                    return [{"id": key, **record} for key, record in content.items()]
                return content if isinstance(content, list) else [content]
            except ValueError as error:
                if not str(error).startswith("Extra data") or data.lstrip()[:1] != b"{":
                    raise
        records = []
        for number, line in enumerate(data.split(b"\n"), 1):
            place = f"{source}, line {number}"
            if line.strip():
                records.append(parse_json(line))
        return records
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200].rstrip(".")
        raise RealmError(f"{place}: not readable JSON ({reason}). Is the file cut short?") from None
