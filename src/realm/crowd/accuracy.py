"""How accurate each annotator is, with intervals: from evidence and log P alone, whatever channel the evidence is of.

Each label is judged by everything but itself (`leave_one_out`). With p the probability that it is right, an annotator
of accuracy a gives it with probability a p + (1 - a)(1 - p)/(K - 1): the truth is integrated out. The posterior of a is
taken on a grid, under a Beta prior of the pool whose mean and weight are averaged over: with few annotators a single
best pool is too narrow. The labels' p are kept as a histogram for each annotator, so that the work does not grow with
the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.engine import EXPERT, LEAST, Bools, Floats, Ints, log_softmax
from realm.crowd.shared_mistakes import SharedMistakes
from realm.data import Annotations

LEVEL = 0.95  # the customary 95% interval
NODES, POINTS = 33, 256  # of p and of accuracies: an interval from 10,000 labels still spans several points
POOL_MEANS, POOL_WEIGHTS = 30, np.array([2.0, 3.0, 4.5, 7.0, 11.0, 18.0, 32.0, 64.0])  # pools averaged over
FITTED = 2000  # annotators that the weights of the pools are computed from at most: more leave them where they are


def leave_one_out(log_prior: Floats, evidence: Floats, item: Ints, weight: Floats, own: Floats | None = None) -> Floats:
    """log P(truth | everything but the annotation itself), of each annotation's item. Shape (annotations, K).

    From log P (items, K), evidence (annotations, K) and how much each annotation counts; `own` is the weight that is
    left out, where copies of the annotation go with it; None: its own. (annotations,) each
    """
    total = log_prior + sums_by(item, evidence * weight[:, None], len(log_prior))
    return log_softmax(total[item] - (weight if own is None else own)[:, None] * evidence)


def sums_by(index: Ints, values: Floats, size: int) -> Floats:
    """The sum of the rows of `values` (n, K) of each `index` (n,), which is below `size`. Shape (size, K)"""
    return np.stack([np.bincount(index, column, minlength=size) for column in values.T], axis=1)


def angle_grid(size: int, *, ends: bool) -> Floats:
    """`size` points on [0, 1], even in asin(sqrt(t)): with both ends, or the middles of as many intervals."""
    place = np.arange(size) / (size - 1) if ends else (np.arange(size) + 0.5) / size
    return np.asarray(np.sin(place * np.pi / 2) ** 2)


def histogram(right: Floats, annotator: Ints, n_annotators: int, weight: Floats) -> Floats:
    """How many labels of each annotator are right with which probability. Additive over shards. (annotators, NODES)

    A label between two nodes is shared between them so that its p stays what it is.
    """
    nodes, size = angle_grid(NODES, ends=True), n_annotators * NODES
    above = np.clip(np.searchsorted(nodes, right), 1, NODES - 1)
    share = (right - nodes[above - 1]) / (nodes[above] - nodes[above - 1])
    place = annotator.astype(np.int64) * NODES + above
    counts = np.bincount(place, weight * share, size) + np.bincount(place - 1, weight * (1 - share), size)
    return np.asarray(counts, dtype=np.float64).reshape(n_annotators, NODES)


@dataclass(frozen=True, eq=False)
class AccuracyPosterior:
    """The posterior of each annotator's accuracy on a grid: `points` (POINTS,), `mass` (annotators, POINTS)."""

    points: Floats
    mass: Floats

    @property
    def mean(self) -> Floats:
        """Shape (annotators,)."""
        return np.asarray(self.mass @ self.points)

    def quantile(self, level: float) -> Floats:
        """The accuracy below which `level` of the mass lies. Shape (annotators,)"""
        total, rows = np.cumsum(self.mass, axis=1), np.arange(len(self.mass))
        place = np.minimum((total < level).sum(axis=1), len(self.points) - 1)
        inside = (level - total[rows, place] + self.mass[rows, place]) / np.maximum(self.mass[rows, place], LEAST)
        return np.asarray(np.sin((place + np.clip(inside, 0, 1)) / len(self.points) * np.pi / 2) ** 2)


def accuracy_posterior(
    counts: Floats, options: float, chance: float, group: Ints, own_mean: Floats, own_weight: Floats
) -> AccuracyPosterior:
    """From the histogram of each annotator's labels (annotators, NODES) to the posterior of their accuracy.

    `chance` is the lowest mean of a pool: below it a pool that is mostly wrong would mirror one that is right. `group`
    is each annotator's pool, `own_mean` and `own_weight` an earlier estimate in its place, NaN: none. (annotators,)
    """
    points, nodes = angle_grid(POINTS, ends=False), angle_grid(NODES, ends=True)
    label = points[:, None] * nodes + (1 - points)[:, None] * (1 - nodes) / max(options - 1, 1)  # (POINTS, NODES)
    mass = counts @ np.log(np.maximum(label, LEAST)).T
    mass = np.exp(mass - mass.max(axis=1, keepdims=True))  # the likelihood; the prior is multiplied in below
    means = chance + (1 - chance) * (np.arange(POOL_MEANS) + 0.5) / POOL_MEANS
    pools = np.concatenate([beta_mass(points, means, weight) for weight in POOL_WEIGHTS])
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        judged = rows[counts[rows].sum(axis=1) > 0][:FITTED]
        rows = rows[~np.isfinite(own_mean[rows])]
        fits = np.log(np.maximum(mass[judged] @ pools.T, LEAST)).sum(axis=0)
        weight = np.exp(fits - fits.max())
        for start in range(0, len(rows), FITTED):
            part = rows[start : start + FITTED]
            mass[part] *= (weight / np.maximum(mass[part] @ pools.T, LEAST)) @ pools
    for j in np.flatnonzero(np.isfinite(own_mean)):
        mass[j] *= beta_mass(points, own_mean[[j]], float(own_weight[j]))[0]
    mass /= np.maximum(mass.sum(axis=1, keepdims=True), LEAST)
    return AccuracyPosterior(points, mass)


