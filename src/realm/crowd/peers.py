"""Who agrees with whom, which labels annotators disagree about, and who takes what for what.

Counts alone, with no model of annotators: what a person who runs an annotation team looks at first. Pairs of annotators
are counted by products of sparse matrices, never in a dense annotators x annotators matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from realm.crowd.coin import pairs_of
from realm.crowd.copies import comparable
from realm.crowd.evidence import Bools, Floats, Indices
from realm.data.annotations import Annotations

LEAST_SHARED = 10
"""Items in common below which nothing is said of a pair: their agreement would be known to no better than 0.3."""
LEAST_MISTAKES = 5
"""Times that an annotator must have taken one label for another before it is reported."""
BY_CHANCE = 3.0
"""Standard errors above what the others do: by chance one (annotator, label, label) in a thousand is reported."""
EXCESS = 0.1
"""How much more often than the others: ten points, below which nobody would change the instructions."""
Z95 = 1.96


@dataclass(frozen=True, eq=False)
class PeerAgreement:
    """Pairs of annotators with `LEAST_SHARED` items in common or more. Shapes (pairs,); `first` < `second`."""

    first: Indices
    second: Indices
    shared: Indices
    same: Indices

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

    def of(self, annotator: int) -> tuple[Indices, Indices]:
        """The others that an annotator can be compared with, and the rows of the pairs."""
        rows = np.flatnonzero((self.first == annotator) | (self.second == annotator))
        return np.where(self.first[rows] == annotator, self.second[rows], self.first[rows]), rows


def peer_agreement(annotations: Annotations, least_shared: int = LEAST_SHARED) -> PeerAgreement:
    """How often every two annotators gave the same label to the same item.

    Items that very many annotators labelled are left out where comparing all of them would take too long
    (`realm.crowd.copies.comparable`).

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "no"]}))
        >>> peer_agreement(table, least_shared=1).share.tolist()
        [0.5]
    """
    rows = comparable(annotations)[annotations.item]
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


def _pairs(group: Indices, annotator: Indices, n_annotators: int) -> sp.csr_matrix:
    """In how many groups each two annotators occur together. Shape (annotators, annotators), sparse."""
    _, group = np.unique(group, return_inverse=True)
    shape = (int(group.max(initial=-1)) + 1, n_annotators)
    member = sp.csr_matrix((np.ones(len(group), np.int32), (group, annotator)), shape=shape)
    member.data[:] = 1  # somebody may have labelled an item twice
    return sp.csr_matrix(member.T @ member)


# -------------------------------------------------------------------- labels


@dataclass(frozen=True, eq=False)
class DisputedLabels:
    """Two labels that were both given to some items. Shapes (label pairs,); the most frequent first.

    | field | meaning |
    |---|---|
    | task, first, second | the task and the two labels |
    | items | on how many items somebody gave the one and somebody the other |
    | cleaned_first, cleaned_second | on how many of them the cleaned label is the one, and the other |
    """

    task: Indices
    first: Indices
    second: Indices
    items: Indices
    cleaned_first: Indices
    cleaned_second: Indices


def disputed_labels(annotations: Annotations, labels: Indices) -> DisputedLabels:
    """Which two labels annotators give to the same item. `labels` (items,) are the cleaned labels."""
    width = int(annotations.option_counts.max(initial=1))
    slots = np.unique(annotations.item.astype(np.int64) * width + annotations.label)
    item, label = np.divmod(slots, width)
    triples = []
    for step in range(1, width):
        pairs = np.flatnonzero(item[step:] == item[:-step])
        if not len(pairs):
            break
        triples.append(np.stack([item[pairs], label[pairs], label[pairs + step]], axis=1))
    found = np.concatenate(triples) if triples else np.zeros((0, 3), np.int64)
    task = annotations.item_tasks[found[:, 0]].astype(np.int64)
    key = (task * width + found[:, 1]) * width + found[:, 2]
    kinds, kind, counts = np.unique(key, return_inverse=True, return_counts=True)
    cleaned = np.asarray(labels)[found[:, 0]]
    by_first, by_second = (
        np.bincount(kind, cleaned == found[:, column], minlength=len(kinds)).astype(np.int64) for column in (1, 2)
    )
    rest, second = np.divmod(kinds, width)
    of_task, first = np.divmod(rest, width)
    order = np.argsort(-counts, kind="stable")
    return DisputedLabels(
        *(values[order] for values in (of_task, first, second, counts.astype(np.int64), by_first, by_second))
    )


@dataclass(frozen=True, eq=False)
class Confusions:
    """How often each annotator gave which label where the cleaned label is which. Shapes (kinds,), sorted by pair.

    `pair` is annotator * tasks + task; kinds that do not occur have no row.
    """

    pair: Indices
    cleaned: Indices
    given: Indices
    count: Indices
    n_tasks: int

    def matrix(self, pair: int, width: int) -> Indices:
        """The counts of a pair: cleaned label (row) by label given (column). Shape (width, width)."""
        start, stop = np.searchsorted(self.pair, [pair, pair + 1])
        counts = np.zeros((width, width), np.int64)
        counts[self.cleaned[start:stop], self.given[start:stop]] = self.count[start:stop]
        return counts


def confusions(annotations: Annotations, labels: Indices) -> Confusions:
    """What each annotator gave against the cleaned `labels` (items,)."""
    width = int(annotations.option_counts.max(initial=1))
    cleaned = np.asarray(labels)[annotations.item].astype(np.int64)
    key = (pairs_of(annotations).astype(np.int64) * width + cleaned) * width + annotations.label
    kinds, counts = np.unique(key, return_counts=True)
    rest, given = np.divmod(kinds, width)
    pair, row = np.divmod(rest, width)
    return Confusions(pair, row, given, counts.astype(np.int64), len(annotations.tasks))


@dataclass(frozen=True, eq=False)
class Mistaken:
    """Who takes which label for which clearly more often than the others do. Shapes (rows,), the clearest first.

    `times` of `of` items with the cleaned label; `share` is their ratio, `others` that of everybody else.
    """

    pair: Indices
    cleaned: Indices
    given: Indices
    times: Indices
    of: Indices
    share: Floats
    others: Floats


def clear_confusions(table: Confusions, width: int) -> Mistaken:
    """Confusions of single annotators that stand out from everybody else's, by `BY_CHANCE` and `EXCESS`."""
    task = table.pair % max(table.n_tasks, 1)
    own_row, row_of = _totals(table.pair * width + table.cleaned, table.count)
    all_row, all_of = _totals(task * width + table.cleaned, table.count)
    all_cell, cell_of = _totals((task * width + table.cleaned) * width + table.given, table.count)
    of = own_row[row_of]
    rest, rest_cell = all_row[all_of] - of, all_cell[cell_of] - table.count
    share, others = table.count / of, rest_cell / np.maximum(rest, 1)
    # at least the spread of one slip in the smaller group: nobody else's slip makes no certainty
    spread = np.maximum(others * (1 - others), 1 / np.maximum(of, 1)) * (1 / of + 1 / np.maximum(rest, 1))
    z = (share - others) / np.sqrt(spread)
    clear: Bools = (table.cleaned != table.given) & (table.count >= LEAST_MISTAKES) & (rest > 0)
    clear &= (share - others > EXCESS) & (z > BY_CHANCE)
    rows = np.flatnonzero(clear)
    rows = rows[np.argsort(-z[rows], kind="stable")]
    return Mistaken(
        table.pair[rows], table.cleaned[rows], table.given[rows], table.count[rows], of[rows], share[rows], others[rows]
    )


def _totals(key: Indices, count: Indices) -> tuple[Indices, Indices]:
    """The sums of `count` by key, and the place of each row's sum."""
    keys, place = np.unique(key, return_inverse=True)
    return np.bincount(place, count, minlength=len(keys)).astype(np.int64), place
