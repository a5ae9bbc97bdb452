"""The files of the trunk cache on a disk that may fill up, and after processes that were killed."""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from realm.errors import RealmError

# A shared cache folder may hold the work of another machine, whose processes cannot be seen from here.
ABANDONED_SECONDS = 24 * 3600


def holds(entry: Path, rows: int, size: int) -> bool:
    """Whether a cache entry is finished, has at least this many rows and bytes, and is as it was written."""
    try:
        done, checksum = (int(word) for word in (entry / "done").read_text().split())
        states = entry / "states"
        if done < rows or (size and states.stat().st_size < size):
            return False
        return checksum == _checksum(states)
    except (OSError, ValueError):
        return False


def seal(entry: Path, rows: int) -> None:
    """Say that an entry is finished: how many rows it has, and what its states add up to."""
    (entry / "done").write_text(f"{rows} {_checksum(entry / 'states')}")


def _checksum(states: Path) -> int:
    if not states.exists():
        return 0
    about = states.stat()
    return _summed(states, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _summed(states: Path, size: int, time: int) -> int:
    """CRC-32 of the file, read once per process as long as it does not change: a flipped bit would go unnoticed."""
    total = 0
    with states.open("rb") as file:
        while part := file.read(2**24):
            total = zlib.crc32(part, total)
    return total


@contextmanager
def cache_folder(folder: Path) -> Iterator[None]:
    """Turn a cache folder that cannot be used into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise RealmError(
            f"{folder}: what the frozen layers compute cannot be kept there: {error.strerror or error}. Set REALM_HOME "
            "to a folder that can be written to, or keep nothing with --cache-gb 0."
        ) from None


def reserve(path: Path, size: int) -> None:
    """Take the space at once: a disk that fills up under a memory-mapped file would end the process without a word."""
    try:
        with path.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
    except OSError as error:
        raise RealmError(
            f"{path.parent.parent}: no room for {size / 1e9:.2g} GB of what the frozen layers compute: "
            f"{error.strerror or error}. Free some space, set REALM_HOME to another disk, or use a smaller --cache-gb "
            "(0 for none)."
        ) from None


def partial_name() -> str:
    """How the folder of an entry in the making begins: with the process that makes it."""
    return f".partial-{os.getpid()}-"


def remove_abandoned(folder: Path) -> None:
    """Remove what processes that are no more were making."""
    for path in folder.glob(".partial-*-*"):
        maker = path.name.split("-")[1]
        old = time.time() - path.stat().st_mtime > ABANDONED_SECONDS
        if old and maker.isdigit() and not _alive(int(maker)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
