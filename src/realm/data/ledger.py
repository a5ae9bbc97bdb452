"""What was dropped while reading, and why: nothing leaves a table silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROWS_KEPT = 20
"""Rows listed under a reason: enough to look at, where millions may have been dropped."""


@dataclass
class Ledger:
    """Counts of dropped or changed rows by reason, with the first rows of each, and warnings in words.

    `format` is what the source was read as, where it was a file.

    Row numbers are those of the source: the first record is row 1 (a header is not a record).

    Example:
        >>> ledger = Ledger()
        >>> ledger.add("cancelled", [3, 9])
        >>> ledger.counts["cancelled"], ledger.rows["cancelled"]
        (2, [3, 9])
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    format: str | None = None

    def add(self, reason: str, rows: Iterable[int], count: int | None = None) -> None:
        """Record rows under a reason; `count` where there are more rows than are listed."""
        rows = [int(row) for row in rows]
        total = len(rows) if count is None else count
        if not total:
            return
        self.counts[reason] = self.counts.get(reason, 0) + total
        listed = self.rows.setdefault(reason, [])
        listed.extend(rows[: ROWS_KEPT - len(listed)])

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def merged(self, other: Ledger) -> Ledger:
        """A new ledger with the counts, rows and warnings of both."""
        both = Ledger(
            dict(self.counts),
            {k: list(v) for k, v in self.rows.items()},
            list(self.warnings),
            self.format or other.format,
        )
        for reason, count in other.counts.items():
            both.add(reason, other.rows.get(reason, []), count)
        for message in other.warnings:
            both.warn(message)
        return both

    def as_dict(self) -> Mapping[str, object]:
        return {"dropped": self.counts, "rows": self.rows, "warnings": self.warnings}
