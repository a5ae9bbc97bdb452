"""What was dropped while reading, and why: nothing leaves a table silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from realm.data.source import Source

ROWS_KEPT = 20
"""Rows listed under a reason: enough to look at, where millions may have been dropped."""


@dataclass
class Ledger:
    """Counts of dropped or changed rows by reason, with the first rows of each, and warnings in words.

    Row numbers are those of the source: the first record is row 1 (a header is not a record). Where several files were
    read as one table, rows are numbered through them, and `source` knows the files. `format` is the format that the
    source was read as, `file` the name of the file or files.

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
        """A ledger with the same entries, to which more can be added."""
        rows = {reason: list(numbers) for reason, numbers in self.rows.items()}
        return Ledger(dict(self.counts), rows, list(self.warnings), self.format, self.source, self.file)

    def reasons(self) -> str:
        """The counts in one line, for a message."""
        return "; ".join(f"{count:,} x {reason}" for reason, count in self.counts.items())

    def places(self, reason: str) -> list[str]:
        """The rows that are listed under a reason, with their file where there are several."""
        has_files = self.source is not None and self.source.files
        return [self.source.place([row]) if has_files else str(row) for row in self.rows.get(reason, [])]  # type: ignore[union-attr]

    def as_dict(self) -> Mapping[str, object]:
        has_files = self.source is not None and self.source.files
        rows: Mapping[str, object] = {r: self.places(r) for r in self.rows} if has_files else self.rows
        return {"dropped": self.counts, "rows": rows, "warnings": self.warnings}
