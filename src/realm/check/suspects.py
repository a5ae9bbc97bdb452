"""Annotators to look at: those whose labels carry no information, and pairs who copy from each other.

An annotator may give the same label always, labels in turn, or labels that the others do not bear out. A copying pair
is identical far beyond what their accuracies and the items explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from realm.check.consensus import Consensus
from realm.crowd.coin import label_probability
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import Annotations

CHANCE = 1e-4
"""A pattern is reported when luck produces it this rarely, over all annotators or pairs: one table in ten thousand."""
FEW = 10
"""Annotations below which nothing is said of an annotator: shorter patterns are common by luck."""
ENOUGH_TO_JUDGE = 20
"""Annotations from which agreement is judged: its standard error is then about 0.1."""
LONGEST_PERIOD = 6
"""Of labels in turn: nobody keeps a longer list going by hand."""
STANDARD_ERRORS = 2.5
"""How far below half the typical agreement an annotator must be: about one honest annotator in 160 is, by luck."""
LEAST_TYPICAL = 0.1
"""Typical agreement below which nobody is judged by it: everybody is close to chance."""
ORDINARY_SHARE = 0.75
"""An annotator with this share of the typical agreement is like the others, however their labels look."""
LEAST_SHARED = 10
"""Items that a pair must share to be compared: with fewer, even full agreement rarely passes `CHANCE`."""
RARER = 0.25
"""A copying pair disagrees at most this often, as a share of the disagreements expected."""
CLOSER = 0.5
"""Pairs are examined item by item if they disagree at most this often, as a share of what two strangers would."""
MOST_COMPARISONS = 200_000_000
"""Pairs of annotations that are compared, a few seconds' work."""
MOST_PAIRS = 20_000_000
"""Pairs of annotators that are stored, about 300 MB; where there may be more, as many annotations are compared."""
MOST_EXAMINED = 20_000
"""Pairs that are examined item by item, a few seconds' work."""
TINY = 1e-12
"""Keeps a probability that is divided by above 0."""
Kind = Literal["constant", "alternating", "chance", "below chance"]


@dataclass(frozen=True)
class Suspect:
    """An annotator to look at: what they seem to do, on how many annotations, and in words."""

    annotator: str
    kind: Kind
    annotations: int
    evidence: str


def find_suspects(annotations: Annotations, consensus: Consensus) -> list[Suspect]:
    """Each annotator at most once, the plainest pattern first. The order of labelling is that of the source's rows."""
    order = annotations.item if annotations.source_rows is None else annotations.source_rows
    support = _support(annotations, consensus)
    agreement = _agreement(annotations, consensus)
    suspects = []
    for index, own in enumerate(_by_annotator(annotations.annotator, annotations.n_annotators, order)):
        suspect = None
        if len(own) >= FEW and not agreement.kappa[index] >= ORDINARY_SHARE * agreement.typical:
            suspect = _constant(annotations, index, own, support) or _alternating(annotations, index, own)
        if suspect is None and len(own) >= ENOUGH_TO_JUDGE:
            suspect = _by_chance(annotations, index, len(own), agreement)
        if suspect is not None:
            suspects.append(suspect)
    return suspects


def _by_annotator(annotator: npt.NDArray[Any], n_annotators: int, order: npt.NDArray[Any]) -> list[Indices]:
    """The positions of each annotator's annotations, in this order."""
    positions = np.lexsort((order, annotator))
    return np.split(positions, np.searchsorted(annotator[positions], np.arange(1, n_annotators)))


def _constant(annotations: Annotations, index: int, own: Indices, support: Floats) -> Suspect | None:
    """The same label always, where an ordinary annotator would hardly have given it to all these items."""
    labels, n = annotations.label[own], len(own)
    if (labels != labels[0]).any():
        return None
    if np.log(support[own]).sum() + np.log(annotations.n_annotators) >= np.log(CHANCE):
        return None
    label = annotations.label_name(int(annotations.item[own[0]]), int(labels[0]))
    return Suspect(annotations.annotators[index], "constant", n, f"gave '{label}' {n:,} times out of {n:,}")


