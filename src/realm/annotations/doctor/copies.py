"""Near-copies: pairs of annotators who are identical far beyond what their accuracy and the items explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from realm.annotations.doctor.consensus import Consensus, Floats, Index
from realm.annotations.table import Annotations

LEAST_SHARED = 10
CROWDED = 300
CHANCE = 1e-4
RARER = 0.25


@dataclass(frozen=True)
class CopyPair:
    first: str
    second: str
    shared: int
    same: int
    expected: float


def find_copies(annotations: Annotations, consensus: Consensus) -> list[CopyPair]:
    """Pairs with `LEAST_SHARED` items or more in common whose disagreements are a quarter of those expected, at most.

    What is expected is worked out item by item from the two accuracies and what everyone else says of the item. The
    chance of so many agreements is bounded by Hoeffding's inequality and must be under `CHANCE` over all pairs. Only
    pairs that share items are ever stored; items with over `CROWDED` annotators are left out.
    """
    used = annotations.annotations_per_item[annotations.item] <= CROWDED
    person, item = annotations.annotator[used].astype(np.int64), annotations.item[used].astype(np.int64)
    cell = consensus.cell[used]
    n = annotations.n_annotators
    shared = _common(person, item, n, annotations.n_items)
    same = _common(person, cell, n, len(consensus.posterior))
    candidates = sp.triu(shared, k=1).tocoo()
    enough = candidates.data >= LEAST_SHARED
    first, second, count = candidates.row[enough], candidates.col[enough], candidates.data[enough].astype(np.int64)
    if not len(first):
        return []
    agreed = np.asarray(same.tocsr()[first, second]).ravel().astype(np.int64)
    # A pair is worth the closer look only if it disagrees seldom.
    close = agreed >= 0.8 * count
    limit = np.log(CHANCE / len(first))
    found = []
    rows = np.argsort(person, kind="stable")
    starts = np.searchsorted(person[rows], np.arange(n + 1))
    for i, j, total, equal in zip(first[close], second[close], count[close], agreed[close], strict=True):
        expected = _expected(
            annotations,
            consensus,
            np.flatnonzero(used)[rows[starts[i] : starts[i + 1]]],
            np.flatnonzero(used)[rows[starts[j] : starts[j + 1]]],
        ).mean()
        rate = equal / total
        if 1 - rate <= RARER * (1 - expected) and -total * _divergence(rate, expected) < limit:
            found.append(
                CopyPair(annotations.annotators[i], annotations.annotators[j], int(total), int(equal), float(expected))
            )
    return found


def _common(person: Index, thing: Index, n_people: int, n_things: int) -> sp.csr_matrix:
    """How many things each pair of people has in common; sparse (people, people)."""
    ones = np.ones(len(person), dtype=np.float32)
    incidence = sp.csr_matrix((ones, (person, thing)), shape=(n_people, n_things))
    return sp.csr_matrix(incidence @ incidence.T)


def _expected(annotations: Annotations, consensus: Consensus, mine: Index, theirs: Index) -> Floats:
    """Probability that the second gives the first's label, on each item both labelled. Shape (shared items,)."""
    _, at, other = np.intersect1d(annotations.item[mine], annotations.item[theirs], return_indices=True)
    a, b = mine[at], theirs[other]
    options = annotations.option_counts[annotations.item[a]].astype(np.float64)
    equal = consensus.cell[a] == consensus.cell[b]
    # Take both labels back out of the consensus before asking what the others make of the first's label.
    odds_a, odds_b = consensus.posterior[consensus.cell[a]], consensus.posterior[consensus.cell[b]]
    less_a = odds_a * np.exp(-consensus.weight[a] - np.where(equal, consensus.weight[b], 0))
    less_b = np.where(equal, 0, odds_b * np.exp(-consensus.weight[b]))
    rest = np.maximum(1 - odds_a - np.where(equal, 0, odds_b), 1e-12)
    right = less_a / (less_a + less_b + rest)
    accuracy = consensus.accuracy[annotations.annotator[b]]
    return np.asarray(accuracy * right + (1 - accuracy) * (1 - right) / np.maximum(options - 1, 1))


def _divergence(rate: float, expected: float) -> float:
    """KL(rate || expected) of two coins."""
    expected = min(max(expected, 1e-9), 1 - 1e-9)
    if rate <= expected:
        return 0.0
    tail = 0.0 if rate >= 1 else (1 - rate) * np.log((1 - rate) / (1 - expected))
    return float(rate * np.log(rate / expected) + tail)
