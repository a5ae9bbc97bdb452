"""The bytes of a file, of a compressed one, and of the files in a zip or a folder: the one place that unpacks.

A file from a stranger may unpack to more than the memory holds. Both the size that an archive declares and the bytes
that come out of it are held to `Limits`.

All bytes are in Arrow's own memory. A buffer that Python owns may be released by one of Arrow's threads after the call
that it was given to has returned; if the interpreter is ending just then, that thread ends the whole process with
`terminate called without an active exception`.
"""

from __future__ import annotations

import gzip
import io
import lzma
import math
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import pyarrow as pa

from realm.errors import RealmError
from realm.files import is_partial

GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
CHUNK = 1 << 20
"""Bytes unpacked at a time: 1 MB, where larger reads are no faster."""
GB = 10**9
USUAL_GB = 2.0
"""Gigabytes that a file may unpack to unless more is allowed: some ten million annotations."""
USUAL_RATIO = 200
"""How many times its size a file may unpack to: tables shrink to a tenth or so, a zip bomb to a thousandth."""
RATIO_FROM = 64 * 10**6
"""Bytes below which the ratio does not matter: a small table of one text repeated may well shrink to a thousandth."""
MEMBERS = 10_000
"""Files that are read from one zip or folder: one for each annotator, and more than any project has."""
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError, ValueError)
DAMAGED += (LookupError, ArithmeticError)  # type: ignore[assignment]
"""What Python's own modules raise where a zip is damaged, encrypted or packed in a way they do not know."""


@dataclass(frozen=True)
class Limits:
    """How much a file may unpack to; `gigabytes` is the user's own word, which also allows any ratio."""

    gigabytes: float | None = None

    def __post_init__(self) -> None:
        if self.gigabytes is not None and not (self.gigabytes > 0 and math.isfinite(self.gigabytes)):
            raise RealmError(f"`max_unpacked_gb={self.gigabytes:g}`: must be a number above 0.")

    def check(self, unpacked: int, packed: float, source: str, *, streamed: bool = False) -> None:
        """Refuse a file of `packed` bytes that unpacks to `unpacked` or more; a streamed one may be of any size."""
        limit = self.gigabytes or (math.inf if streamed else USUAL_GB)
        if unpacked > limit * GB:
            much = f"more than {limit:g} GB"
        elif self.gigabytes is None and unpacked > RATIO_FROM and unpacked > USUAL_RATIO * packed:
            much = f"{unpacked / GB:.2g} GB or more, over {USUAL_RATIO} times its size"
        else:
            return
        raise RealmError(
            f"{source}: unpacks to {much}, and may be made to fill the memory. If you know where it is from, allow "
            "more with `max_unpacked_gb`."
        )


@dataclass(frozen=True)
class Member:
    """One file of a zip or a folder: its name within it, with / between folders, and its bytes."""

    name: str
    data: pa.Buffer


