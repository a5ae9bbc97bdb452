"""Opening a file, a zip or a folder of files: encoding and container, whatever its records mean."""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from realm.data.columns import cell_text
from realm.data.readers.delimited import check_utf8, read_delimited
from realm.data.readers.encodings import BOM, HEAD_BYTES, UTF_16, as_utf8
from realm.data.readers.unpacking import Limits, folder_names, read_bytes, read_members, reading
from realm.errors import RealmError
from realm.files import parse_json

Container = Literal["csv", "tsv", "json", "jsonl", "parquet"]
SUFFIXES: dict[str, Container] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How .xlsx (a zip) and .xls files begin."""
USUAL = Limits()
"""What a file may unpack to unless the user allows more."""
LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of a surrogate in JSON, alone or of a pair: UTF-8 text can have one in no other way."""
PARQUET_ROWS = 1 << 16
"""Rows of Parquet that are unpacked at a time: those that Arrow itself takes."""
FIRST_RECORDS = 100
"""Records that a format is detected by: some exports begin with records that have no annotations."""


@dataclass(frozen=True)
class SourceFile:
    """What a file holds: a table of columns (CSV, TSV, Parquet), or records (JSON, JSONL), or a JSON object.

    `member` is its name within a zip or a folder that was opened as one.
    """

    path: Path
    source: str
    content: pa.Table | list[Any] | dict[str, Any]
    member: str = ""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of columns, or of the records' fields."""
        if isinstance(self.content, pa.Table):
            return frozenset(self.content.column_names)
        records = self.content.values() if isinstance(self.content, dict) else self.content
        return frozenset(name for record in records if isinstance(record, dict) for name in record)

    def nested_names(self) -> frozenset[str]:
        """The names of fields one level further down, where some tools keep those of the item."""
        if isinstance(self.content, pa.Table):
            return frozenset()
        records = self.content.values() if isinstance(self.content, dict) else self.content
        values = (value for record in records if isinstance(record, dict) for value in record.values())
        return frozenset(name for value in values if isinstance(value, dict) for name in value)

    @cached_property
    def first(self) -> list[dict[str, Any]]:
        """The first records, to recognise a format by."""
        if isinstance(self.content, pa.Table):
            return list(self.content.slice(0, FIRST_RECORDS).to_pylist())
        records = self.content.values() if isinstance(self.content, dict) else self.content
        return [record for record in islice(records, FIRST_RECORDS) if isinstance(record, dict)]

    def records(self) -> list[dict[str, Any]]:
        """Every record as a dict; record n is row n."""
        if isinstance(self.content, pa.Table):
            return list(self.content.to_pylist())
        if isinstance(self.content, dict):
            raise RealmError(f"{self.source}: a JSON object where a list of records was expected.")
        for row, record in enumerate(self.content, 1):
            if not isinstance(record, dict):
                raise RealmError(f"{self.source}, row {row}: not a record with named fields but {_quoted(record)}.")
        return self.content

    def table(self) -> pa.Table:
        """The records as columns; a field that is absent is null, and one of mixed types becomes text."""
        if isinstance(self.content, pa.Table):
            return self.content
        if isinstance(self.content, dict) and self.content:
            columns = list(self.content.values())
            if all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
                return pa.table({name: column_of(column, name, self.source) for name, column in self.content.items()})
        records = self.records()
        names = list(dict.fromkeys(name for record in records for name in record))
        return pa.table({name: column_of([r.get(name) for r in records], name, self.source) for name in names})


def open_file(
    path: Path, container: Container | None = None, limits: Limits = USUAL, encoding: str | None = None
) -> SourceFile:
    """Open a table or a file of records, whatever it means. Text is UTF-8 unless `encoding` names another."""
    data = read_bytes(path, limits)
    if is_blank(data):
        raise RealmError(f"{path}: the file is empty.")
    return open_bytes(data, path, str(path), container, limits, encoding)


