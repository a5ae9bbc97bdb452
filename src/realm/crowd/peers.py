"""Who agrees with whom, and which labels meet on the same items: counts alone, with no model of annotators.

Pairs of annotators are counted by products of sparse matrices, never in a dense annotators x annotators matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from realm.crowd.engine import Bools, Floats, Ints
from realm.data.annotations import Annotations

LEAST_SHARED = 10
"""Items in common below which nothing is said of a pair: their agreement would be known to no better than 0.3."""
Z95 = 1.96
MOST_COMPARISONS = 20_000_000
"""Pairs of annotations that are compared at most: about 300 MB."""


@dataclass(frozen=True, eq=False)
class PeerAgreement:
    """Pairs of annotators with `LEAST_SHARED` items in common or more. Shapes (pairs,); `first` < `second`."""

    first: Ints
    second: Ints
    shared: Ints
    same: Ints

    @property
    def share(self) -> Floats:
        """The share of the items in common on which both gave the same label."""
        return np.asarray(self.same / np.maximum(self.shared, 1))

    def bounds(self) -> tuple[Floats, Floats]:
        """Wilson's 95% interval of `share`."""
        n, share = np.maximum(self.shared, 1).astype(np.float64), self.share
        middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        reach = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
        return middle - reach, middle + reach

    def of(self, annotator: int) -> tuple[Ints, Ints]:
        """The others that an annotator can be compared with, and the rows of the pairs."""
        rows = np.flatnonzero((self.first == annotator) | (self.second == annotator))
        return np.where(self.first[rows] == annotator, self.second[rows], self.first[rows]), rows


def peer_agreement(annotations: Annotations, least_shared: int = LEAST_SHARED) -> PeerAgreement:
    """How often every two annotators gave the same label to the same item.

    Items that very many annotators labelled are left out where comparing all of them would take too long.

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "no"]}))
        >>> peer_agreement(table, least_shared=1).share.tolist()
        [0.5]
    """
    rows = _comparable(annotations)[annotations.item]
    item, annotator, label = (
        column[rows].astype(np.int64) for column in (annotations.item, annotations.annotator, annotations.label)
    )
    width = int(annotations.option_counts.max(initial=1))
    together = sp.triu(_pairs(item, annotator, annotations.n_annotators), k=1).tocoo()
    enough = together.data >= least_shared
    first, second, shared = together.row[enough], together.col[enough], together.data[enough]
    agreeing = _pairs(item * width + label, annotator, annotations.n_annotators)
    same = np.asarray(agreeing[first, second]).reshape(-1) if len(first) else np.zeros(0, np.int64)
    return PeerAgreement(*(values.astype(np.int64) for values in (first, second, shared, same)))


def _comparable(annotations: Annotations) -> Bools:
    """Items on which pairs are compared: all with two labels, but the most crowded beyond the limit. Shape (items,)"""
    cost = annotations.annotations_per_item.astype(np.float64) ** 2
    order = np.argsort(cost, kind="stable")
    order = order[cost[order] > 1]
    mask = np.zeros(annotations.n_items, dtype=bool)
    mask[order[np.cumsum(cost[order]) <= MOST_COMPARISONS]] = True
    return mask


def _pairs(group: Ints, annotator: Ints, n_annotators: int) -> sp.csr_matrix:
    """In how many groups each two annotators occur together. Shape (annotators, annotators), sparse."""
    _, group = np.unique(group, return_inverse=True)
    shape = (int(group.max(initial=-1)) + 1, n_annotators)
    member = sp.csr_matrix((np.ones(len(group), np.int32), (group, annotator)), shape=shape)
    member.data[:] = 1  # somebody may have labelled an item twice
    return sp.csr_matrix(member.T @ member)


@dataclass(frozen=True, eq=False)
class DisputedLabels:
    """Two labels that were both given to some items. Shapes (label pairs,); the most frequent first.

    | field | meaning |
    |---|---|
    | task, first, second | the task and the two labels |
    | items | on how many items somebody gave the one and somebody the other |
    | cleaned_first, cleaned_second | on how many of them the cleaned label is the one, and the other |
    """

    task: Ints
    first: Ints
    second: Ints
    items: Ints
    cleaned_first: Ints
    cleaned_second: Ints


def disputed_labels(annotations: Annotations, labels: npt.NDArray[np.integer]) -> DisputedLabels:
    """Which two labels annotators give to the same item. `labels` (items,) are the cleaned labels."""
    width = int(annotations.option_counts.max(initial=1))
    slots = np.unique(annotations.item.astype(np.int64) * width + annotations.label)
    item, label = np.divmod(slots, width)
    places = [(np.flatnonzero(item[step:] == item[:-step]), step) for step in range(1, width)]
    at = np.concatenate([at for at, _ in places] or [np.zeros(0, np.int64)])
    other = np.concatenate([at + step for at, step in places] or [np.zeros(0, np.int64)])
    task = annotations.item_tasks[item[at]].astype(np.int64)
    kinds, kind, counts = np.unique(
        (task * width + label[at]) * width + label[other], return_inverse=True, return_counts=True
    )
    cleaned = np.asarray(labels)[item[at]]
    by_first, by_second = (
        np.bincount(kind, cleaned == label[rows], minlength=len(kinds)).astype(np.int64) for rows in (at, other)
    )
    rest, second = np.divmod(kinds, width)
    order = np.argsort(-counts, kind="stable")
    columns = (rest // width, rest % width, second, counts.astype(np.int64), by_first, by_second)
    return DisputedLabels(*(values[order] for values in columns))
