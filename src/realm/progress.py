"""How library code reports progress: through a callback, so that only the command line draws anything."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""`progress(what, done, total)`: what is being done, how many of its units are done, and of how many. Called before the
first unit (with `done` 0, or more where earlier work is continued) and with `done == total` after the last."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """The callback of a caller who does not watch."""


def named(progress: Progress, prefix: str) -> Progress:
    """The same callback with a prefix before what is being done, for one of several like works."""
    return lambda what, done, total: progress(f"{prefix}, {what}", done, total)