def open_archive(
    path: Path, container: Container | None = None, limits: Limits = USUAL, encoding: str | None = None
) -> list[SourceFile]:
    """The files of a zip or a folder, by name; those without content are passed over."""
    is_folder = path.is_dir()
    files = []
    for member in read_members(path, tuple(SUFFIXES), limits):
        if not is_blank(member.data):
            source = str(path / member.name) if is_folder else f"{path}, {member.name}"
            file = open_bytes(member.data, path / member.name, source, container, limits, encoding)
            files.append(replace(file, member=member.name))
    if not files:
        raise RealmError(f"{path}: every file in it is empty.")
    return files


def is_archive(path: Path) -> bool:
    """Whether a path is a zip, or a folder with a file in it that could be read."""
    # Not the methods of `Path`: they raise where a name is too long.
    if os.path.isdir(path):
        with reading(path):
            return bool(folder_names(path, tuple(SUFFIXES)))
    return path.suffix.lower() == ".zip" and os.path.isfile(path)


# ---------------------------------------------------------------- bytes


def open_bytes(
    data: pa.Buffer,
    path: Path,
    source: str,
    container: Container | None = None,
    limits: Limits = USUAL,
    encoding: str | None = None,
) -> SourceFile:
    """Open bytes that are known by a path, on disk or within an archive."""
    head = bytes(data[:HEAD_BYTES])
    kind = container or container_of(path, head)
    if head.startswith(SPREADSHEETS):
        raise RealmError(f"{source}: a spreadsheet (or a zip by another name), not a table. Save it as CSV (UTF-8).")
    if kind == "parquet":
        if encoding is not None:
            raise RealmError(f'{source}: `encoding="{encoding}"`: not for Parquet, whose text is always UTF-8.')
        return SourceFile(path, source, _read_parquet(data, source, limits))
    data = as_utf8(data, source, encoding)
    kind = container or container_of(path, bytes(data[:HEAD_BYTES]))
    if kind in ("csv", "tsv"):
        return SourceFile(path, source, read_delimited(data, kind, source))
    return SourceFile(path, source, _read_json(bytes(data), kind, source))


def _read_parquet(data: pa.Buffer, source: str, limits: Limits) -> pa.Table:
    with reading_parquet(source):
        batches = list(parquet_batches(pa.BufferReader(data), PARQUET_ROWS, source, limits))
        return pa.Table.from_batches(batches) if batches else pq.read_schema(pa.BufferReader(data)).empty_table()


