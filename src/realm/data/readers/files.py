"""Opening files: plain or compressed, alone or in a zip or a folder, in any encoding; read whole or in parts.

All bytes are in Arrow's own memory. A buffer that Python owns may be released by one of Arrow's threads after the call
that it was given to has returned; if the interpreter is ending just then, that thread ends the whole process with
`terminate called without an active exception`.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast, get_args

import pyarrow as pa

from realm.data.columns import column_of
from realm.data.readers import contents
from realm.data.source import Source
from realm.errors import RealmError
from realm.files import is_partial

Container = Literal["csv", "tsv", "json", "jsonl", "parquet", "arrow"]
CONTAINERS: dict[str, Container] = {name: name for name in get_args(Container)}
SUFFIXES: dict[str, Container] = {f".{name}": name for name in CONTAINERS.values()}
SUFFIXES |= {".tab": "tsv", ".ndjson": "jsonl", ".feather": "arrow"}
OTHER_KINDS = {
    b"PK\x03\x04": "a spreadsheet (or a zip by another name), not a table. Save it as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "a spreadsheet, not a table. Save it as CSV (UTF-8)",
    b"BZh": "packed by bzip2. Unpack it, or pack it with gzip",
    b"\xfd7zXZ": "packed by xz. Unpack it, or pack it with gzip",
    b"SQLite format 3": "a database of SQLite. Export its table as CSV",
}
"""How files of other kinds begin, and what to do about them."""
TAR_MARK = slice(257, 262)
"""Where a tar archive says that it is one."""
GZIP = b"\x1f\x8b"
CHUNK = 1 << 20
"""Bytes unpacked at a time: 1 MB, where larger reads are no faster."""
GB = 10**9
USUAL_GB = 2.0
"""Gigabytes that a file may unpack to unless more is allowed: some ten million annotations."""
MEMBERS = 10_000
"""Files that are read from one zip or folder: one for each annotator, and more than any project has."""
FIRST_RECORDS = 100
"""Records that a format is detected by: some exports begin with records that have no annotations."""
HEAD_BYTES = 4096
BOM = codecs.BOM_UTF8
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
MANY_NULS = 0.2
"""The share of zero bytes from which on a text must be UTF-16: of English text it is a half, of other text less."""
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError, ValueError)
DAMAGED += (LookupError, ArithmeticError)  # type: ignore[assignment]
"""What Python's own modules raise where a zip is damaged, encrypted or packed in a way they do not know."""


@dataclass(frozen=True)
class SourceFile:
    """What a file holds: a table of columns (CSV, TSV, Parquet, Arrow), or records (JSON, JSONL), or a JSON object.

    `member` is its name within a zip or a folder that was opened as one.
    """

    path: Path
    source: Source
    content: pa.Table | list[Any] | dict[str, Any]
    member: str = ""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of columns, or of the records' fields."""
        if isinstance(self.content, pa.Table):
            return frozenset(self.content.column_names)
        return frozenset(name for record in self._plain() if isinstance(record, dict) for name in record)

    def nested_names(self) -> frozenset[str]:
        """The names of fields one level further down, where some tools keep those of the item."""
        records = [] if isinstance(self.content, pa.Table) else self._plain()
        values = (value for record in records if isinstance(record, dict) for value in record.values())
        return frozenset(name for value in values if isinstance(value, dict) for name in value)

    @cached_property
    def first(self) -> list[dict[str, Any]]:
        """The first records, to recognise a format by."""
        if isinstance(self.content, pa.Table):
            return list(self.content.slice(0, FIRST_RECORDS).to_pylist())
        return [record for record in islice(self._plain(), FIRST_RECORDS) if isinstance(record, dict)]

    def _plain(self) -> list[Any]:
        return list(self.content.values()) if isinstance(self.content, dict) else cast(list[Any], self.content)

    def records(self) -> list[dict[str, Any]]:
        """Every record as a dict; record n is row n."""
        if isinstance(self.content, pa.Table):
            return list(self.content.to_pylist())
        if isinstance(self.content, dict):
            raise self.source.error("a JSON object where a list of records was expected.")
        for row, record in enumerate(self.content, 1):
            if not isinstance(record, dict):
                text = "" if isinstance(record, list) else f" {str(record)[:40]!r}"
                raise self.source.error(f"not a record with named fields but {type(record).__name__}{text}.", [row])
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
        return contents.table_of(records, dict.fromkeys(name for each in records for name in each), self.source)


