"""Where EM starts without a model: three deterministic starts, behind a guard.

EM from agreement alone gets stuck where few know and many guess, and likelihood alone must not choose among starts:
with four of ten annotators inverted at K = 2 the mirrored solution has the higher likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from realm.crowd.engine import LEAST, Fit, Floats, Ints, LabelTable, log_softmax, mixture

CHOOSING = 50_000  # annotations on which the start is chosen at most; EM goes on from it on all
PAIR_Z, PAIR_GAIN, RANK_GAIN = 5.0, 3.0, 10.0  # no label of 18 real crowds changes, 2 experts of 20 are found
BELIEF = 0.8  # how much of the start the believed pair has; the vote has the rest
TRUST_KEPT = 0.5  # a start is refused where labels become right beyond chance half as often as under agreement
RENAMED = 0.7  # of the items: a start that renames the labels of so many is mirrored, if it is less diagonal
GOLD_POOL, GOLD_OWN = 10.0, 5.0  # labels that the prior, and the pool, are worth: two unlucky gold items turn nothing


def chosen_start(table: LabelTable, known: Ints, run: Callable[[LabelTable, Ints, Floats], Fit]) -> Fit:
    """The best start of the table, or of a sample of its items where there are many.

    `known` (items,) is the truth where it is given, -1 elsewhere; `run(table, known, posterior)` is EM.
    """
    if len(table.item) > CHOOSING:
        n = max(int(CHOOSING / (len(table.item) / max(table.labelled.sum(), 1))), 1)
        items = np.sort(np.random.default_rng(0).permutation(np.flatnonzero(table.labelled))[:n])
        table, known = table.take_items(items), known[items]
    best = best_start(table, lambda posterior: run(table, known, posterior))
    if (known >= 0).any():
        best = max(best, run(table, known, gold_posterior(table, known)), key=lambda each: each.log_likelihood)
    return best


def gold_posterior(table: LabelTable, known: Ints) -> Floats:
    """The posterior if everybody were as accurate as on the items with gold. (items, options)

    EM finds the nearest maximum, and where a clique has won the vote that is a wrong one.
    """
    truth, even = known[table.item], 1 / table.n_options
    judged = truth >= 0 if table.never_true is None else (truth >= 0) & ~table.never_true[table.label]
    counts, right = (
        np.bincount(table.annotator, table.weights * rows, minlength=table.n_annotators)
        for rows in (judged, judged & (truth == table.label))
    )
    pool = (right.sum() + GOLD_POOL * (1 + even) / 2) / (counts.sum() + GOLD_POOL)
    accuracy = (right + GOLD_OWN * pool) / (counts + GOLD_OWN)
    return _posterior_of(table, (accuracy - even) / max(1 - even, LEAST), np.full(table.n_options, even))


def best_start(table: LabelTable, run: Callable[[Floats], Fit]) -> Fit:
    """Fit from agreement, then from the two other starts where they pass the guard. `run` is EM from a posterior."""
    best = agreement = run(table.vote_shares)
    pairs = table.pairs
    if len(pairs.annotators) < 3:
        return best
    z = pairs.z
    pair = np.unravel_index(int(np.argmax(z)), z.shape)
    if z[pair] >= PAIR_Z:
        believed = np.isin(table.annotator, pairs.annotators[list(pair)])
        columns = {name: getattr(table, name)[believed] for name in ("item", "annotator", "label")}
        part = replace(table, **columns, weight=None)
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
    likelihood = mixture(skill[table.cell_annotator][:, None], same, shares[table.cell_label][:, None])
    logs = table.matrix @ np.log(np.maximum(likelihood, LEAST))
    if table.outside is not None:
        logs[table.outside] = -np.inf
    return np.exp(log_softmax(logs))


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
    mirrored = is_renaming and moved and _diagonal(table, other) < _diagonal(table, agreement)
    return best if mirrored else other


def _right_beyond_chance(table: LabelTable, fit: Fit) -> float:
    """The share of labels that are right by the fit, less what the class shares give by chance."""
    right = fit.posterior[table.item, table.label].mean() if len(table.item) else 0.0
    return float(right - fit.class_shares @ table.label_shares)


def _diagonal(table: LabelTable, fit: Fit) -> float:
    """The mean probability of a right label."""
    own = np.exp(fit.parameters.evidence[np.arange(len(table.cell_label)), table.cell_label])
    return float(table.cell_weight @ own / max(table.cell_weight.sum(), LEAST))
