"""What was dropped while reading, and why: nothing leaves a table silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from realm.data.sources import Files

ROWS_KEPT = 20
"""Rows listed under a reason: enough to look at, where millions may have been dropped."""


@dataclass
class Ledger:
    """Counts of dropped or changed rows by reason, with the first rows of each, and warnings in words.

    Row numbers are those of the source: the first record is row 1 (a header is not a record). Where several `files`
    were read as one table, rows are numbered through them. `format` is the format that the source was read as.
    `file` is the name of the file or files.

    Examples:
        >>> ledger = Ledger()
        >>> ledger.add("cancelled", [3, 9])
        >>> ledger.counts["cancelled"], ledger.rows["cancelled"]
        (2, [3, 9])
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    format: str | None = None
    files: Files | None = None
    file: str | None = None

    def add(self, reason: str, rows: Iterable[int], count: int | None = None) -> None:
        """Record rows under a reason; `count` where there are more rows than are listed."""
        rows = [int(row) for row in rows]
        if total := len(rows) if count is None else count:
            self.counts[reason] = self.counts.get(reason, 0) + total
            self.rows[reason] = [*self.rows.get(reason, []), *rows][:ROWS_KEPT]

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def copy(self) -> Ledger:
        """A ledger with the same entries, to which more can be added."""
        rows = {reason: list(numbers) for reason, numbers in self.rows.items()}
        return Ledger(dict(self.counts), rows, list(self.warnings), self.format, self.files, self.file)

    def reasons(self) -> str:
        """The counts in one line, for a message."""
        return "; ".join(f"{count:,} x {reason}" for reason, count in self.counts.items())

    def places(self, reason: str) -> list[str]:
        """The rows that are listed under a reason, with their file where there are several."""
        return [str(row) if self.files is None else self.files.place(row) for row in self.rows.get(reason, [])]

    def as_dict(self) -> Mapping[str, object]:
        rows: Mapping[str, object] = self.rows if self.files is None else {r: self.places(r) for r in self.rows}
        return {"dropped": self.counts, "rows": rows, "warnings": self.warnings}
