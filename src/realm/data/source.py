"""What messages call a table, and where in it a row is: one file, or several that were read as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError

Rows = npt.NDArray[np.int64]
SHOWN = 5
"""Rows or files that a message names: enough to find them, few enough for one line."""


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
        last = names[-1] if len(names) <= SHOWN else f"{len(names) - SHOWN + 1} more files"
        name = f"{', '.join(names[: min(len(names), SHOWN) - 1])} and {last}"
        return cls(name, tuple(names), tuple(np.cumsum([0, *counts[:-1]]).tolist()))

    def __str__(self) -> str:
        return self.name

    def place(self, rows: Sequence[int] | Rows) -> str:
        """Where these rows are, as a message begins: "labels.csv, rows 3, 8 and 12 more"."""
        of_file: dict[str, list[str]] = {}
        for row in rows:
            index = int(np.searchsorted(self.starts, row)) - 1
            name, start = (self.files[index], self.starts[index]) if self.files else (self.name, 0)
            of_file.setdefault(name, []).append(str(int(row) - start))
        (name, numbers), *others = of_file.items()
        more = f" and {len(numbers) - SHOWN:,} more" if len(numbers) > SHOWN else ""
        elsewhere = f" (and rows of {len(others)} more file{'s' * (len(others) > 1)})" if others else ""
        return f"{name}, row{'s' * (len(numbers) > 1)} {', '.join(numbers[:SHOWN])}{more}{elsewhere}"

    def both(self, first: int, second: int) -> str:
        """Where two rows are that contradict each other."""
        if self.files:
            return f"{self.place([first])} and {self.place([second])}"
        return f"{self.name}, rows {first} and {second}"

    def error(self, message: str, rows: Sequence[int] | Rows | None = None) -> RealmError:
        """An error that names the table, or these rows of it."""
        return RealmError(f"{self.name if rows is None or not len(rows) else self.place(rows)}: {message}")