def parquet_batches(
    file: pa.NativeFile, rows: int, source: str, limits: Limits, *, streamed: bool = False
) -> Iterator[pa.RecordBatch]:
    """The table in parts of so many rows, each of a size that is known before it is there.

    A text may stand in the file once for a million rows. Any ratio is right: a table in which every text is repeated
    for each annotator shrinks to a hundredth and less. All parts together are held to the limit; `streamed`, each is.
    """
    schema = pq.ParquetFile(file).schema_arrow
    texts = [field.name for field in schema if _is_bytes(field.type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts)
    if not streamed:  # a cell is a byte or more
        limits.check(parquet.metadata.num_rows * parquet.metadata.num_columns, math.inf, source)
    unpacked = 0
    for batch in parquet.iter_batches(batch_size=rows):
        unpacked = 0 if streamed else unpacked
        columns = []
        for column in batch.columns:
            if pa.types.is_dictionary(column.type) and _is_bytes(column.type.value_type):
                unpacked += _decoded_size(column)
                limits.check(unpacked, math.inf, source)
                column = column.dictionary_decode()
            else:
                unpacked += column.nbytes
            columns.append(column)
        limits.check(unpacked, math.inf, source)
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _decoded_size(column: pa.DictionaryArray) -> int:
    """Bytes of the values of a column if each stood there in full."""
    lengths = np.append(np.asarray(pc.binary_length(column.dictionary).fill_null(0), dtype=np.int64), 0)
    return int(lengths[np.asarray(column.indices.fill_null(-1), dtype=np.int64)].sum())


@contextmanager
def reading_parquet(source: str) -> Iterator[None]:
    """Turn what goes wrong with a Parquet file into an error that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RealmError(f"{source}: not a readable Parquet file ({_first_line(error)}).") from None


def is_blank(data: pa.Buffer) -> bool:
    """Whether there is nothing but a byte order mark and blanks."""
    if len(data) <= len(BOM) and bytes(data) in (*UTF_16, BOM):
        return True
    return not bytes(data[:HEAD_BYTES]).removeprefix(BOM).strip() and not bytes(data).removeprefix(BOM).strip()


def container_of(path: Path, head: bytes) -> Container:
    """The container of a file by its name, or by its first bytes where the name does not tell."""
    if kind := SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix):
        return kind
    if head.startswith(b"PAR1"):
        return "parquet"
    start = head.removeprefix(BOM).lstrip()[:1]
    return "json" if start == b"[" else "jsonl" if start == b"{" else "csv"


def _read_json(data: bytes, kind: str, source: str) -> list[Any] | dict[str, Any]:
    """A JSON document or JSON lines, told apart by what is there rather than by the name alone."""
    check_utf8(data, source)
    whole = kind == "json" or data.lstrip()[:1] == b"["
    try:
        if whole:
            content = parse_json(data)
            if not isinstance(content, list | dict):
                raise RealmError(f"{source}: not a list of records but {_quoted(content)}.")
            if LONE_SURROGATE.search(data):
                for row, record in enumerate(content if isinstance(content, list) else [content], 1):
                    _check_unicode(record, f"{source}, row {row}")
            return content
    except json.JSONDecodeError as error:
        if not (error.msg == "Extra data" and data.lstrip()[:1] == b"{"):
            at = f"line {error.lineno}, column {error.colno}"
            raise RealmError(f"{source}, {at}: not readable JSON ({error.msg}). Is the file cut short?") from None
    except (ValueError, RecursionError) as error:
        raise RealmError(f"{source}: not readable JSON ({_reason(error)}).") from None
    lines = enumerate(io.BytesIO(data), 1)
    return [parse_line(line, number, source) for number, line in lines if line.strip()]


def parse_line(line: bytes, number: int, source: str) -> Any:
    """What a line of JSON lines says."""
    try:
        record = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise RealmError(f"{source}, line {number}: not readable JSON ({_reason(error)}).") from None
    if LONE_SURROGATE.search(line):
        _check_unicode(record, f"{source}, line {number}")
    return record


def _check_unicode(record: Any, place: str) -> None:
    """Refuse half a character, in a value or in the name of a field, however deep it lies."""
    for name, value in record.items() if isinstance(record, dict) else [("", record)]:
        try:
            if not _is_unicode(name):
                raise RealmError(f"{place}: the name of a field, {name!a}, holds half a character (a lone surrogate).")
            if not _is_unicode(value):
                raise RealmError(f"{place}: field '{name}' holds half a character (a lone surrogate).")
        except RecursionError:
            raise RealmError(f"{place}: field '{name}' is nested too deeply.") from None


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.msg if isinstance(error, json.JSONDecodeError) else _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200].rstrip(".")


def _quoted(value: Any) -> str:
    text = "" if isinstance(value, list | dict) else f" {str(value)[:40]!r}"  # 40 characters: enough to find it by
    return f"{type(value).__name__}{text}"


def column_of(values: list[Any], name: str, source: str) -> pa.Array:
    """Python values as one Arrow column; mixed types become text, as JSON would write them."""
    try:
        try:
            column = pa.array(values)
            if not pa.types.is_floating(column.type) or not any(isinstance(v, bool) for v in values):
                return column  # Arrow takes a true among floats for a number
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass
        return pa.array([cell_text(value) for value in values], pa.large_string())
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values, 1) if not _is_unicode(value))
        raise RealmError(f"{source}, row {row}: field '{name}' holds half a character (a lone surrogate).") from None
    except RecursionError:
        raise RealmError(f"{source}: field '{name}' is nested too deeply.") from None


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
