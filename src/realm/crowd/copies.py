"""Who agrees with whom, and who copies: found where independent annotators cannot explain the agreement of pairs.

m copies that give an item the same label count 1/m each, in the fit, in training, in reports.

Two accounts of the table are compared. In the first everybody errs independently; where it explains the agreement of
all pairs, nobody copies, however much the good ones agree. Else the pairs that agree nearly always count once, and they
are copies if the pairs that are not suspected are explained better by that, and the suspects agree beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from realm.crowd.engine import LEAST, PRIORS, Fit, Floats, Ints, LabelTable, Pool, fit, maximise, statistics
from realm.crowd.starts import chosen_start

MOST_ANNOTATORS = 1000  # annotators (those with most labels) whose pairs are compared: a million pairs
LEAST_COMMON = 5  # items that a pair must share to be compared
TOTAL_Z = 3.0  # standard errors of all pairs' agreement, from which labels tell something of each other
STRUCTURE = 1.15  # or the largest eigenvalue of z over that of chance: guessers up to 1.1, 4 experts of 20 1.2 to 1.6
LEAST_SHARED, LEAST_SAME = 10, 0.9  # items that a pair must share, and the share of them on which copies agree
Z = 3.0  # standard errors by which a suspected pair agrees beyond what either shows elsewhere
CHANCE = 1e-3  # how often a table of independent annotators may have a pair that agrees beyond what they explain
COMPARED = 4000  # other pairs, at most, whose agreement the two accounts are compared by
STEPS = 20  # EM iterations on all annotations from the start that was chosen


class PairAgreement:
    """How often the annotators with most labels agree, pair by pair, and how often they would by their label shares.

    | attribute | shape | meaning |
    |---|---|---|
    | annotators | (n,) | the annotators compared |
    | shared, same, expected | (n, n) | items in common, labels in common, and those by chance; 0 on the diagonal |
    """

    def __init__(self, table: LabelTable) -> None:
        given = table.label_counts
        counts = given.sum(axis=1)
        order = np.argsort(-counts, kind="stable")[:MOST_ANNOTATORS]
        self.annotators: Ints = np.sort(order[counts[order] >= LEAST_COMMON])
        rows = np.flatnonzero(np.isin(table.annotator, self.annotators))
        who, n = np.searchsorted(self.annotators, table.annotator[rows]), len(self.annotators)
        item, label = table.item[rows].astype(np.int64), table.label[rows]

        def in_common(column: Ints, size: int) -> Floats:
            entries = sparse.csr_array((np.ones(len(rows)), (who, column)), shape=(n, size))
            common = np.asarray((entries @ entries.T).toarray(), np.float64)
            np.fill_diagonal(common, 0.0)
            return common

        self.shared = in_common(item, table.n_items)
        self.same = in_common(item * table.n_options + label, table.n_items * table.n_options)
        shares = given[self.annotators] / counts[self.annotators, None]
        self.expected = self.shared * (shares @ shares.T)
        self._rate = self.expected / np.maximum(self.shared, 1)
        self._variance = self.shared * self._rate * (1 - self._rate)

    @property
    def z(self) -> Floats:
        """How many standard errors each pair agrees beyond chance; -inf where they share too few items. (n, n)"""
        z = (self.same - self.expected) / np.sqrt(np.maximum(self._variance, LEAST))
        return np.where(self.shared >= LEAST_COMMON, z, -np.inf)

    @property
    def beyond_chance(self) -> bool:
        """Whether annotators' labels tell anything of each other: agreement, or disagreement, beyond chance."""
        spread = np.sqrt(max(float(self._variance.sum()) / 2, LEAST))
        if (self.same - self.expected).sum() / 2 / spread > TOTAL_Z:
            return True
        if len(self.annotators) < 2:
            return False
        z = np.where(self.shared >= LEAST_COMMON, self.z, 0.0)  # inverted annotators disagree beyond chance
        return bool(np.linalg.eigvalsh(z)[-1] / (2 * np.sqrt(len(z))) > STRUCTURE)

    def rank_one(self) -> Floats:
        """Skills from the rank-one part of the excess agreement, the largest 1. Shape (n,)"""
        excess = (self.same - self.expected) / np.maximum(self.shared, 1) / np.maximum(1 - self._rate, LEAST)
        weight = np.where(self.shared >= LEAST_COMMON, self.shared, 0.0)
        skill = np.full(len(excess), 0.5)
        for _ in range(50):
            skill = np.clip((weight * excess) @ skill / np.maximum(weight @ skill**2, LEAST), 0.0, 1.0)
            if not skill.any():
                break
        return np.asarray(skill / max(skill.max(initial=0.0), LEAST))


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
    return _shared_weights(table, np.array([(pair.first, pair.second) for pair in copies]))


