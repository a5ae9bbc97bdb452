"""Who is writing: locks that the system releases when their process ends, however it ends.

A process that writes into a folder for long holds it, so that a second one is refused instead of mixing its files with
the first one's. What was left by a process that is gone can be told from what another is still writing.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from realm.errors import RealmError
from realm.interrupts import removed_at_the_end

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".realm.lock"
"""In a folder that is being written to: process and host of the writer, for people. What counts is the lock on it."""
ABANDONED_SECONDS = 24 * 3600
"""Where a file system knows no locks, what was not touched for a day is nobody's any more."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.EBADF)
_held: set[Path] = set()


def claim(handle: int) -> bool | None:
    """Lock an open file until it is closed: False where another has it, None where the file system knows no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def is_at(handle: int, path: str | Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def is_claimed(path: Path) -> bool:
    """Whether another process holds a file or folder; False where nobody can know."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        return claim(handle) is False
    finally:
        os.close(handle)


@contextmanager
def if_abandoned(path: Path) -> Iterator[bool]:
    """Whether the process that made a file or folder and claimed it is gone; nobody else claims it meanwhile."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # a link, gone meanwhile, or not ours to read
        yield False
        return
    try:
        about = os.fstat(handle)
        is_plain = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
        claimed = claim(handle)
        yield is_plain and (time.time() - about.st_mtime > ABANDONED_SECONDS if claimed is None else claimed)
    finally:
        os.close(handle)


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Write into a folder, made where it is absent, as the only process that does. Held twice by one process is once.

    A folder that was made and stayed empty is removed again.

    Raises a `RealmError` that names the other process, and an `OSError` where the folder takes no file.
    """
    place = Path(os.path.realpath(folder))
    if place in _held:
        yield
        return
    with removed_at_the_end(lambda: _take_folder(place, folder), lambda taken: _release_folder(place, *taken)):
        yield


def _take_folder(place: Path, folder: Path) -> tuple[int, bool]:
    """The handle of the lock file, and whether the folder was made for it."""
    is_new = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    try:
        handle = _take(place / LOCK, folder)
    except OSError:
        if is_new:
            _remove_if_empty(place)
        raise
    _held.add(place)
    return handle, is_new


def _release_folder(place: Path, handle: int, is_new: bool) -> None:
    _held.discard(place)
    with suppress(OSError):
        (place / LOCK).unlink()
    if is_new:  # perhaps nothing came of it
        _remove_if_empty(place)
    os.close(handle)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def refuse_held(folder: Path) -> None:
    """Refuse a folder that another process is writing to, before anything is read or computed for it."""
    place = Path(os.path.realpath(folder))
    if place not in _held and os.path.isfile(place / LOCK):
        with holding(folder):
            pass


def _take(path: Path, folder: Path) -> int:
    """The open and locked file; one whose owner removed it in this very moment is made again."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            claimed = claim(handle)
            writer = _writer(handle)
            if claimed is False or (claimed is None and _may_live(writer)):
                raise RealmError(_refusal(folder, path, writer, certain=claimed is False))
            if is_at(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _writer(handle: int) -> dict[str, Any]:
    """The process and host that a lock file names, as far as it does."""
    try:
        content = json.loads(os.pread(handle, 1000, 0))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _may_live(writer: dict[str, Any]) -> bool:
    """Without locks: whether the process that a lock file names may still be there."""
    pid, host = writer.get("pid"), writer.get("host")
    if not isinstance(pid, int) or pid <= 0:
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # there, and somebody else's
        return True
    return pid != os.getpid()


def _refusal(folder: Path, path: Path, writer: dict[str, Any], *, certain: bool) -> str:
    pid, host = (str(writer.get(name, "unknown"))[:80] for name in ("pid", "host"))
    text = f"`output` {folder}: another process is writing there (process {pid} on {host}). "
    return text + ("Wait for it or name another folder." if certain else f"If it has ended, remove {path}.")
