"""Annotators who copy from each other: found where independent annotators cannot explain who agrees with whom.

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

LEAST_SHARED, LEAST_SAME = 10, 0.9
"""Items that a pair must share, and the share of them on which copies agree at least."""
Z = 3.0
"""Standard errors by which a suspected pair agrees beyond what either shows elsewhere."""
CHANCE = 1e-3
"""How often a table of independent annotators may have a pair that agrees beyond what they explain, over all pairs."""
COMPARED = 4000
"""Other pairs, at most, whose agreement the two accounts are compared by."""
STEPS = 20
"""EM iterations on all annotations from the start that was chosen."""


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
