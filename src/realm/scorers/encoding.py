"""Items as token ids: ragged rows, kept flat, padded only when a batch is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int32]

# What a layer puts out should fit a processor's caches: batches of 8,192 tokens took 1.8 times as long (docs/speed.md).
CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 8192


@dataclass(frozen=True)
class Ragged:
    """Rows of different length in one flat array: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ints
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        flat: list[int] = []
        ends = [0]
        for row in rows:
            flat.extend(row)
            ends.append(len(flat))
        return cls(np.array(flat, dtype=np.int32), np.array(ends, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def pad(self, rows: Sequence[int] | npt.NDArray[np.integer], fill: int) -> tuple[Tensor, Tensor]:
        """These rows as (rows, longest) ids, padded on the right, and their lengths (rows,)."""
        picked = [self[row] for row in rows]
        lengths = np.array([len(row) for row in picked], dtype=np.int64)
        padded = np.full((len(picked), int(lengths.max(initial=1))), fill, dtype=np.int64)
        for index, row in enumerate(picked):
            padded[index, : len(row)] = row
        return torch.from_numpy(padded), torch.from_numpy(lengths)


@dataclass(frozen=True)
class EncodedItems:
    """Every item of a table, ready to batch.

    | field | shape | meaning |
    |---|---|---|
    | rows | one or more rows per item | what the backbone reads |
    | row_starts | (items + 1,) | rows of item i are `row_starts[i]:row_starts[i + 1]` |
    | targets | one row per option of every item, or None | what a decoder is asked to say (`cloze`) |
    | target_starts | (items + 1,) | targets of item i |
    | tasks, option_counts | (items,) | task index; number of options |
    """

    rows: Ragged
    row_starts: npt.NDArray[np.int64]
    tasks: Ints
    option_counts: Ints
    targets: Ragged | None = None
    target_starts: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens the backbone reads for each item. Shape (items,)."""
        per_row = np.concatenate([[0], np.cumsum(self.rows.lengths)])
        return np.asarray(per_row[self.row_starts[1:]] - per_row[self.row_starts[:-1]])

    def rows_of(self, items: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Indices of all rows of these items, item by item."""
        return spans(self.row_starts, items)


def spans(starts: npt.NDArray[np.int64], picked: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Concatenate the ranges `starts[i]:starts[i + 1]` of the picked i."""
    counts = starts[picked + 1] - starts[picked]
    ends = np.cumsum(counts)
    return np.repeat(starts[picked] - (ends - counts), counts) + np.arange(int(counts.sum()))


def batches_by_tokens(
    order: npt.NDArray[np.integer], lengths: npt.NDArray[np.int64], device: torch.device
) -> Iterator[npt.NDArray[np.integer]]:
    """Cut items, sorted by falling length, into batches of as many tokens, padding included, as suit the device."""
    tokens = CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS
    start = 0
    while start < len(order):
        size = max(1, tokens // max(int(lengths[order[start]]), 1))
        yield order[start : start + size]
        start += size
