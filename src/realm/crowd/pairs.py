"""Who agrees with whom, pair by pair: the counts, what chance would give, and whether the labels tell anything."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from realm.crowd.engine import LEAST, Floats, Ints, LabelTable

MOST_ANNOTATORS = 1000
"""Annotators (those with most labels) whose pairs are compared: a million pairs."""
LEAST_COMMON = 5
"""Items that a pair must share to be compared."""
BEYOND_CHANCE, STRUCTURE = 3.0, 1.15
"""From when labels tell something of each other: standard errors of all pairs' agreement, or its largest eigenvalue
over that of chance (simulated: all guess .6 to 1.1, one expert among guessers .5 to 1.1, four of twenty 1.2 to 1.6)."""


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
        if (self.same - self.expected).sum() / 2 / spread > BEYOND_CHANCE:
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
