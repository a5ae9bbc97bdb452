"""How library code reports progress: through a callback, so that only the command line draws anything."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""`progress(what, done, total)`: what is being done, how many of its units are done, and of how many. Called with
`done` 0 before the first unit and with `done == total` after the last."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """The callback of a caller who does not watch."""
