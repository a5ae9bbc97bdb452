"""What commands show: tables and notes in a terminal, plain text in a pipe; text from data is not markup or control."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from realm.display import counted, visible

if TYPE_CHECKING:
    import pandas as pd

    from realm.cli.progress import LogFile
    from realm.data import Annotations, Ledger

WIDE = 160
"""Columns of a table in a pipe, which has no width of its own."""
ROWS, NAMED = 15, 10
"""Rows of a long table on the screen, and names that a note lists: a glance; all of them are in the file."""
NAME_WIDTH, TEXT_WIDTH, WORD_WIDTH = 32, 40, 24
"""Most characters of the first column, of an item's text in a table, and of a word that is not broken."""
live_console: Any = None
"""The console that draws progress bars at the moment: what is printed beside it must go through it."""
log_file: LogFile | None = None
"""The file that gets a copy of what is said, while a command has one."""


def console(stderr: bool = False) -> Any:
    """A rich console; it respects NO_COLOR and non-terminals."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else WIDE, soft_wrap=not terminal)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; the first column is text and never broken, figures stand to the right. No word is broken."""
    from rich.box import SIMPLE
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[shortened(show_value(row[0]), NAME_WIDTH), *map(show_value, row[1:])] for row in rows]
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(map(visible, columns)):
        values = [row[place] for row in cells]
        is_text = place == 0 or any(letter.isalpha() for value in values for letter in value)
        words = " ".join(values).split() if place and is_text else values
        width = max(map(cell_len, [*name.split(), *words]), default=1)
        width = min(width, WORD_WIDTH) if place and is_text else width
        table.add_column(Text(name), justify="left" if is_text else "right", min_width=width, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    screen = console()
    screen.print(Text(visible(title), style="bold"))
    screen.print(table, crop=False)
    screen.print()


def show_frame(title: str, frame: pd.DataFrame) -> None:
    """Print a DataFrame as a table; texts of items are cut to one line, what is missing is a dash.

    A column with the same value in every row is left out of the table and written once below it.
    """
    frame = frame.astype(object).where(frame.notna(), None)
    if "text" in frame:
        frame = frame.assign(text=[shortened(" ".join(text.split()), TEXT_WIDTH) for text in frame["text"]])
    first = {name: frame[name].iloc[0] for name in frame.columns[1:] if len(frame) > 2}
    same = {name: value for name, value in first.items() if len(set(map(show_value, frame[name]))) == 1}
    table = frame.drop(columns=list(same))
    show_table(title, [str(name).replace("_", " ") for name in table], table.itertuples(index=False, name=None))
    if shared := [f"{name} {show_value(value)}" for name, value in same.items() if value not in (None, "")]:
        write_out(f"The same in every row shown: {', '.join(shared)}.\n")


def show_value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else visible(str(value))


def shortened(text: str, width: int) -> str:
    """The text, its end cut where it is longer than `width`."""
    return text if len(text) <= width else text[: width - 1] + "…"


def listed(names: Sequence[str]) -> str:
    """Names with commas between them, the first few of many."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def note_table(annotations: Annotations) -> None:
    """Say what was read: its size, what was left out and why."""
    items, annotators = counted(annotations.n_items, "item"), counted(annotations.n_annotators, "annotator")
    more = "" if len(annotations.tasks) == 1 else f", {counted(len(annotations.tasks), 'task')}"
    note(f"{counted(annotations.n_annotations, 'annotation')} of {items} by {annotators}{more}")
    note_ledger(annotations.ledger)


def note_ledger(ledger: Ledger) -> None:
    """Say what was left out while a table was read, and why, and its warnings."""
    for reason, count in ledger.counts.items():
        note(f"{count:,} x {reason}")
    for warning in ledger.warnings:
        note(f"warning: {warning}")


def note(message: str, *, is_logged: bool = True) -> None:
    """A remark on standard error, so that it never mixes with output a script reads.

    `is_logged=False` keeps it out of the log file: nothing in a run folder depends on gold that was not used.
    """
    from rich.text import Text

    text = visible(message)
    (live_console or console(stderr=True)).print(Text(text))
    if log_file is not None and is_logged:
        log_file.write(text)


class NoteHandler(logging.Handler):
    """Shows what the library logs as notes on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def show_log() -> None:
    """Show warnings that the library logs, once, however often the command line is entered."""
    logger = logging.getLogger("realm")
    if not any(isinstance(handler, NoteHandler) for handler in logger.handlers):
        logger.addHandler(NoteHandler(logging.WARNING))


def write_out(text: str, *, end: str = "\n") -> None:
    """Write text with data in it to standard output: to a terminal without commands to it, to a pipe as it is."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + end)
    sys.stdout.flush()
