"""One process writes into a folder at a time: a lock that the system releases when its process ends, in any way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from realm.errors import RealmError

LOCK = ".realm.lock"
"""In a folder that is being written to."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Write into a folder, made where it is absent, as the only process that does. Held twice by one process is once.

    A folder that was made and stayed empty is removed again. Raises an `OSError` where the folder takes no file.
    """
    place = Path(os.path.realpath(folder))
    is_new = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place / LOCK, timeout=0, thread_local=False, is_singleton=True)
    if lock.is_locked:
        yield
        return
    try:
        try:
            lock.acquire()
        except Timeout:
            raise RealmError(
                f"`output` {folder}: another process is writing there. Wait for it or name another folder."
            ) from None
        try:
            yield
        finally:
            (place / LOCK).unlink(missing_ok=True)
            lock.release()
    finally:
        if is_new:
            with suppress(OSError):
                place.rmdir()


def refuse_held(folder: Path) -> None:
    """Refuse a folder that another process is writing to, before anything is read or computed for it."""
    if (folder / LOCK).is_file():
        with holding(folder):
            pass