def _alternating(annotations: Annotations, index: int, own: Indices) -> Suspect | None:
    """The same few labels over and over, where chance would hardly have kept the order."""
    labels, n = annotations.label[own], len(own)
    repeat_by_luck = float(((np.bincount(labels) / n) ** 2).sum())
    for period in range(2, min(LONGEST_PERIOD, n // 3) + 1):
        if repeat_by_luck < 1 and (labels[period:] == labels[:-period]).all():
            if (n - period) * np.log(repeat_by_luck) + np.log(annotations.n_annotators) >= np.log(CHANCE):
                return None
            evidence = f"repeats the same {period} answers in turn, {n:,} in all"
            return Suspect(annotations.annotators[index], "alternating", n, evidence)
    return None


def _by_chance(annotations: Annotations, index: int, n: int, agreement: _Agreement) -> Suspect | None:
    kappa, typical = float(agreement.kappa[index]), agreement.typical
    highest = kappa + STANDARD_ERRORS * float(agreement.error[index])
    if typical <= LEAST_TYPICAL or not highest < 0.5 * typical:
        return None
    evidence = f"agreement with the others beyond chance {kappa:.2f}, where {typical:.2f} is typical here"
    return Suspect(annotations.annotators[index], "below chance" if highest < 0 else "chance", n, evidence)


def _support(annotations: Annotations, consensus: Consensus) -> Floats:
    """How probable an ordinary annotator's giving this label is, from what the others say. Shape (annotations,)."""
    options = annotations.option_counts[annotations.item].astype(np.float64)
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)
    key = _task_label(annotations)
    share = np.bincount(key)[key] / np.bincount(task_of)[task_of]
    ordinary = float(np.median(consensus.accuracy))
    probability = label_probability(ordinary, consensus.others, options)
    return np.where(annotations.annotations_per_item[annotations.item] > 1, probability, share)


def _task_label(annotations: Annotations) -> Indices:
    """A number for each annotation's (task, label). Shape (annotations,)."""
    width = int(annotations.option_counts.max(initial=1))
    return annotations.item_tasks[annotations.item].astype(np.int64) * width + annotations.label


@dataclass(frozen=True)
class _Agreement:
    """Each annotator's agreement with the others' consensus beyond chance, its standard error (annotators,), and what
    is typical; NaN where there is nothing to compare with."""

    kappa: Floats
    error: Floats
    typical: float


def _agreement(annotations: Annotations, consensus: Consensus) -> _Agreement:
    shared = annotations.annotations_per_item[annotations.item] > 1
    if not shared.any():
        nothing = np.full(annotations.n_annotators, np.nan)
        return _Agreement(nothing, nothing, 0.0)
    agree, key = consensus.others[shared], _task_label(annotations)[shared]
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)[shared]
    # Chance is that of the whole task, not of the items one was given: to have got one class is no fault.
    base = np.bincount(key, agree)[key] / np.maximum(np.bincount(task_of, agree)[task_of], TINY)

    def sums(values: Floats | None = None) -> Floats:
        return np.bincount(annotations.annotator[shared], values, annotations.n_annotators).astype(np.float64)

    n = sums()
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, chance = sums(agree) / n, sums(base) / n
        spread = sums(agree**2) / n - mean**2
        error = np.sqrt(np.maximum(spread, chance * (1 - chance)) / n) / (1 - chance)
        kappa = (mean - chance) / (1 - chance)
    enough = (annotations.annotations_per_annotator >= ENOUGH_TO_JUDGE) & np.isfinite(kappa)
    return _Agreement(kappa, error, float(np.median(kappa[enough])) if enough.any() else 0.0)


# ---------------------------------------------------------------- copies