@dataclass(frozen=True)
class Unread:
    """The bytes of one file, unpacked and in UTF-8 where it is text, before anything is made of them."""

    path: Path
    source: Source
    data: pa.Buffer
    kind: Container
    limit: float
    member: str = ""

    def read(self) -> SourceFile:
        return SourceFile(self.path, self.source, self._content(), self.member)

    def _content(self) -> pa.Table | list[Any] | dict[str, Any]:
        if self.kind == "parquet":
            return contents.read_parquet(self.data, self.source, self.limit)
        if self.kind == "arrow":
            return contents.read_arrow(self.data, self.source, self.limit)
        if self.kind in ("csv", "tsv"):
            return contents.read_delimited(self.data, self.kind, self.source)
        return contents.read_json(bytes(self.data), self.kind, self.source)

    def parts(self, rows: int) -> Iterator[pa.Table]:
        """The table in parts of at most so many rows, of which one is in memory at a time where the kind allows it."""
        if self.kind == "parquet":
            yield from contents.parquet_parts(self.data, rows, self.source, self.limit)
        elif self.kind in ("csv", "tsv"):
            yield from contents.delimited_parts(self.data, self.kind, self.source, rows)
        elif self.kind == "jsonl" and bytes(self.data[:HEAD_BYTES]).lstrip()[:1] == b"{":
            yield from contents.json_line_parts(self.data, self.source, rows)
        else:
            table = self.read().table()
            yield from (table.slice(start, rows) for start in range(0, len(table), rows))


def open_unread(
    path: Path, container: Container | None = None, max_gb: float | None = None, encoding: str | None = None
) -> list[Unread]:
    """The file of a path, or those in it where it is a zip or a folder; of these, empty ones are passed over.

    Text is UTF-8, or has a byte order mark, unless `encoding` names another.
    """
    check_encoding(encoding)
    limit = (max_gb or USUAL_GB) * GB
    if not is_archive(path):
        data = _read_bytes(path, limit)
        if _is_blank(data):
            raise RealmError(f"{path}: the file is empty.")
        return [_opened(data, path, Source(str(path)), container, limit, encoding)]
    files = []
    for member, data in _members(path, limit):
        if not _is_blank(data):
            source = Source(str(path / member) if path.is_dir() else f"{path}, {member}")
            files.append(_opened(data, path / member, source, container, limit, encoding, member))
    if not files:
        raise RealmError(f"{path}: every file in it is empty.")
    return files


def open_file(path: Path) -> SourceFile:
    """A table or a file of records that an option names."""
    return open_unread(path)[0].read()


def is_archive(path: Path) -> bool:
    """Whether a path is a zip, or a folder with a file in it that could be read."""
    # Not the methods of `Path`: they raise where a name is too long.
    if os.path.isdir(path):
        with reading(path):
            return bool(_folder_names(path))
    return path.suffix.lower() == ".zip" and os.path.isfile(path)


def _opened(
    data: pa.Buffer,
    path: Path,
    source: Source,
    container: Container | None,
    limit: float,
    encoding: str | None,
    member: str = "",
) -> Unread:
    head = bytes(data[:HEAD_BYTES])
    for mark, what in OTHER_KINDS.items():
        if head.startswith(mark):
            raise source.error(f"{what}.")
    if head[TAR_MARK] == b"ustar":
        raise source.error("an archive of tar. Unpack it, or pack the files as a zip.")
    kind = container or _kind_of(path, head)
    if kind in ("parquet", "arrow"):
        if encoding is not None:
            raise source.error(f'`encoding="{encoding}"`: not for {kind.title()}, whose text is always UTF-8.')
    else:
        data = _as_utf8(data, source, encoding)
        kind = container or _kind_of(path, bytes(data[:HEAD_BYTES]))
    return Unread(path, source, data, kind, limit, member)


