"""What was dropped while reading, and why: nothing leaves a table silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from realm.data.source import Source

ROWS_KEPT = 20
"""Rows listed under a reason: enough to look at, where millions may have been dropped."""


@dataclass
class Ledger:
    """Counts of dropped or changed rows by reason, with the first rows of each, and warnings in words.

    Rows are numbered from 1, through all files where several were read as one table; `source` knows the files.
    `format` is what the source was read as, `file` the name of the file or files.

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
    source: Source | None = None
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
        return deepcopy(self)

    def reasons(self) -> str:
        """The counts in one line, for a message."""
        return "; ".join(f"{count:,} x {reason}" for reason, count in self.counts.items())

    def places(self, reason: str) -> list[str]:
        """The rows that are listed under a reason, with their file where there are several."""
        rows, source = self.rows.get(reason, []), self.source
        return [source.place([row]) if source is not None and source.files else str(row) for row in rows]

    def as_dict(self) -> Mapping[str, object]:
        several = self.source is not None and self.source.files
        rows = {reason: self.places(reason) if several else rows for reason, rows in self.rows.items()}
        return {"dropped": self.counts, "rows": rows, "warnings": self.warnings}
