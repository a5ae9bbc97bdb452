"""Near-copies: pairs of annotators who are identical far beyond what their accuracy and the items explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from realm.check.consensus import Consensus
from realm.crowd.coin import label_probability
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import Annotations

LEAST_SHARED = 10
CHANCE = 1e-4
RARER = 0.25
MOST_COMPARISONS = 200_000_000
MOST_PAIRS = 20_000_000
MOST_LOOKS = 20_000


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
    pairs that share items are ever stored.
    """
    used = np.flatnonzero(comparable(annotations)[annotations.item])
    person, item = annotations.annotator[used].astype(np.int64), annotations.item[used].astype(np.int64)
    n = annotations.n_annotators
    shared = _common(person, item, n, annotations.n_items)
    same = _common(person, consensus.slot[used], n, len(consensus.posterior))
    pairs = sp.triu(shared, k=1).tocoo()
    enough = pairs.data >= LEAST_SHARED
    first, second, count = pairs.row[enough], pairs.col[enough], pairs.data[enough].astype(np.int64)
    if not len(first):
        return []
    agreed = np.asarray(same[first, second]).ravel().astype(np.int64)
    limit = np.log(CHANCE / len(first))
    by_person = np.argsort(person, kind="stable")
    starts = np.searchsorted(person[by_person], np.arange(n + 1))
    found = []
    for pair in _closest(annotations, consensus, first, second, agreed / count, count):
        i, j, total, equal = int(first[pair]), int(second[pair]), int(count[pair]), int(agreed[pair])
        mine = used[by_person[starts[i] : starts[i + 1]]]
        theirs = used[by_person[starts[j] : starts[j + 1]]]
        expected = float(_expected(annotations, consensus, mine, theirs).mean())
        rate = equal / total
        if 1 - rate <= RARER * (1 - expected) and -total * float(_divergence(rate, expected)) < limit:
            found.append(CopyPair(annotations.annotators[i], annotations.annotators[j], total, equal, expected))
    return found


def comparable(annotations: Annotations) -> npt.NDArray[np.bool_]:
    """The items on which pairs are compared: all, unless some are so crowded that it would take too long. (items,)"""
    most = MOST_COMPARISONS if annotations.n_annotators**2 <= MOST_PAIRS else MOST_PAIRS
    cost = annotations.annotations_per_item.astype(np.float64) ** 2
    order = np.argsort(cost, kind="stable")
    kept = np.zeros(annotations.n_items, dtype=bool)
    kept[order] = np.cumsum(cost[order]) <= most
    return kept


def _closest(
    annotations: Annotations, consensus: Consensus, first: Indices, second: Indices, rate: Floats, count: Indices
) -> Indices:
    """The pairs worth a closer look, the likeliest first: those that disagree half as often as two strangers would."""
    options = float(np.median(annotations.option_counts))
    a, b = consensus.accuracy[first], consensus.accuracy[second]
    strangers = label_probability(b, a, options)  # the second gives the first's label, right with probability a
    close = np.flatnonzero((1 - rate <= 0.5 * (1 - strangers)) | (rate >= 1))
    evidence = count[close] * _divergence(rate[close], strangers[close])
    return np.asarray(close[np.argsort(-evidence, kind="stable")][:MOST_LOOKS])


def _common(person: Indices, thing: Indices, n_people: int, n_things: int) -> sp.csr_matrix:
    """How many things each pair of people has in common; sparse (people, people)."""
    ones = np.ones(len(person), dtype=np.float32)
    incidence = sp.csr_matrix((ones, (person, thing)), shape=(n_people, n_things))
    return sp.csr_matrix(incidence @ incidence.T)


def _expected(annotations: Annotations, consensus: Consensus, mine: Indices, theirs: Indices) -> Floats:
    """Probability that the second gives the first's label, on each item both labelled. Shape (shared items,)."""
    _, at, other = np.intersect1d(annotations.item[mine], annotations.item[theirs], return_indices=True)
    a, b = mine[at], theirs[other]
    options = annotations.option_counts[annotations.item[a]].astype(np.float64)
    equal = consensus.slot[a] == consensus.slot[b]
    # Take both labels back out of the consensus before asking what the others make of the first's label.
    odds_a, odds_b = consensus.posterior[consensus.slot[a]], consensus.posterior[consensus.slot[b]]
    less_a = odds_a * np.exp(-consensus.log_odds[a] - np.where(equal, consensus.log_odds[b], 0))
    less_b = np.where(equal, 0, odds_b * np.exp(-consensus.log_odds[b]))
    rest = np.maximum(1 - odds_a - np.where(equal, 0, odds_b), 1e-12)
    right = less_a / (less_a + less_b + rest)
    accuracy = consensus.accuracy[annotations.annotator[b]]
    return label_probability(accuracy, right, options)


def _divergence(rate: Any, expected: Any) -> Any:
    """KL(rate || expected) of two coins; 0 where the rate is below what is expected."""
    expected = np.clip(expected, 1e-9, 1 - 1e-9)
    rate = np.maximum(rate, expected)
    rest = 1 - rate
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(rest > 0, rest * np.log(rest / (1 - expected)), 0.0)
    return rate * np.log(rate / expected) + tail