def read_bytes(path: Path, limits: Limits) -> pa.Buffer:
    """The file's bytes: mapped where they lie, decompressed, or read from a pipe."""
    if os.path.isdir(path):
        raise RealmError(f"{path} is a folder, not a file.")
    with reading(path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            with path.open("rb") as pipe:
                data = _collect(pipe, math.inf, limits, str(path))
        elif not status.st_size:
            return in_arrow(b"")
        else:
            data = pa.memory_map(os.fsencode(path)).read_buffer()
        return _decompressed(data, str(path), limits)


def in_arrow(data: bytes) -> pa.Buffer:
    """A copy of the bytes in Arrow's own memory, which its threads may release whenever they are done."""
    stream = pa.BufferOutputStream()
    stream.write(data)
    return stream.getvalue()


def _decompressed(data: pa.Buffer, source: str, limits: Limits) -> pa.Buffer:
    if bytes(data[: len(GZIP)]) != GZIP:
        return data
    with gzip.GzipFile(fileobj=cast(Any, pa.BufferReader(data))) as file:
        return _collect(cast(IO[bytes], file), len(data), limits, source)


def _collect(file: IO[bytes], packed: float, limits: Limits, source: str) -> pa.Buffer:
    """All that is in a file, in Arrow's memory, unless it is more than the limits allow."""
    stream = pa.BufferOutputStream()
    while chunk := file.read(CHUNK):
        stream.write(chunk)
        limits.check(stream.tell(), packed, source)
    return stream.getvalue()


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


# ---------------------------------------------------------------- streams


class _LimitedStream(io.RawIOBase):
    """What a compressed file unpacks to, counted."""

    def __init__(self, file: IO[bytes], packed: int, limits: Limits, source: str) -> None:
        self.file, self.packed, self.limits, self.source = file, packed, limits, source
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.unpacked += len(chunk)
        self.limits.check(self.unpacked, self.packed, self.source, streamed=True)
        return len(chunk)

    def close(self) -> None:
        self.file.close()
        super().close()


def open_stream(path: Path, limits: Limits) -> IO[bytes]:
    """The file's bytes as a stream, decompressed where they need be."""
    file = path.open("rb")
    is_gzip = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if not is_gzip:
        return file
    packed = os.fstat(file.fileno()).st_size
    unpacked = cast(IO[bytes], gzip.GzipFile(fileobj=file))
    return io.BufferedReader(_LimitedStream(unpacked, packed, limits, str(path)), CHUNK)


# ---------------------------------------------------------------- zips and folders


def read_members(path: Path, suffixes: tuple[str, ...], limits: Limits) -> list[Member]:
    """The files with these endings (or one more, .gz) in a zip or a folder and the folders in it, by name."""
    if path.is_dir():
        with reading(path):
            names = folder_names(path, suffixes)
            if len(names) > MEMBERS:
                raise RealmError(f"{path}: more than {MEMBERS:,} files. Name the folder of one export.")
        return [Member(name, read_bytes(path / name, limits)) for name in names]
    members = _zip_members(path, suffixes, limits)
    if not members:
        raise RealmError(f"{path}: there is no {', '.join(suffixes[:-1])} or {suffixes[-1]} file in the zip.")
    return sorted(members, key=lambda member: member.name)


def folder_names(path: Path, suffixes: tuple[str, ...]) -> list[str]:
    """The names of such files in a folder and the folders in it, sorted; few more than `MEMBERS` are looked for."""
    names: list[str] = []
    for folder, inside, files in os.walk(path, onerror=_raise):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        here = Path(folder).relative_to(path)
        names += [str(here / name) for name in files if _is_readable(name, suffixes) and (path / here / name).is_file()]
        if len(names) > MEMBERS:
            break
    return sorted(names)


def _raise(error: OSError) -> None:
    raise error


def _is_readable(name: str, suffixes: tuple[str, ...]) -> bool:
    path = PurePosixPath(name)
    return (
        path.name.lower().removesuffix(".gz").endswith(suffixes)
        and not path.name.startswith("._")  # macOS keeps what it knows of a file beside it under this name
        and "__MACOSX" not in path.parts
        and not is_partial(path.name)
    )


def _zip_members(path: Path, suffixes: tuple[str, ...], limits: Limits) -> list[Member]:
    members: dict[str, Member] = {}
    try:
        packed = os.path.getsize(path)
        with zipfile.ZipFile(path) as archive:
            entries = [
                each for each in archive.infolist() if not each.is_dir() and _is_readable(each.filename, suffixes)
            ]
            if len(entries) > MEMBERS:
                raise RealmError(f"{path}: {len(entries):,} files in the zip; {MEMBERS:,} at most are read.")
            limits.check(sum(entry.file_size for entry in entries), packed, str(path))
            unpacked = 0
            for entry in entries:
                name = str(PurePosixPath(entry.filename))
                if name in members:
                    raise RealmError(f"{path}: two files in the zip have the name {name}. Pack it again with one.")
                with archive.open(entry) as file:
                    data = _collect(file, packed, limits, f"{path}, {name}")
                data = _decompressed(data, f"{path}, {name}", limits)
                members[name] = Member(name, data)
                unpacked += len(data)
                limits.check(unpacked, packed, str(path))
    except DAMAGED as error:
        raise RealmError(f"{path}: not a readable zip file ({str(error)[:200] or type(error).__name__}).") from None
    return list(members.values())
