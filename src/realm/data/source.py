"""What messages call a table, and where in it a row is: one file, or several that were read as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError

Rows = npt.NDArray[np.int64]
FILES_NAMED = 3
ROWS_NAMED = 5


@dataclass(frozen=True)
class Source:
    """Where rows come from. Rows of several files are numbered through: `starts[f] + n` is row n of file f.

    Example:
        >>> source = Source.joined(["a.csv", "b.csv"], [10, 5])
        >>> str(source), source.place([12])
        ('a.csv and b.csv', 'b.csv, row 2')
    """

    name: str
    files: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @classmethod
    def joined(cls, names: Sequence[str], counts: Sequence[int]) -> Source:
        """Several files as one table; `counts` is how many rows each has. Shapes (files,)."""
        if len(names) > FILES_NAMED:
            name = f"{', '.join(names[: FILES_NAMED - 1])} and {len(names) - FILES_NAMED + 1} more files"
        else:
            name = f"{', '.join(names[:-1])} and {names[-1]}"
        return cls(name, tuple(names), tuple(np.cumsum([0, *counts[:-1]]).tolist()))

    def __str__(self) -> str:
        return self.name

    def locate(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there."""
        if not self.files:
            return self.name, int(row)
        index = int(np.searchsorted(self.starts, row, side="left")) - 1
        return self.files[index], int(row) - self.starts[index]

    def place(self, rows: Sequence[int] | Rows) -> str:
        """Where these rows are, as a message begins: "labels.csv, rows 3, 8 and 12 more"."""
        located = [self.locate(int(row)) for row in rows]
        here = [str(number) for name, number in located if name == located[0][0]]
        if len(here) == 1:
            text = f"row {here[0]}"
        else:
            more = f" and {len(here) - ROWS_NAMED:,} more" if len(here) > ROWS_NAMED else ""
            text = f"rows {', '.join(here[:ROWS_NAMED])}{more}"
        others = len({name for name, _ in located}) - 1
        elsewhere = f" (and rows of {others} more file{'s' * (others > 1)})" if others else ""
        return f"{located[0][0]}, {text}{elsewhere}"

    def both(self, first: int, second: int) -> str:
        """Where two rows are that contradict each other."""
        if self.files:
            return f"{self.place([first])} and {self.place([second])}"
        return f"{self.name}, rows {first} and {second}"

    def error(self, message: str, rows: Sequence[int] | Rows | None = None) -> RealmError:
        """An error that names the table, or these rows of it."""
        return RealmError(f"{self.name if rows is None or not len(rows) else self.place(rows)}: {message}")