@dataclass(frozen=True)
class CopyPair:
    """Two annotators, how many items they share, on how many they agree, and the share of these that is expected."""

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
    rows = np.flatnonzero(comparable(annotations)[annotations.item])
    annotator, n = annotations.annotator[rows].astype(np.int64), annotations.n_annotators
    shared = _common(annotator, annotations.item[rows].astype(np.int64), n, annotations.n_items)
    pairs = sp.triu(shared, k=1).tocoo()
    enough = pairs.data >= LEAST_SHARED
    first, second, count = pairs.row[enough], pairs.col[enough], pairs.data[enough].astype(np.int64)
    if not len(first):
        return []
    agreeing = _common(annotator, consensus.slot[rows], n, len(consensus.posterior))
    same = np.asarray(agreeing[first, second]).ravel().astype(np.int64)
    limit = np.log(CHANCE / len(first))
    own_rows = [rows[positions] for positions in _by_annotator(annotator, n, rows)]
    copies = []
    for pair in _closest(annotations, consensus, first, second, same / count, count):
        i, j, total, equal = int(first[pair]), int(second[pair]), int(count[pair]), int(same[pair])
        expected = float(_expected(annotations, consensus, own_rows[i], own_rows[j]).mean())
        rate = equal / total
        if 1 - rate <= RARER * (1 - expected) and -total * float(_divergence(rate, expected)) < limit:
            copies.append(CopyPair(annotations.annotators[i], annotations.annotators[j], total, equal, expected))
    return copies


def comparable(annotations: Annotations) -> npt.NDArray[np.bool_]:
    """The items on which pairs are compared: all, unless some are so crowded that it would take too long. (items,)"""
    most = MOST_COMPARISONS if annotations.n_annotators**2 <= MOST_PAIRS else MOST_PAIRS
    cost = annotations.annotations_per_item.astype(np.float64) ** 2
    order = np.argsort(cost, kind="stable")
    mask = np.zeros(annotations.n_items, dtype=bool)
    mask[order] = np.cumsum(cost[order]) <= most
    return mask


def _closest(
    annotations: Annotations, consensus: Consensus, first: Indices, second: Indices, rate: Floats, count: Indices
) -> Indices:
    """The pairs worth a closer look, the likeliest first: those that disagree half as often as two strangers would."""
    options = float(np.median(annotations.option_counts))
    a, b = consensus.accuracy[first], consensus.accuracy[second]
    strangers = label_probability(b, a, options)  # the second gives the first's label, right with probability a
    close = np.flatnonzero((1 - rate <= CLOSER * (1 - strangers)) | (rate >= 1))
    evidence = count[close] * _divergence(rate[close], strangers[close])
    return np.asarray(close[np.argsort(-evidence, kind="stable")][:MOST_EXAMINED])


def _common(annotator: Indices, thing: Indices, n_annotators: int, n_things: int) -> sp.csr_matrix:
    """How many things (items, or labels of items) each pair of annotators has in common; sparse (annotators, same)."""
    ones = np.ones(len(annotator), dtype=np.float32)
    incidence = sp.csr_matrix((ones, (annotator, thing)), shape=(n_annotators, n_things))
    return sp.csr_matrix(incidence @ incidence.T)


def _expected(annotations: Annotations, consensus: Consensus, first: Indices, second: Indices) -> Floats:
    """Probability that the second gives the first's label, on each item both labelled. Shape (shared items,).

    `first` and `second` are the annotations of the two.
    """
    _, at, other = np.intersect1d(annotations.item[first], annotations.item[second], return_indices=True)
    a, b = first[at], second[other]
    options = annotations.option_counts[annotations.item[a]].astype(np.float64)
    equal = consensus.slot[a] == consensus.slot[b]
    # Take both labels back out of the consensus before asking what the others make of the first's label.
    posterior_a, posterior_b = consensus.posterior[consensus.slot[a]], consensus.posterior[consensus.slot[b]]
    without_a = posterior_a * np.exp(-consensus.log_odds[a] - np.where(equal, consensus.log_odds[b], 0))
    without_b = np.where(equal, 0, posterior_b * np.exp(-consensus.log_odds[b]))
    rest = np.maximum(1 - posterior_a - np.where(equal, 0, posterior_b), TINY)
    right = without_a / (without_a + without_b + rest)
    return label_probability(consensus.accuracy[annotations.annotator[b]], right, options)


def _divergence(rate: Any, expected: Any) -> Any:
    """KL(rate || expected) of two coins; 0 where the rate is below what is expected."""
    expected = np.clip(expected, 1e-9, 1 - 1e-9)  # keeps the logarithms finite
    rate = np.maximum(rate, expected)
    rest = 1 - rate
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(rest > 0, rest * np.log(rest / (1 - expected)), 0.0)
    return rate * np.log(rate / expected) + tail