def find_task_copies(table: LabelTable) -> list[CopyPair]:
    """The pairs of a task who copy, the plainest first."""
    if table.one_label_each:
        return []
    pairs = table.pairs
    who, shared, same = pairs.annotators, pairs.shared, pairs.same
    suspect = (shared >= LEAST_SHARED) & (same >= LEAST_SAME * shared)
    elsewhere = (np.where(suspect, 0, same).sum(axis=1) + 1) / (np.where(suspect, 0, shared).sum(axis=1) + 2)
    usual = np.maximum(elsewhere[:, None], elsewhere[None])
    suspect &= (same - shared * usual) / np.sqrt(np.maximum(shared * usual * (1 - usual), LEAST)) > Z
    suspects, others = (np.argwhere(np.triu(each)) for each in (suspect, (shared >= LEAST_SHARED) & ~suspect))
    if not len(suspects) or not len(others):
        return []
    if len(others) > COMPARED:
        others = others[np.random.default_rng(0).choice(len(others), COMPARED, replace=False)]
    rows, n = np.concatenate([suspects, others]), len(suspects)
    common, agreed = shared[*rows.T], same[*rows.T]
    by_chance = -float(ndtri(CHANCE / len(rows)))

    def residuals(counted: LabelTable) -> tuple[Floats, Floats]:
        """Expected agreement of each pair, and how many standard errors it agrees beyond that. Shapes (pairs,)"""
        expected = _expected_agreement(table, who[rows], _fitted(counted))
        rate = np.clip(expected / common, LEAST, 1 - LEAST)
        return expected, (agreed - expected) / np.sqrt(np.maximum(common * rate * (1 - rate), LEAST))

    _, independent = residuals(table)
    if independent.max() <= by_chance and _misfit(independent) <= 1:
        return []
    expected, residual = residuals(replace(table, weight=_shared_weights(table, who[suspects]) * table.weights))
    if _misfit(residual[n:]) > max(_misfit(independent[n:]), 1.0):
        return []
    copies = np.flatnonzero(residual[:n] > max(by_chance, float(residual[n:].max())))
    return [
        CopyPair(int(who[a]), int(who[b]), int(shared[a, b]), int(same[a, b]), float(expected[row]))
        for row in copies[np.argsort(-residual[copies], kind="stable")]
        for a, b in [rows[row]]
    ]


def _fitted(table: LabelTable) -> Fit:
    """The default model by agreement alone."""
    priors = PRIORS["confusion"]

    def run(part: LabelTable, known: Ints, start: Floats) -> Fit:
        return fit(part, priors, Pool.of(part, priors), start)

    start = chosen_start(table, np.full(table.n_items, -1), run)
    return fit(table, priors, Pool.of(table, priors), start, max_iter=STEPS)


def _misfit(residual: Floats) -> float:
    """The sum of squares of what pairs agree beyond expectation, over the most that it is by chance."""
    n = len(residual)
    return float((np.maximum(residual, 0.0) ** 2).sum() / (n / 2 + Z * np.sqrt(1.25 * n)))


def _shared_weights(table: LabelTable, pairs: Ints) -> Floats:
    """1/m for annotations of the same item and label by m annotators of one connected group. (annotations,)"""
    n = table.n_annotators
    graph = sparse.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    group = sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    key = (table.item.astype(np.int64) * table.n_options + table.label) * n + group[table.annotator]
    _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[place])


def _expected_agreement(table: LabelTable, pairs: Ints, fitted: Fit) -> Floats:
    """On how many items each pair (n, 2) would agree if both erred independently. (n,)"""
    # annotators by all labels: counted once, suspects would be drawn to the pool
    counts, priors = statistics(table, fitted.posterior), PRIORS["confusion"]
    matrices = np.exp(maximise(counts, table, priors, Pool.of(table, priors), fitted.parameters).evidence)
    given = (np.ones(len(table.item)), (table.annotator, table.item))
    items: Any = sparse.csr_array(given, shape=(table.n_annotators, table.n_items))
    truths = items[pairs[:, 0]].multiply(items[pairs[:, 1]]) @ fitted.posterior  # of the items in common, (n, options)
    out, ends = np.empty(len(pairs)), np.searchsorted(table.cell_annotator, np.arange(table.n_annotators + 1))
    for row, (a, b) in enumerate(pairs):
        mine, theirs = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
        _, left, right = np.intersect1d(table.cell_label[mine], table.cell_label[theirs], return_indices=True)
        out[row] = truths[row] @ (matrices[mine][left] * matrices[theirs][right]).sum(axis=0)
    return out
