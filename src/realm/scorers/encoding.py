"""Items as token ids: ragged rows in one flat array, padded only when a batch is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ragged:
    """Rows of different length in one flat array: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ints
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        rows = list(rows)
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int32), starts_of(rows))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def pad(self, rows: npt.NDArray[np.integer], fill: int) -> tuple[Tensor, Tensor]:
        """These rows as (rows, longest) ids, padded on the right, and their lengths (rows,)."""
        lengths = self.lengths[rows]
        padded = np.full((len(rows), int(lengths.max(initial=1))), fill, dtype=np.int64)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = self.values[spans(self.offsets, rows)]
        return torch.from_numpy(padded), torch.from_numpy(lengths)


@dataclass(frozen=True)
class EncodedItems:
    """Every item of a table, ready to batch.

    | field | shape | meaning |
    |---|---|---|
    | rows | one or more rows per item | what the backbone reads |
    | row_starts | (items + 1,) | rows of item i are `row_starts[i]:row_starts[i + 1]` |
    | targets | one row per option of every item, or None | the tokens a decoder is scored on (`cloze`) |
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
        return np.diff(self.rows.offsets[self.row_starts])

    def rows_of(self, items: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Indices of all rows of these items, item by item."""
        return spans(self.row_starts, items)


def starts_of(groups: Sequence[Sequence[object]]) -> npt.NDArray[np.int64]:
    """Where each group begins when all are put behind each other, and where the last one ends. (groups + 1,)"""
    return np.cumsum([0, *map(len, groups)], dtype=np.int64)


def spans(starts: npt.NDArray[np.int64], selected: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Concatenate the ranges `starts[i]:starts[i + 1]` of the selected i."""
    return ranges(starts[selected], starts[selected + 1] - starts[selected])


def ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Concatenate the ranges that begin at `starts` and have these lengths."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(int(lengths.sum()))


def length_mask(lengths: Tensor, width: int) -> Tensor:
    """True in the first `lengths[i]` columns of row i. (rows, width)"""
    return torch.arange(width, device=lengths.device)[None, :] < lengths[:, None]
