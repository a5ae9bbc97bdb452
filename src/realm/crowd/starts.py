"""Where EM starts without a model: three deterministic starts, behind a guard.

EM from agreement alone gets stuck where few know and many guess, and likelihood alone must not choose among starts:
with four of ten annotators inverted at K = 2 the mirrored solution has the higher likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

from realm.crowd.engine import LEAST, Fit, Floats, Ints, LabelTable, Parameters, Priors, mixture

CHOOSING = 50_000
"""Annotations on which the start is chosen at most; EM goes on from it on all."""
MOST_ANNOTATORS = 1000
"""Annotators (those with most labels) whose pairs are compared: a million pairs."""
LEAST_COMMON = 5
"""Items that a pair must share to be compared."""
BEYOND_CHANCE, STRUCTURE = 3.0, 1.15
"""From when labels tell something of each other: standard errors of all pairs' agreement, or its largest eigenvalue
over that of chance (simulated: all guess .6 to 1.1, one expert among guessers .5 to 1.1, four of twenty 1.2 to 1.6)."""
PAIR_Z, PAIR_GAIN, RANK_GAIN = 5.0, 3.0, 10.0
"""The pair that agrees most is tried from a z of 5, and taken if the log-likelihood rises by 3; the start from all
pairs if by 10: no label of 18 real crowds changes by these, and two experts among 18 guessers are found."""
BELIEF = 0.8
"""How much of the start the believed pair has; the vote has the rest."""
TRUST_KEPT = 0.5
"""A start is refused where labels become right beyond chance half as often as under agreement, or less."""
RENAMED = 0.7
"""A start whose labels are those of agreement under other names, on this share of the items, is refused where it is
less diagonal: a mirrored solution."""
GOLD_POOL, GOLD_OWN = 10.0, 5.0
"""Gold labels that "halfway between chance and certainty" is worth against everybody's, and the pool against one's own:
two unlucky items with gold turn nothing."""


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


def chosen_start(table: LabelTable, known: Ints, priors: Priors, run: Callable[[LabelTable, Ints, Floats], Fit]) -> Fit:
    """The best start of the table, or of a sample of its items where there are many.

    `known` (items,) is the truth where it is given, -1 elsewhere; `run(table, known, posterior)` is EM.
    """
    items = np.arange(table.n_items)
    if len(table.item) > CHOOSING:
        per_item = len(table.item) / max(table.labelled.sum(), 1)
        n = max(int(CHOOSING / per_item), 1)
        items = np.sort(np.random.default_rng(0).permutation(np.flatnonzero(table.labelled))[:n])
    if len(items) == table.n_items:
        part, part_known = table, known
    else:
        part, part_known = table.take_items(items), known[items]
    best = best_start(part, lambda posterior: run(part, part_known, posterior))
    if (part_known >= 0).any():
        from_gold = run(part, part_known, gold_posterior(part, part_known))
        best = max(best, from_gold, key=lambda each: each.log_likelihood)
    return best if part is table else replace(best, parameters=_onto(best.parameters, part, table, priors))


def _onto(parameters: Parameters, part: LabelTable, table: LabelTable, priors: Priors) -> Parameters:
    """Parameters fitted on some items, with evidence for the cells of all."""
    evidence = parameters.any_evidence(table.cell_annotator, table.cell_label, priors)
    keys = table.cell_annotator * table.n_options + table.cell_label
    known = np.searchsorted(keys, part.cell_annotator * part.n_options + part.cell_label)
    evidence[known] = parameters.evidence
    return replace(parameters, evidence=evidence)


def gold_posterior(table: LabelTable, known: Ints) -> Floats:
    """The posterior if everybody were as accurate as on the items with gold. (items, options)

    EM finds the nearest maximum, and where a clique has won the vote that is a wrong one.
    """
    truth = known[table.item]
    judged = truth >= 0 if table.never_true is None else (truth >= 0) & ~table.never_true[table.label]
    weight = np.ones(len(truth)) if table.weight is None else table.weight
    counts, right = (
        np.bincount(table.annotator, weight * flags, minlength=table.n_annotators)
        for flags in (judged, judged & (truth == table.label))
    )
    even = 1 / table.n_options
    pool = (right.sum() + GOLD_POOL * (1 + even) / 2) / (counts.sum() + GOLD_POOL)
    accuracy = (right + GOLD_OWN * pool) / (counts + GOLD_OWN)
    return _posterior_of(table, (accuracy - even) / max(1 - even, LEAST), np.full(table.n_options, even))


def best_start(table: LabelTable, run: Callable[[Floats], Fit]) -> Fit:
    """Fit from agreement, then from the two other starts where they pass the guard. `run` is EM from a posterior."""
    agreement = run(table.vote_shares)
    pairs = PairAgreement(table)
    best = agreement
    if len(pairs.annotators) < 3:
        return best
    z = pairs.z
    first, second = np.unravel_index(int(np.argmax(z)), z.shape)
    if z[first, second] >= PAIR_Z:
        believed = np.isin(table.annotator, pairs.annotators[[first, second]])
        part = replace(table, item=table.item[believed], annotator=table.annotator[believed],
                       label=table.label[believed], weight=None)  # fmt: skip
        own = np.where(part.labelled[:, None], part.vote_shares, table.vote_shares)
        best = _better(table, agreement, best, run(BELIEF * own + (1 - BELIEF) * table.vote_shares), PAIR_GAIN)
    skill = np.zeros(table.n_annotators)
    skill[pairs.annotators] = 0.9 * pairs.rank_one()
    if skill.any():
        best = _better(table, agreement, best, run(_posterior_of(table, skill, table.label_shares)), RANK_GAIN)
    return best


def _posterior_of(table: LabelTable, skill: Floats, shares: Floats) -> Floats:
    """The posterior of every item if annotators had these skills and guessed by these shares. (items, options)"""
    same = table.cell_label[:, None] == np.arange(table.n_options)
    guess = shares[table.cell_label][:, None]
    logs = table.matrix @ np.log(np.maximum(mixture(skill[table.cell_annotator][:, None], same, guess), LEAST))
    if table.outside is not None:
        logs[table.outside] = -np.inf
    logs -= logs.max(axis=1, keepdims=True)
    return np.asarray(np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True))


def _better(table: LabelTable, agreement: Fit, best: Fit, other: Fit, gain: float) -> Fit:
    """`other` where it is more likely by `gain` than `best` and is no mirrored or empty solution."""
    if other.log_likelihood < best.log_likelihood + gain:
        return best
    if _right_beyond_chance(table, other) < TRUST_KEPT * _right_beyond_chance(table, agreement):
        return best
    labels, renamed = agreement.posterior.argmax(axis=1), other.posterior.argmax(axis=1)
    matches = np.zeros((table.n_options, table.n_options))
    np.add.at(matches, (labels[table.labelled], renamed[table.labelled]), 1.0)
    is_renaming = matches.max(axis=1).sum() > RENAMED * matches.sum() and len(np.unique(matches.argmax(axis=1))) > 1
    moved = np.trace(matches) < matches.max(axis=1).sum() - LEAST
    if is_renaming and moved and _diagonal(table, other) < _diagonal(table, agreement):
        return best
    return other


def _right_beyond_chance(table: LabelTable, fit: Fit) -> float:
    """The share of labels that are right by the fit, less what the class shares give by chance."""
    right = fit.posterior[table.item, table.label].mean() if len(table.item) else 0.0
    return float(right - fit.class_shares @ table.label_shares)


def _diagonal(table: LabelTable, fit: Fit) -> float:
    """The mean probability of a right label."""
    own = np.exp(fit.parameters.evidence[np.arange(len(table.cell_label)), table.cell_label])
    return float(table.cell_weight @ own / max(table.cell_weight.sum(), LEAST))
