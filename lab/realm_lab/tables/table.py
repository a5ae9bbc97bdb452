"""What a table is, whatever it is printed as: rows and columns of entries, each with the paper's figure beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from realm import METHODS
from realm.comparison.significance import Contrast, Summary
from realm.lab.datasets import base as datasets

TITLES = {
    **datasets.TITLES,
    **{name: method.title for name, method in METHODS.items()},
    "realm-scalar": "REALM, one number each",
    "realm-paper": "REALM, paper's setting",
    "small": "Small",
    "base": "Base",
    "large": "Large",
    "one-reliable": "one reliable",
}
"""What the paper calls things."""
HEADINGS = {"benchmark": "Dataset", "spread": "Pool"}
"""The heading of a field, where it is not the field's own name."""


def heading(field: str) -> str:
    return HEADINGS.get(field, field.capitalize().replace("_", " "))


def display(value: object) -> str:
    """A value as the tables write it; tasks of a benchmark and joined benchmarks part by part."""
    text = f"{value:g}" if isinstance(value, float) else str("" if value is None else value)
    for separator in ("+", "/"):
        if separator in text:
            return separator.join(display(part) for part in text.split(separator))
    return TITLES.get(text, text)


@dataclass(frozen=True)
class Entry:
    """One figure.

    | field | meaning |
    |---|---|
    | key | what it is: fields of the configuration, method and quantity |
    | summary | mean and spread over the finished seeds, in the unit of the table; None while no cell is finished |
    | seeds | how many seeds there should be |
    | paper | mean and standard deviation of the paper, in the same unit; None where nothing corresponds |
    | digits | decimals to print; 2 where the paper prints two |
    | signed | whether it is a difference |
    | contrast | for a difference of accuracies, how sure it is |
    | best | whether it is the best of its row and group |
    """

    key: Mapping[str, Any]
    summary: Summary | None
    seeds: int
    paper: tuple[float, float | None] | None = None
    digits: int = 2
    signed: bool = False
    contrast: Contrast | None = None
    best: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.summary is None or self.paper is None else self.summary.mean - self.paper[0]

    @property
    def partial(self) -> bool:
        return self.summary is not None and self.summary.seeds < self.seeds


@dataclass(frozen=True)
class Column:
    """A column: the group it stands under (empty for none) and its own name."""

    group: str
    name: str


@dataclass(frozen=True)
class Row:
    """A row: its labels, an entry per column (text stands as it is, None is left empty)."""

    labels: tuple[str, ...]
    entries: tuple[Entry | str | None, ...]
    average: bool = False


@dataclass(frozen=True)
class Table:
    """A table. `stub` names the columns of the rows' labels; `notes` stand below it."""

    title: str
    stub: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def entries(self) -> list[Entry]:
        return [entry for row in self.rows for entry in row.entries if isinstance(entry, Entry)]

    @property
    def has_paper(self) -> bool:
        return any(entry.paper is not None for entry in self.entries)


def plain_columns(*names: str) -> tuple[Column, ...]:
    """Columns that stand under no group."""
    return tuple(Column("", name) for name in names)
