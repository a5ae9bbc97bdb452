"""Opening a file, a zip or a folder of files: bytes, compression, encoding and container, whatever its records mean."""

from __future__ import annotations

import gzip
import io
import json
import mmap
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from realm.data.columns import cell_text
from realm.data.readers.delimited import check_utf8, read_delimited
from realm.errors import RealmError

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
ARCHIVE_SUFFIXES = (".jsonl", ".json", ".csv")
"""What is read from a zip or a folder: the files that doccano exports."""
BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""
GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How .xlsx (a zip) and .xls files begin."""
HEAD_BYTES = 4096
"""Bytes that a container is guessed from: one page of a disk, and more than any blank beginning."""
FIRST_RECORDS = 100
"""Records that a format is detected by: some exports begin with records that have no annotations."""


@dataclass(frozen=True)
class SourceFile:
    """What a file holds: a table of columns (CSV, TSV, Parquet), or records (JSON, JSONL), or a JSON object."""

    path: Path
    source: str
    content: pa.Table | list[Any] | dict[str, Any]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of columns, or of the records' fields."""
        if isinstance(self.content, pa.Table):
            return frozenset(self.content.column_names)
        records = self.content.values() if isinstance(self.content, dict) else self.content
        return frozenset(name for record in records if isinstance(record, dict) for name in record)

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


def open_file(path: Path, container: Container | None = None) -> SourceFile:
    """Open a table or a file of records, whatever it means."""
    data = read_bytes(path)
    if is_blank(data):
        raise RealmError(f"{path}: the file is empty.")
    return open_bytes(data, path, str(path), container)


def open_archive(path: Path, container: Container | None = None) -> list[SourceFile]:
    """The files of a zip or a folder, by name; those without content are passed over."""
    is_folder = path.is_dir()
    files = [
        open_bytes(data, path / name, str(path / name) if is_folder else f"{path}, {name}", container)
        for name, data in sorted((_folder_files(path) if is_folder else _zip_files(path)).items())
        if not is_blank(data)
    ]
    if not files:
        raise RealmError(f"{path}: every file in it is empty.")
    return files


def is_archive(path: Path) -> bool:
    """Whether a path is a zip, or a folder with a file in it that could be read."""
    # Not the methods of `Path`: they raise where a name is too long.
    if os.path.isdir(path):
        with reading(path):
            return any(_in_archive(child.name) for child in path.iterdir())
    return path.suffix.lower() == ".zip" and os.path.isfile(path)


def _in_archive(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in ARCHIVE_SUFFIXES and not path.name.startswith(".") and "__MACOSX" not in path.parts


def _folder_files(path: Path) -> dict[str, bytes | pa.Buffer]:
    return {child.name: read_bytes(child) for child in path.iterdir() if child.is_file() and _in_archive(child.name)}


def _zip_files(path: Path) -> dict[str, bytes | pa.Buffer]:
    try:
        with zipfile.ZipFile(path) as archive:
            files: dict[str, Any] = {name: archive.read(name) for name in archive.namelist() if _in_archive(name)}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
        raise RealmError(f"{path}: not a readable zip file ({error}).") from None
    if not files:
        raise RealmError(f"{path}: there is no .jsonl, .json or .csv file in the zip.")
    return files


# ---------------------------------------------------------------- bytes


def open_bytes(data: bytes | pa.Buffer, path: Path, source: str, container: Container | None = None) -> SourceFile:
    """Open bytes that are known by a path, on disk or within an archive."""
    head = bytes(data[:HEAD_BYTES])
    kind = container or container_of(path, head)
    if head.startswith(UTF_16):
        raise RealmError(f"{source}: the text is UTF-16. Save the file as UTF-8.")
    if head.startswith(SPREADSHEETS):
        raise RealmError(f"{source}: a spreadsheet (or a zip by another name), not a table. Save it as CSV (UTF-8).")
    if kind == "parquet":
        with reading_parquet(source):
            return SourceFile(path, source, pq.read_table(pa.BufferReader(data)))
    if head.startswith(BOM):
        data = data[len(BOM) :]
    if kind in ("csv", "tsv"):
        return SourceFile(path, source, read_delimited(pa.py_buffer(data), kind, source))
    return SourceFile(path, source, _read_json(bytes(data), kind, source))


def read_bytes(path: Path) -> bytes | pa.Buffer:
    """The file's bytes, mapped where they lie or decompressed; a pipe's are read."""
    if os.path.isdir(path):
        raise RealmError(f"{path} is a folder, not a file.")
    with reading(path):
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                data: bytes | pa.Buffer = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            else:
                data = file.read()
        return gzip.decompress(data) if bytes(data[:2]) == GZIP else data


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise RealmError(f"{path}: there is no such file.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None
    except OSError as error:
        raise RealmError(f"{path}: cannot be read ({error.strerror or error}).") from None


@contextmanager
def reading_parquet(source: str) -> Iterator[None]:
    """Turn what goes wrong with a Parquet file into an error that names it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise RealmError(f"{source}: not a readable Parquet file ({_first_line(error)}).") from None


def is_blank(data: bytes | pa.Buffer) -> bool:
    """Whether there is nothing but a byte order mark and blanks."""
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
            content = json.loads(data)
            if not isinstance(content, list | dict):
                raise RealmError(f"{source}: not a list of records but {_quoted(content)}.")
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
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RealmError(f"{source}, line {number}: not readable JSON ({_reason(error)}).") from None


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.msg if isinstance(error, json.JSONDecodeError) else _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200].rstrip(".")


def _quoted(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"  # 40 characters: enough to find it in the file by


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
