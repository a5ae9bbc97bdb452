"""What messages call a table, and where in it a row is: one file, or several that were read as one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from realm.data.columns import Rows, name_rows
from realm.display import counted

FILES_NAMED = 3
"""Files that a message names: one line."""


class Files(str):
    """Several files that were read as one table, as a message calls them.

    Rows are numbered through all files, in their order: row `starts[f] + n` is row n of file f.

    Example:
        >>> files = Files.of(["a.csv", "b.csv"], [10, 5])
        >>> str(files), files.place(12)
        ('a.csv and b.csv', 'b.csv, row 2')
    """

    names: tuple[str, ...]
    starts: Rows

    @classmethod
    def of(cls, names: Sequence[str], counts: Sequence[int]) -> Files:
        """`names` are the files, `counts` how many rows each has. Shapes (files,)."""
        if len(names) > FILES_NAMED:
            text = f"{', '.join(names[: FILES_NAMED - 1])} and {len(names) - FILES_NAMED + 1} more files"
        else:
            text = f"{', '.join(names[:-1])} and {names[-1]}"
        files = cls(text)
        files.names = tuple(names)
        files.starts = np.concatenate([[0], np.cumsum(counts)])[:-1].astype(np.int64)
        return files

    def locate(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there."""
        index = int(np.searchsorted(self.starts, row, side="left")) - 1
        return self.names[index], int(row - self.starts[index])

    def place(self, row: int) -> str:
        name, number = self.locate(row)
        return f"{name}, row {number}"


def place(source: str, rows: Rows) -> str:
    """Where these rows are, as a message begins: "labels.csv, rows 3, 8 and 12 more"."""
    if not isinstance(source, Files):
        return f"{source}, {name_rows(rows)}"
    located = [source.locate(int(row)) for row in rows]
    in_first = np.array([number for name, number in located if name == located[0][0]], dtype=np.int64)
    elsewhere = len({name for name, _ in located}) - 1
    more = f" (and rows of {counted(elsewhere, 'more file')})" if elsewhere else ""
    return f"{located[0][0]}, {name_rows(in_first)}{more}"


def place_of_two(source: str, first: int, second: int) -> str:
    """Where two rows are that contradict each other."""
    if isinstance(source, Files):
        return f"{source.place(first)} and {source.place(second)}"
    return f"{source}, rows {first} and {second}"
