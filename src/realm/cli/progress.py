"""How far a command is: bars where a person is watching, lines in a pipe and in a log file.

A line is written when a twentieth of the work is done since the last one, but not more often than every five seconds,
and at least once a minute: short work says nothing, an hour has dozens of lines.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from realm.cli import terminal
from realm.errors import RealmError
from realm.files import without_home
from realm.report.escaping import visible

SHARE = 0.05
"""Of the work between two lines: a line every few per cent."""
SOONEST, LATEST = 5.0, 60.0
"""Seconds between two lines: at least, so that quick work does not fill a log, and at most, so that none is silent."""


def time_left(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


@dataclass
class _Work:
    """One kind of work under way: when it started, and at which time and number the last line was written."""

    start: float
    first: int
    time: float
    done: int
    written: bool = False


class ProgressLines:
    """A progress callback that writes lines; see the module for how often. `remarks` are shown behind the numbers."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.write, self.clock = write, clock
        self.remarks: dict[str, str] = {}
        self._works: dict[str, _Work] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self.clock()
        work = self._works.get(what)
        if work is None:
            work = self._works[what] = _Work(now, done, now, done)
        if done >= total:
            if work.written:
                self.write(f"{what}: done in {now - work.start:.0f} s{self.remark(what)}")
            del self._works[what]
        elif self._is_due(work, now, done, (done - work.done) / total >= SHARE):
            left = (now - work.start) / (done - work.first) * (total - done)
            self.write(f"{what}: {done:,} of {total:,} ({done / total:.0%}), {time_left(left)}{self.remark(what)}")

    def count(self, what: str, done: int) -> None:
        """Progress of work whose end is not known."""
        now = self.clock()
        work = self._works.setdefault(what, _Work(now, done, now, done))
        if self._is_due(work, now, done, done >= 2 * work.done):
            self.write(f"{what}: {done:,} so far")

    def _is_due(self, work: _Work, now: float, done: int, is_enough: bool) -> bool:
        elapsed = now - work.time
        if done <= work.first or elapsed < SOONEST or not (is_enough or elapsed >= LATEST):
            return False
        work.time, work.done, work.written = now, done, True
        return True

    def remark(self, what: str) -> str:
        return f", {self.remarks[what]}" if self.remarks.get(what) else ""


class Display:
    """What commands hand to the library as `progress`: bars in a terminal, else lines, and lines in the log file.

    A bar is drawn only while its work lasts. Of several processes the first one alone shows anything.
    """

    def __init__(self) -> None:
        self.lines = ProgressLines(self._say)
        self.bars: Any = _bars() if terminal.interactive() and _is_first_process() else None
        self._running: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if not _is_first_process():
            return
        if terminal.log_file is not None:
            terminal.log_file.open()
        if self.bars is not None:
            self._draw(what, done, total)
        self.lines(what, done, total)

    def remark(self, what: str, text: str) -> None:
        """Show this text beside the progress of some work: the loss of a training."""
        self.lines.remarks[what] = text

    def count(self, what: str, done: int) -> None:
        """Progress of work whose end is not known."""
        self.lines.count(what, done)

    def stop(self) -> None:
        if self.bars is not None:
            self.bars.stop()
            terminal.live_console = None

    def _draw(self, what: str, done: int, total: int) -> None:
        if what not in self._running:
            self._running[what] = self.bars.add_task(visible(what), total=total)
            self.bars.start()
            terminal.live_console = self.bars.console
        self.bars.update(self._running[what], completed=done, description=visible(what + self.lines.remark(what)))
        if done >= total:
            self.bars.remove_task(self._running.pop(what))
            if not self._running:
                self.stop()

    def _say(self, line: str) -> None:
        """A line where no bar is drawn, and in the log."""
        if self.bars is None:
            terminal.note(line)
        elif terminal.log_file is not None:
            terminal.log_file.write(line)


def _bars() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=terminal.console(stderr=True), transient=True)


@contextmanager
def progress_display() -> Iterator[Display]:
    """A display for as long as a command works."""
    display = Display()
    try:
        yield display
    finally:
        display.stop()


def _is_first_process() -> bool:
    """Whether this is the first of the processes that a launcher started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


# -------------------------------------------------------------------- the log file


class LogFile:
    """What a command says on standard error, with the time, in a file.

    It is opened when the work begins: a command that is refused before leaves none. That the file cannot be written is
    no reason to stop the work.
    """

    def __init__(self, path: Path, append: bool) -> None:
        self.path, self.mode = path, "a" if append else "w"
        self.is_open = False
        self._pending: list[str] = []

    def write(self, text: str) -> None:
        moment = datetime.now().astimezone().isoformat(timespec="seconds")
        self._pending += [f"{moment} {line}\n" for line in without_home(visible(text)).splitlines()]
        if self.is_open:
            self._flush()

    def open(self) -> None:
        if not self.is_open and self.path.parent.is_dir() and self._flush():
            self.is_open = True
            terminal.note(f"Progress is logged to {self.path}")

    def _flush(self) -> bool:
        """Write what is pending; whether that was possible."""
        lines, self._pending = self._pending, []
        try:
            with self.path.open(self.mode, encoding="utf-8") as file:
                file.writelines(lines)
        except OSError:
            return False
        self.mode = "a"
        return True


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
