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
        counts = np.bincount(table.annotator, minlength=table.n_annotators)
        order = np.argsort(-counts, kind="stable")[:MOST_ANNOTATORS]
        self.annotators: Ints = np.sort(order[counts[order] >= LEAST_COMMON])
        place = np.full(table.n_annotators, -1)
        place[self.annotators] = np.arange(len(self.annotators))
        rows = np.flatnonzero(place[table.annotator] >= 0)
        who, item, label = place[table.annotator[rows]], table.item[rows].astype(np.int64), table.label[rows]
        n, ones = len(self.annotators), np.ones(len(rows))
        at_item = sparse.csr_array((ones, (who, item)), shape=(n, table.n_items))
        at_label = sparse.csr_array(
            (ones, (who, item * table.n_options + label)), shape=(n, table.n_items * table.n_options)
        )
        self.shared, self.same = (np.asarray((m @ m.T).toarray(), np.float64) for m in (at_item, at_label))
        np.fill_diagonal(self.shared, 0.0)
        np.fill_diagonal(self.same, 0.0)
        given = np.bincount(who * table.n_options + label, minlength=n * table.n_options).reshape(n, table.n_options)
        shares = given / np.maximum(given.sum(axis=1, keepdims=True), 1)
        self.expected = self.shared * (shares @ shares.T)

    @property
    def z(self) -> Floats:
        """How many standard errors each pair agrees beyond chance; -inf where they share too few items. (n, n)"""
        rate = self.expected / np.maximum(self.shared, 1)
        spread = np.sqrt(np.maximum(self.shared * rate * (1 - rate), LEAST))
        return np.where(self.shared >= LEAST_COMMON, (self.same - self.expected) / spread, -np.inf)

    @property
    def total_z(self) -> float:
        """How many standard errors all pairs together agree beyond their label shares."""
        rate = self.expected / np.maximum(self.shared, 1)
        spread = np.sqrt(max(float((self.shared * rate * (1 - rate)).sum()) / 2, LEAST))
        return float((self.same - self.expected).sum() / 2 / spread)

    @property
    def structure(self) -> float:
        """The largest eigenvalue of the pairs' z over what chance gives: about 1 where labels tell nothing.

        Of the z themselves, because annotators who are inverted disagree beyond chance.
        """
        z = self.z
        z = np.where(np.isfinite(z), z, 0.0)
        n = len(z)
        return float(np.linalg.eigvalsh(z)[-1] / (2 * np.sqrt(n))) if n > 1 else 0.0

    @property
    def beyond_chance(self) -> bool:
        """Whether annotators' labels tell anything of each other: agreement, or disagreement, beyond chance."""
        return self.total_z > BEYOND_CHANCE or self.structure > STRUCTURE

    def rank_one(self) -> Floats:
        """Skills from the rank-one part of the excess agreement, the largest 1. Shape (n,)"""
        rate = self.expected / np.maximum(self.shared, 1)
        excess = np.where(self.shared >= LEAST_COMMON, (self.same - self.expected) / np.maximum(self.shared, 1), 0.0)
        excess = excess / np.maximum(1 - rate, LEAST)
        weight = np.where(self.shared >= LEAST_COMMON, self.shared, 0.0)
        skill = np.full(len(excess), 0.5)
        for _ in range(50):
            skill = np.clip((weight * excess) @ skill / np.maximum(weight @ skill**2, LEAST), 0.0, 1.0)
            if not skill.any():
                break
        return np.asarray(skill / max(skill.max(initial=0.0), LEAST))
