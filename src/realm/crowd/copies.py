"""Annotators who copy from each other: found by agreement beyond what two independent annotators would show.

Copies are one witness: m copies that give an item the same label count 1/m each, in the fit, in training, in reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from realm.crowd.engine import LEAST, PRIORS, Bools, Floats, Ints, LabelTable, Pool, fit, maximise, statistics
from realm.crowd.starts import PairAgreement

LEAST_SHARED, LEAST_SAME = 10, 0.9
"""Items that a pair must share, and the share of them on which copies agree at least."""
Z = 3.0
"""Standard errors beyond which agreement is no chance: of a pair beyond what either shows elsewhere, of all others
beyond their label shares."""
CHANCE = 1e-3
"""How often a table of honest annotators may have a convicted pair, over all its pairs."""
COMPARED = 4000
"""Other pairs, at most, of which a pair's residual agreement must exceed every one: real crowds are not independent
given the truth, and a rule by deviations from the median convicts 24 pairs of SentPolarity (.917 -> .896)."""
LEAST_IDENTICAL, IDENTICAL = 50, 0.99
"""A pair that agrees on so many items, and on this share of them, is taken for copies whoever they are: two who are
never wrong lose nothing by counting as one."""
CLEARLY = 1.5
"""Standard errors by which others must agree with suspects more than among themselves to take these for experts. To
convict two experts costs 5 to 12 points, to miss the copies of a good annotator hardly any."""
STEPS = 20
"""EM iterations of the model that judges the suspects."""


@dataclass(frozen=True)
class CopyPair:
    """Two annotators (by index), the items they share, on how many they agree, and how many would be expected."""

    first: int
    second: int
    shared: int
    same: int
    expected: float


def copy_weights(table: LabelTable, copies: list[CopyPair]) -> Floats:
    """1/m for each annotation that is one of m copies of the same label on the same item. Shape (annotations,)"""
    return _witness(table, [(pair.first, pair.second) for pair in copies])


def find_task_copies(table: LabelTable) -> list[CopyPair]:
    """The pairs of a task who copy, the plainest first."""
    if table.one_label_each:
        return []
    pairs = PairAgreement(table)
    who, shared, same = pairs.annotators, pairs.shared, pairs.same
    suspect = (shared >= LEAST_SHARED) & (same >= LEAST_SAME * shared)
    elsewhere = (np.where(suspect, 0, same).sum(axis=1) + 1) / (np.where(suspect, 0, shared).sum(axis=1) + 2)
    usual = np.maximum(elsewhere[:, None], elsewhere[None])
    suspect &= (same - shared * usual) / np.sqrt(np.maximum(shared * usual * (1 - usual), LEAST)) > Z
    if not suspect.any() or not _others_agree(pairs, suspect):
        return []
    # The model that judges them counts suspects once; two experts among guessers agree as it expects.
    first, second = np.nonzero(np.triu(suspect))
    weight = _witness(table, list(zip(who[first], who[second], strict=True)))
    once = replace(table, weight=weight if table.weight is None else weight * table.weight)
    priors = PRIORS["confusion"]
    fitted = fit(once, priors, Pool.of(once, priors), once.vote_shares, max_iter=STEPS)
    counts = statistics(table, fitted.posterior)  # of all labels: counted once, suspects would be drawn to the pool
    matrices = np.exp(maximise(counts, table, priors, Pool.of(table, priors), fitted.parameters).evidence)
    others = np.argwhere(np.triu((shared >= LEAST_SHARED) & ~suspect))
    if len(others) > COMPARED:
        others = others[np.random.default_rng(0).choice(len(others), COMPARED, replace=False)]
    rows = np.concatenate([np.stack([first, second], axis=1), others])
    expected = _expected_agreement(table, who[rows], matrices, fitted.posterior)
    common, agreed = shared[rows[:, 0], rows[:, 1]], same[rows[:, 0], rows[:, 1]]
    rate = np.clip(expected / common, LEAST, 1 - LEAST)
    residual = (agreed - expected) / np.sqrt(np.maximum(common * rate * (1 - rate), LEAST))
    by_chance = -float(ndtri(CHANCE / len(residual)))
    limit = max(by_chance, float(residual[len(first) :].max(initial=0.0)))
    guilty = [row for row in range(len(first)) if residual[row] > limit]
    group = _groups(len(who), [(int(rows[row][0]), int(rows[row][1])) for row in guilty])
    identical = (common >= LEAST_IDENTICAL) & (agreed >= IDENTICAL * common)
    guilty = [row for row in guilty if identical[row] or not _better_than_others(pairs, group == group[rows[row][0]])]
    guilty.sort(key=lambda row: -residual[row])
    return [
        CopyPair(int(who[a]), int(who[b]), int(common[row]), int(agreed[row]), float(expected[row]))
        for row in guilty
        for a, b in [sorted(rows[row])]
    ]


def _better_than_others(pairs: PairAgreement, members: Bools) -> bool:
    """Whether others agree with the members (annotators compared,) more than among themselves, as with experts.

    Two experts agree far beyond what poor annotators tell of either; but then the poor ones agree with them more often
    than with each other, and with a clique that copies a wrong source less often.
    """
    outside = ~members

    def excess(block: Bools) -> tuple[float, float]:
        shared = max(float(pairs.shared[block].sum()), 1.0)
        same = float(pairs.same[block].sum()) / shared
        return float((pairs.same - pairs.expected)[block].sum()) / shared, same * (1 - same) / shared

    (with_members, first), (among_others, second) = (
        excess(np.outer(members, outside)),
        excess(np.outer(outside, outside)),
    )
    return bool(with_members - among_others > CLEARLY * np.sqrt(first + 2 * second))  # pairs of others count twice


def _others_agree(pairs: PairAgreement, suspect: np.ndarray) -> bool:
    """Whether annotators who are not suspected together agree beyond chance: guessers cannot tell who copies."""
    clear = ~suspect & (pairs.shared > 0)
    rate = pairs.expected / np.maximum(pairs.shared, 1)
    spread = np.sqrt(max(float((pairs.shared * rate * (1 - rate))[clear].sum()) / 2, LEAST))
    return bool(float((pairs.same - pairs.expected)[clear].sum()) / 2 > Z * spread)


def _witness(table: LabelTable, pairs: list[tuple[int, int]]) -> Floats:
    """1/m for annotations of the same item and label by m annotators of one connected group. (annotations,)"""
    n = table.n_annotators
    key = (table.item.astype(np.int64) * table.n_options + table.label) * n + _groups(n, pairs)[table.annotator]
    _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[place])


def _groups(n: int, pairs: list[tuple[int, int]]) -> Ints:
    """The group of each of n annotators, those whom pairs connect being in one. (n,)"""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    graph = sparse.coo_array((np.ones(len(pairs)), (first, second)), shape=(n, n))
    return np.asarray(sparse.csgraph.connected_components(graph, directed=False)[1], dtype=np.int64)


def _expected_agreement(table: LabelTable, pairs: Ints, matrices: Floats, posterior: Floats) -> Floats:
    """On how many items each pair (n, 2) would agree if both erred independently. (n,)

    `matrices` (cells, options) is C_j[k, y] of each cell (j, y).
    """
    options = table.n_options
    items = sparse.csr_array(
        (np.ones(len(table.item)), (table.annotator, table.item)), shape=(table.n_annotators, table.n_items)
    )
    both = (items[pairs[:, 0]].multiply(items[pairs[:, 1]])).tocsr()
    truths: Floats = np.asarray(both @ posterior)  # (n, options): how many of the common items are of each class
    full = np.zeros((table.n_annotators, options, options)) if table.n_annotators * options**2 <= 5e7 else None
    if full is not None:
        full[table.cell_annotator, table.cell_label] = matrices
        agree = np.einsum("nyk,nyk->nk", full[pairs[:, 0]], full[pairs[:, 1]])
        return np.asarray((truths * agree).sum(axis=1))
    out = np.empty(len(pairs))
    ends = np.searchsorted(table.cell_annotator, np.arange(table.n_annotators + 1))
    for row, (a, b) in enumerate(pairs):
        mine, theirs = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
        _, left, right = np.intersect1d(table.cell_label[mine], table.cell_label[theirs], return_indices=True)
        out[row] = truths[row] @ (matrices[mine][left] * matrices[theirs][right]).sum(axis=0)
    return out
