"""The files of the trunk cache on a disk that may fill up, and after processes that were killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from realm.errors import RealmError

# A shared cache folder may hold the work of another machine, whose processes cannot be seen from here.
ABANDONED_SECONDS = 24 * 3600


def holds(entry: Path, rows: int, size: int) -> bool:
    """Whether a cache entry is finished and has at least this many rows and bytes."""
    try:
        done = int((entry / "done").read_text())
        return done >= rows and (size == 0 or (entry / "states").stat().st_size >= size)
    except (OSError, ValueError):
        return False


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
