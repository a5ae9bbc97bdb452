"""What commands show: tables and notes in a terminal, plain text in a pipe; text from data is not markup or control."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from realm.display import counted, visible
from realm.report.escaping import clipped

if TYPE_CHECKING:
    import pandas as pd

    from realm.cli.progress import LogFile
    from realm.data import Annotations, Ledger

WIDE = 160
"""Columns of a table in a pipe, which has no width of its own."""
ROWS = 15
"""Rows of a long table on the screen: a glance; all of them are in the file."""
NAME_WIDTH = 32
"""Most characters of the first column; of longer names the end is cut."""
WORD_WIDTH = 24
"""Most characters of a word that is not broken: an address would take the whole screen."""
GAP = 2
"""Characters between two columns."""
TEXT_WIDTH = 40
"""Characters of an item's text in a table: enough to recognise it."""
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
    """Print a table; the first column is text and never broken, figures stand to the right.

    No word is broken. Columns for which the screen is too narrow follow below, beside the first column.
    """
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    screen = console()
    header = [visible(column) for column in columns]
    cells = [[show_value(value) for value in row] for row in rows]
    for row in cells:
        row[0] = clipped(row[0], NAME_WIDTH)
    screen.print(Text(visible(title), style="bold"))
    measured = [_Column(name, [row[place] for row in cells], place == 0) for place, name in enumerate(header)]
    for block in _blocks(measured, screen.width):
        table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for column, width in zip(block, _widths(block, screen.width), strict=True):
            side: Any = "left" if column.is_text else "right"
            table.add_column(Text(column.name), justify=side, width=width, overflow="fold")
        for place in range(len(cells)):
            table.add_row(*(Text(column.cells[place]) for column in block))
        screen.print(table)
        screen.print()


class _Column:
    """A column of a table: its cells, whether they are words, and the widths between which it may be printed."""

    def __init__(self, name: str, cells: list[str], is_first: bool) -> None:
        from rich.cells import cell_len

        self.name, self.cells = name, cells
        self.is_text = is_first or any(any(letter.isalpha() for letter in cell) for cell in cells)
        longest_word = max((cell_len(word) for word in name.split()), default=1)
        self.widest = max([cell_len(name), *map(cell_len, cells)])
        words = [cell_len(word) for cell in cells for word in cell.split()]
        if is_first or not self.is_text:
            self.narrowest = max([longest_word, *map(cell_len, cells)])
        else:
            self.narrowest = min(max([longest_word, *words]), max(longest_word, WORD_WIDTH))


def _blocks(columns: list[_Column], width: int) -> Iterator[list[_Column]]:
    """The columns in groups that fit side by side, each beginning with the first column."""
    block = columns[:1]
    for column in columns[1:]:
        if len(block) > 1 and sum(each.narrowest + GAP for each in [*block, column]) - GAP > width:
            yield block
            block = columns[:1]
        block.append(column)
    yield block


def _widths(columns: list[_Column], width: int) -> list[int]:
    """The width of each column: what is left over goes to the narrowest first, as far as they can use it."""
    widths = [column.narrowest for column in columns]
    left = width - sum(widths) - GAP * (len(columns) - 1)
    while left > 0 and (open_ := [i for i, column in enumerate(columns) if widths[i] < column.widest]):
        widths[min(open_, key=lambda index: widths[index])] += 1
        left -= 1
    return widths


def show_frame(title: str, frame: pd.DataFrame) -> None:
    """Print a DataFrame as a table; texts of items are cut to one line, what is missing is a dash.

    A column with the same value in every row is left out of the table and said once.
    """
    frame = frame.astype(object).where(frame.notna(), None)
    if "text" in frame:
        frame = frame.assign(text=[clipped(" ".join(text.split()), TEXT_WIDTH) for text in frame["text"]])
    names = [str(name) for name in frame.columns]
    same = [] if len(frame) < 3 else [name for name in names[1:] if len({show_value(v) for v in frame[name]}) == 1]
    show_table(title, [n for n in names if n not in same], frame.drop(columns=same).itertuples(index=False, name=None))
    if said := [f"{name} {show_value(frame[name].iloc[0])}" for name in same if frame[name].iloc[0] is not None]:
        console().print(_plain(f"The same in every row shown: {', '.join(said)}."), style="dim")


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(visible(text))


def show_value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else visible(str(value))


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
    """A remark on standard error, so that it never mixes with output a script reads; arguments appear as flags.

    `is_logged=False` keeps it out of the log file: nothing in a run folder depends on gold that was not used.
    """
    from rich.text import Text

    from realm.cli.messages import with_flags

    text = visible(with_flags(message))
    (live_console or console(stderr=True)).print(Text(text))
    if log_file is not None and is_logged:
        log_file.write(text)


def write_out(text: str, *, end: str = "\n") -> None:
    """Write text with data in it to standard output: to a terminal without commands to it, to a pipe as it is."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + end)
    sys.stdout.flush()


def write_json_out(value: Any, indent: int | None = None) -> None:
    """Write JSON to standard output: numbers of numpy as numbers, what is not finite as null."""
    from realm.files import as_json

    write_out(json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, indent=indent))


def interactive() -> bool:
    """Whether a person is watching, so that progress is worth showing."""
    return sys.stderr.isatty()


def records(frame: pd.DataFrame) -> list[Any]:
    """The rows of a table as JSON takes them: None for what is missing."""
    return list(frame.astype(object).where(frame.notna(), None).to_dict("records"))