def _kind_of(path: Path, head: bytes) -> Container:
    """The container of a file by its name, or by its first bytes where the name does not tell."""
    if kind := SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix):
        return kind
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((contents.ARROW_FILE, contents.ARROW_STREAM)):
        return "arrow"
    start = head.removeprefix(BOM).lstrip()[:1]
    return "json" if start == b"[" else "jsonl" if start == b"{" else "csv"


# ---------------------------------------------------------------- bytes


def _read_bytes(path: Path, limit: float) -> pa.Buffer:
    """The file's bytes: mapped where they lie, decompressed, or read from a pipe."""
    if os.path.isdir(path):
        raise RealmError(f"{path} is a folder, not a file.")
    with reading(path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            with path.open("rb") as pipe:
                data = _collect(pipe, limit, str(path))
        elif not status.st_size:
            return contents.in_arrow(b"")
        else:
            data = pa.memory_map(os.fsencode(path)).read_buffer()
        return _decompressed(data, str(path), limit)


def _decompressed(data: pa.Buffer, name: str, limit: float) -> pa.Buffer:
    if bytes(data[: len(GZIP)]) != GZIP:
        return data
    with gzip.GzipFile(fileobj=cast(Any, pa.BufferReader(data))) as file:
        return _collect(cast(IO[bytes], file), limit, name)


def _collect(file: IO[bytes], limit: float, name: str) -> pa.Buffer:
    """All that is in a file, in Arrow's memory, unless it is more than the limit."""
    stream = pa.BufferOutputStream()
    while chunk := file.read(CHUNK):
        stream.write(chunk)
        contents.check_size(stream.tell(), limit, name)
    return stream.getvalue()


def _is_blank(data: pa.Buffer) -> bool:
    """Whether there is nothing but a byte order mark and blanks."""
    if len(data) <= len(BOM) and bytes(data) in (*MARKS, BOM):
        return True
    return not bytes(data[:HEAD_BYTES]).removeprefix(BOM).strip() and not bytes(data).removeprefix(BOM).strip()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise RealmError(f"{path}: there is no such file.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, struct.error) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None
    except OSError as error:
        raise RealmError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except ValueError as error:  # a name with a NUL in it
        raise RealmError(f"{path}: cannot be read ({error}).") from None


def _members(path: Path, limit: float) -> list[tuple[str, pa.Buffer]]:
    """The names and bytes of the files in a zip, or in a folder and those in it, by name."""
    if path.is_dir():
        with reading(path):
            names = _folder_names(path)
        if len(names) > MEMBERS:
            raise RealmError(f"{path}: more than {MEMBERS:,} files. Name the folder of one export.")
        return [(name, _read_bytes(path / name, limit)) for name in names]
    members: dict[str, pa.Buffer] = {}
    unpacked = 0
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [each for each in archive.infolist() if not each.is_dir() and _is_readable(each.filename)]
            if len(entries) > MEMBERS:
                raise RealmError(f"{path}: {len(entries):,} files in the zip; {MEMBERS:,} at most are read.")
            for entry in entries:
                name = str(PurePosixPath(entry.filename))
                if name in members:
                    raise RealmError(f"{path}: two files in the zip have the name {name}. Pack it again with one.")
                with archive.open(entry) as file:
                    data = _collect(file, limit, f"{path}, {name}")
                members[name] = _decompressed(data, f"{path}, {name}", limit)
                unpacked += len(members[name])
                contents.check_size(unpacked, limit, str(path))
    except DAMAGED as error:
        raise RealmError(f"{path}: not a readable zip file ({str(error)[:200] or type(error).__name__}).") from None
    if not members:
        *others, last = SUFFIXES
        raise RealmError(f"{path}: there is no {', '.join(others)} or {last} file in the zip.")
    return sorted(members.items())


def _folder_names(path: Path) -> list[str]:
    """The names of readable files in a folder and the folders in it, sorted; few more than `MEMBERS` are looked for."""

    def fail(error: OSError) -> None:
        raise error

    names: list[str] = []
    for folder, inside, files in os.walk(path, onerror=fail):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        here = Path(folder).relative_to(path)
        names += [str(here / name) for name in files if _is_readable(name) and (path / here / name).is_file()]
        if len(names) > MEMBERS:
            break
    return sorted(names)


def _is_readable(name: str) -> bool:
    path = PurePosixPath(name)
    known = path.name.lower().removesuffix(".gz").endswith(tuple(SUFFIXES))
    # macOS keeps what it knows of a file beside it as ._name; a killed pull of ours leaves .name.realm-pull.jsonl
    is_ours = is_partial(path.name) or (path.name.startswith(".") and ".realm-" in path.name)
    return known and not is_ours and not path.name.startswith("._") and "__MACOSX" not in path.parts


# ---------------------------------------------------------------- encodings


def check_encoding(encoding: str | None) -> None:
    """Refuse a name that is no encoding of text."""
    if encoding is None:
        return
    try:
        if not codecs.lookup(encoding)._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):
        raise RealmError(f'`encoding="{encoding}"`: there is no such encoding. It is {contents.USUAL}.') from None


def _as_utf8(data: pa.Buffer, source: Source, encoding: str | None) -> pa.Buffer:
    """The text in UTF-8, without a byte order mark. Nothing is guessed: other bytes are left for an error later."""
    head = bytes(data[:HEAD_BYTES])
    name = None if encoding is None else codecs.lookup(encoding).name
    if name in (None, "utf-8", "utf-8-sig", "ascii") and head.startswith(BOM):
        return data[len(BOM) :]
    if name in ("utf-8", "utf-8-sig", "ascii"):  # every byte of ASCII is the same in UTF-8
        return data
    if name is not None:
        if head.startswith(BOM) or (_takes_any_bytes(name) and _is_utf8_beyond_ascii(bytes(data))):
            raise source.error(
                f"the text is UTF-8, and would be garbled if it were read as {encoding}. Leave `encoding` out, "
                "or save all files that are read together in one encoding."
            )
        return _recoded(bytes(data), source, name)
    for mark, marked in MARKS.items():
        if head.startswith(mark):
            return _recoded(bytes(data), source, marked)
    if head.count(0) > MANY_NULS * len(head):
        raise source.error(
            "every other byte is zero: this looks like UTF-16 without a byte order mark. Give "
            '`encoding="utf-16-le"` (or "utf-16-be"), or save the file as UTF-8.'
        )
    return data


def _recoded(data: bytes, source: Source, encoding: str) -> pa.Buffer:
    try:
        return contents.in_arrow(data.decode(encoding).removeprefix("\ufeff").encode("utf-8"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        where = f"{source}, line {line}: byte {error.start:,} (0x{data[error.start]:02x})"
        raise RealmError(
            f"{where} is not {encoding} text. Name another encoding with `encoding`: {contents.USUAL}."
        ) from None
    except (UnicodeError, ValueError) as error:
        raise source.error(f"cannot be read as {encoding} text ({error}).") from None


def _takes_any_bytes(encoding: str) -> bool:
    """Whether every byte is a character: such an encoding takes any bytes, right or wrong."""
    try:
        return len(bytes(range(128, 256)).decode(encoding, "replace")) == 128 and "a".encode(encoding) == b"a"
    except (UnicodeError, LookupError):
        return False


def _is_utf8_beyond_ascii(data: bytes) -> bool:
    try:
        return not data.isascii() and bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False