def beta_mass(points: Floats, means: Floats, weight: float) -> Floats:
    """Beta distributions of these means and this weight as probabilities of the grid's intervals. (means, POINTS)"""
    a, b = means[:, None] * weight, (1 - means[:, None]) * weight
    # an interval of the grid is as long as 2 sqrt(t (1 - t)): half is added to each exponent
    logs = (a - 0.5) * np.log(points) + (b - 0.5) * np.log1p(-points)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def annotator_accuracies(
    right: Floats,
    annotator: Ints,
    weight: Floats,
    shared: SharedMistakes,
    options: float,
    known: Bools,
    group: Ints,
    experts: Bools,
    own_mean: Floats,
    own_weight: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Mean and 95% interval of each annotator's accuracy, NaN for those without labels. Shapes (annotators,)

    `right` (annotations,) is P(the label is right) by everything but itself; `known` (annotations,) where the truth is
    given: no shared mistake can hide there. `options` is how many options items have on average; the other arguments
    are each annotator's pool, whether they are held to be right, and an earlier estimate.
    """
    counts = histogram(right, annotator, len(group), weight)
    posterior = accuracy_posterior(counts, options, 1 / options, group, own_mean, own_weight)
    total = counts.sum(axis=1)
    mean, low, high = posterior.mean, posterior.quantile((1 - LEVEL) / 2), posterior.quantile((1 + LEVEL) / 2)
    on_known = np.bincount(annotator[known], weight[known], minlength=len(group))
    by_others = (on_known < 0.5 * total) & ~experts
    mean = np.where(by_others, shared.accuracy(mean, options), mean)
    low = np.where(by_others, np.minimum(low, shared.accuracy(low, options, shared.high)), low)
    high = np.where(by_others, np.maximum(high, shared.accuracy(high, options, shared.high)), high)
    # experts are held to be right, not judged
    mean, low, high = (np.where(total > 0, np.where(experts, EXPERT, each), np.nan) for each in (mean, low, high))
    return np.clip(mean, low, high), low, high


def pairs_of(annotations: Annotations) -> Ints:
    """The (annotator, task) pair of each annotation, numbered annotator by annotator. Shape (annotations,)."""
    pairs = annotations.annotator.astype(np.int64) * len(annotations.tasks) + annotations.item_tasks[annotations.item]
    return np.asarray(pairs)


def expertise_of(accuracy: Floats, chance: Floats) -> Floats:
    """beta: how far accuracy lies from `chance` (0) to always right (1). Broadcasts."""
    return np.asarray(1 - (1 - np.asarray(accuracy, np.float64)) / (1 - np.asarray(chance, np.float64)))


def lowest_expertise(annotations: Annotations) -> Floats:
    """The beta of an annotator who is never right, on items with the most options of the task. Shape (pairs,)."""
    widest = np.full(len(annotations.tasks), 2)
    np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
    return np.tile(-1.0 / (widest - 1), annotations.n_annotators)


def chance_of(annotations: Annotations, posterior: Floats) -> Floats:
    """What always giving the task's most frequent label scores on a pair's items, or 1/K where that is more.

    `posterior` is (items, Kmax). Shape (pairs,), NaN where the pair has no annotations.
    """
    frequent = sums_by(annotations.item_tasks, posterior, len(annotations.tasks)).argmax(axis=1)
    by_label = posterior[np.arange(len(posterior)), frequent[annotations.item_tasks]]
    pair, n_pairs = pairs_of(annotations), annotations.n_annotators * len(annotations.tasks)
    shares = np.stack([by_label, 1 / annotations.option_counts, np.ones(len(posterior))], axis=1)
    constant, even, count = sums_by(pair, shares[annotations.item], n_pairs).T
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(constant, even) / count)


def relative_tasks(annotations: Annotations, known: Bools) -> Bools:
    """The tasks in which little but a model's calibration fixes the scale of expertise. Shape (tasks,).

    An item with one annotation is judged by the model alone, so a few with more do not make a task absolute: half of a
    task's annotations must lie on items with another one, or whose truth is `known` (items,).
    """
    anchored = (annotations.annotations_per_item > 1) | known
    task, tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    share = np.bincount(task, anchored[annotations.item], minlength=tasks)
    return np.asarray(share < 0.5 * np.maximum(np.bincount(task, minlength=tasks), 1))
