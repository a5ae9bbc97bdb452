"""How far a command is: bars where a person is watching, lines in a pipe and in a log file."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from realm.cli import terminal
from realm.display import visible
from realm.errors import RealmError
from realm.files import without_home

SOONEST = 5.0
"""Seconds before a line about some work, and between two lines: quick work writes none."""
SHARE = 0.1
"""Of the time that the work has taken so far: the least between two lines, so that an hour has some dozens."""


class Progress:
    """What commands hand to the library as `progress`: bars in a terminal, else lines, and lines in the log file.

    A bar is drawn only while its work lasts. Of several processes the first one alone shows anything. `remarks` are
    shown behind the numbers: the loss of a training.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.remarks: dict[str, str] = {}
        self.bars: Any = _bars() if sys.stderr.isatty() and _is_first_process() else None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, tuple[float, int]] = {}
        self._last_lines: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """`total` is None where the end of the work is not known."""
        if not _is_first_process():
            return
        if terminal.log_file is not None:
            terminal.log_file.open()
        remark = f", {self.remarks[what]}" if what in self.remarks else ""
        if self.bars is not None and total is not None:
            self._draw(what, done, total, remark)
        now = self.clock()
        start, first = self._started.setdefault(what, (now, done))
        if done == total:
            if what in self._last_lines:
                self._say(f"{what}: done in {now - start:.0f} s{remark}")
            self._started.pop(what)
            self._last_lines.pop(what, None)
        elif done > first and now - self._last_lines.get(what, start) >= max(SOONEST, SHARE * (now - start)):
            self._last_lines[what] = now
            left = "" if total is None else _time_left((now - start) / (done - first) * (total - done))
            of_total = " so far" if total is None else f" of {total:,} ({done / total:.0%}), {left}"
            self._say(f"{what}: {done:,}{of_total}{remark}")

    def stop(self) -> None:
        if self.bars is not None:
            self.bars.stop()
            terminal.live_console = None

    def _draw(self, what: str, done: int, total: int, remark: str) -> None:
        if what not in self._tasks:
            self._tasks[what] = self.bars.add_task(visible(what), total=total)
            self.bars.start()
            terminal.live_console = self.bars.console
        self.bars.update(self._tasks[what], completed=done, description=visible(what + remark))
        if done >= total:
            self.bars.remove_task(self._tasks.pop(what))
            if not self._tasks:
                self.stop()

    def _say(self, line: str) -> None:
        """A line where no bar is drawn, and in the log."""
        if self.bars is None:
            terminal.note(line)
        elif terminal.log_file is not None:
            terminal.log_file.write(line)


def _time_left(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def _bars() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=terminal.console(stderr=True), transient=True)


@contextmanager
def progress_display() -> Iterator[Progress]:
    """Progress for as long as a command works."""
    progress = Progress()
    try:
        yield progress
    finally:
        progress.stop()


def _is_first_process() -> bool:
    """Whether this is the first of the processes that a launcher started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


class LogFile:
    """What a command says on standard error, with the time, in a file.

    It is opened when the work begins: a command that is refused before leaves none. That the file cannot be written is
    no reason to stop the work.
    """

    def __init__(self, path: Path, append: bool) -> None:
        self.path, self.mode, self.is_open = path, "a" if append else "w", False
        self._pending: list[str] = []

    def open(self) -> None:
        if not self.is_open and self.path.parent.is_dir():
            self.is_open = True
            terminal.note(f"Progress is logged to {self.path}")

    def write(self, text: str) -> None:
        moment = datetime.now().astimezone().isoformat(timespec="seconds")
        self._pending += [f"{moment} {line}\n" for line in without_home(visible(text)).splitlines()]
        if self.is_open:
            with suppress(OSError), self.path.open(self.mode, encoding="utf-8") as file:
                file.writelines(self._pending)
                self.mode, self._pending = "a", []


@contextmanager
def logged_to(path: Path, *, append: bool) -> Iterator[None]:
    """Write what the command says into this file as well, from the moment at which its work begins."""
    if not _is_first_process():
        yield
        return
    log = terminal.log_file = LogFile(path, append)
    log.write(" ".join(["realm", *sys.argv[1:]]))
    try:
        yield
    except BaseException as error:
        log.write(f"ended by {type(error).__name__}: {error}" if str(error) else f"ended by {type(error).__name__}")
        if isinstance(error, Exception) and not isinstance(error, RealmError) and log.is_open:
            log.write("".join(traceback.format_exception(error)))
            error.add_note(f"The log is {path}.")
        raise
    finally:
        terminal.log_file = None
