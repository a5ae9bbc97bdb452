"""What commands show: tables and notes in a terminal, plain text in a pipe; text from data is not markup or control."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from realm.progress import Progress, ignore_progress
from realm.report.escaping import clipped, visible

if TYPE_CHECKING:
    import pandas as pd

WIDE = 160
"""Columns of a table in a pipe, which has no width of its own."""
ROWS = 15
"""Rows of a long table on the screen: a glance; all of them are in the file."""
NAME_WIDTH = 16
"""Characters of the first column that are not broken up however narrow the screen is."""
TEXT_WIDTH = 40
"""Characters of an item's text in a table: enough to recognise it."""


def console(stderr: bool = False) -> Any:
    """A rich console; it respects NO_COLOR and non-terminals."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else WIDE, soft_wrap=not terminal)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are figures."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(title=Text(visible(title)), box=SIMPLE, title_justify="left")
    whole = min(max((len(show_value(row[0])) for row in rows), default=0), NAME_WIDTH)
    for index, column in enumerate(columns):
        side, width = ("left", whole) if index == 0 else ("right", None)
        table.add_column(Text(visible(column)), justify=side, min_width=width, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(show_value(value)) for value in row))
    console().print(table)


def show_frame(title: str, frame: pd.DataFrame) -> None:
    """Print a DataFrame as a table; texts of items are cut to one line, what is missing is a dash."""
    frame = frame.astype(object).where(frame.notna(), None)
    if "text" in frame:
        frame = frame.assign(text=[clipped(" ".join(text.split()), TEXT_WIDTH) for text in frame["text"]])
    show_table(title, [str(name) for name in frame.columns], frame.itertuples(index=False, name=None))


def show_value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else visible(str(value))


def note(message: str) -> None:
    """A remark on standard error, so that it never mixes with output a script reads; arguments appear as flags."""
    from rich.text import Text

    from realm.cli.messages import with_flags

    console(stderr=True).print(Text(visible(with_flags(message))))


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A callback that draws what the library reports as bars on standard error, if a person is watching.

    A bar is on the screen only while its work lasts, so that other bars (those of `Trainer`) can follow it.
    """
    if not interactive():
        yield ignore_progress
        return
    from rich.progress import Progress as Bars

    bars = Bars(console=console(stderr=True), transient=True)
    running: dict[str, Any] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in running:
            running[what] = bars.add_task(visible(what), total=total)
            bars.start()
        bars.update(running[what], completed=done)
        if done == total:
            bars.remove_task(running.pop(what))
            if not running:
                bars.stop()

    try:
        yield show
    finally:
        bars.stop()


def interactive() -> bool:
    """Whether a person is watching, so that progress is worth showing."""
    return sys.stderr.isatty()


def records(frame: pd.DataFrame) -> list[Any]:
    """The rows of a table as JSON takes them: None for what is missing."""
    return list(frame.astype(object).where(frame.notna(), None).to_dict("records"))
