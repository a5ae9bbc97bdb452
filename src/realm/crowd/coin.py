"""The coin: an annotator who gives the true label with one probability, and otherwise any other option alike.

How such an annotator turns the truth into a label is written out here and nowhere else in numpy (`realm.channels` has
the same in torch). P(label = truth) is a straight line in the annotator's *level*, from `at_zero` at level 0 to 1 at
level 1:

    P(label | it is true)      = at_zero + (1 - at_zero) level
    P(label | another is true) = (1 - at_zero) (1 - level) / (K - 1)

| level | range | at_zero | which gives |
|---|---|---|---|
| expertise beta | -1/(K-1) to 1 | 1/K | beta [y=k] + (1-beta)/K: the paper's mixture with a uniform guess |
| accuracy a | 0 to 1 | 0 | a [y=k] + (1-a)/(K-1) [y!=k] |
| skill t | 0 to 1 | P(right) at the lowest beta | the accuracy, on items with the most options of their task |

With K options for every item of a task, skill *is* the accuracy, and beta = (K a - 1)/(K - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Bools, Evidence, Floats, Indices
from realm.data import Annotations

EDGE = 1e-12
"""No annotator is taken to be certainly right or certainly wrong: two perfect ones may contradict each other. Small
enough to lie beyond what any number of annotations can show."""
NO_ANNOTATIONS = 1e-12
"""Stands for a count of 0 in a denominator."""


def right_probability(level: npt.ArrayLike, at_zero: npt.ArrayLike) -> Floats:
    """P(label = truth) at a level: the accuracy that an expertise means, where `at_zero` is mean(1/K). Broadcasts."""
    level, at_zero = np.asarray(level, np.float64), np.asarray(at_zero, np.float64)
    return np.asarray(at_zero + (1 - at_zero) * level)


def level_of(accuracy: npt.ArrayLike, at_zero: npt.ArrayLike) -> Floats:
    """The level at which P(label = truth) is `accuracy`: the inverse of `right_probability`. Broadcasts."""
    accuracy, at_zero = np.asarray(accuracy, np.float64), np.asarray(at_zero, np.float64)
    return np.asarray(1 - (1 - accuracy) / (1 - at_zero))


def probabilities(level: npt.ArrayLike, options: npt.ArrayLike, at_zero: npt.ArrayLike) -> tuple[Floats, Floats]:
    """P(label | it is true) and P(label | another option is true), neither below `EDGE`. Shapes broadcast."""
    level, at_zero = np.asarray(level, np.float64), np.asarray(at_zero, np.float64)
    others = np.maximum(np.asarray(options, np.float64) - 1, 1)
    other = (1 - at_zero) * (1 - level) / others
    return np.maximum(at_zero + (1 - at_zero) * level, EDGE), np.maximum(other, EDGE)


def label_probability(
    level: npt.ArrayLike, truth: npt.ArrayLike, options: npt.ArrayLike, at_zero: npt.ArrayLike
) -> Floats:
    """P(the annotator gives a label) where the label is true with probability `truth`. Shapes broadcast."""
    own, other = probabilities(level, options, at_zero)
    shares = np.asarray(truth, np.float64)
    return np.asarray(own * shares + other * (1 - shares))


def label_distribution(expertise: Floats, posterior: Floats, options: Indices) -> tuple[Floats, Floats]:
    """What an annotator is expected to answer: P(label = k), and the entropy in bits of the label given the truth.

    `expertise` is (n, annotators), `posterior` (n, Kmax), `options` (n,); returns (n, annotators, Kmax) and (n,
    annotators). Both lines are exact at the posterior mean of an uncertain expertise, being straight lines in it.
    """
    own, other = probabilities(expertise, options[:, None], 1 / options[:, None])
    labels = other[..., None] + (own - other)[..., None] * posterior[:, None, :]
    inside = np.arange(posterior.shape[1]) < options[:, None]
    noise = bits(own) + (options[:, None] - 1) * bits(other)
    return np.where(inside[:, None, :], labels, 0.0), noise


def bits(share: Floats) -> Floats:
    """-p log2 p, 0 at p = 0."""
    surprise: Floats = -share * np.log2(np.maximum(share, 1e-300))
    return surprise


def expertise_evidence(annotations: Annotations, expertise: npt.ArrayLike) -> Evidence:
    """The evidence of every annotation at an expertise beta (annotators, tasks), each on [-1/(K-1), 1].

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> expertise_evidence(table, [[0.8], [0.0]]).log_odds.round(2).tolist()
        [2.2, 0.0]
    """
    coin = Coin.of(annotations)
    return coin.evidence(coin.skill(np.asarray(expertise, np.float64).reshape(coin.n_pairs)))


@dataclass(frozen=True, eq=False)
class Fit:
    """Where EM of a coin ended: levels (pairs,), P(label is true) at the last E-step (annotations,), and its path."""

    level: Floats
    right: Floats
    log_likelihoods: list[float] = field(default_factory=list)


class Coin:
    """The coins of all (annotator, task) pairs of a table: evidence, M-step and EM.

    | argument | shape | meaning |
    |---|---|---|
    | pair | (annotations,) | the pair whose coin gave each annotation |
    | options | (annotations,) | K of its item |
    | lowest | (pairs,) or None | the beta of skill 0, for levels that are skills; None: levels are accuracies |
    | weight | (annotations,) or None | how much each annotation counts |
    | edge | | how far levels are kept from 0 and 1 where their evidence is taken |
    """

    def __init__(
        self,
        pair: Indices,
        n_pairs: int,
        options: npt.NDArray[np.integer],
        *,
        lowest: Floats | None = None,
        weight: Floats | None = None,
        edge: float = EDGE,
    ) -> None:
        self.pair, self.n_pairs, self.lowest, self.weight, self.edge = pair, n_pairs, lowest, weight, edge
        # A row for every pair and every number of options that is met: usually one per pair.
        met = np.flatnonzero(np.bincount(options)) if len(options) else np.array([2])
        self._per_pair = len(met)
        self.row = pair if len(met) == 1 else pair * len(met) + np.searchsorted(met, options)
        self.options: Floats = np.tile(met, n_pairs).astype(np.float64)
        self.at_zero: Floats = np.zeros(len(self.options))
        if lowest is not None:
            worst = right_probability(np.repeat(lowest, len(met)), 1 / self.options)
            self.at_zero = np.where(worst < EDGE, 0.0, worst)
        self.row_weights: Floats = np.bincount(self.row, weight, minlength=len(self.options)).astype(np.float64)
        self.counts: Floats = self.row_weights.reshape(n_pairs, self._per_pair).sum(axis=1)

    @classmethod
    def of(cls, annotations: Annotations) -> Coin:
        """The coins of a table, on the scale of skill."""
        tasks = len(annotations.tasks)
        widest = np.full(tasks, 2)
        np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
        lowest = np.tile(-1.0 / (widest - 1), annotations.n_annotators)
        options = annotations.option_counts[annotations.item]
        pairs = annotations.n_annotators * tasks
        return cls(pairs_of(annotations), pairs, options, lowest=lowest, weight=weights_of(annotations))

    # ---------------------------------------------------------------- scales

    def skill(self, expertise: Floats) -> Floats:
        """Expertise beta as skill, (pairs,) each."""
        assert self.lowest is not None
        return np.clip((expertise - self.lowest) / (1 - self.lowest), 0.0, 1.0)

    def expertise(self, skill: Floats) -> Floats:
        """Skill as expertise beta, (pairs,) each."""
        assert self.lowest is not None
        return self.lowest + (1 - self.lowest) * skill

    # ---------------------------------------------------------------- evidence and EM

    def evidence(self, level: Floats) -> Evidence:
        """The evidence of all annotations, at a level for each pair (pairs,)."""
        inside = np.clip(level, self.edge, 1 - self.edge)
        own, other = probabilities(np.repeat(inside, self._per_pair), self.options, self.at_zero)
        return Evidence(np.log(own), np.log(other), self.row, self.weight, self.row_weights)

    def evidence_each(self, level: Floats) -> Evidence:
        """The evidence of all annotations, at a level for each annotation (annotations,)."""
        inside = np.clip(level, self.edge, 1 - self.edge)
        own, other = probabilities(inside, self.options[self.row], self.at_zero[self.row])
        return Evidence(np.log(own), np.log(other), weight=self.weight)

    def label_line(self, truth: Floats) -> tuple[Floats, Floats]:
        """P(label) at level 0 and at level 1, its label being true with probability `truth`. (annotations,) each

        In between P(label) is the straight line from the one to the other.
        """
        at_zero, others = self.at_zero[self.row], np.maximum(self.options[self.row] - 1, 1)
        return at_zero * truth + (1 - at_zero) * (1 - truth) / others, truth

    def update(self, level: Floats, right: Floats, prior: tuple[npt.ArrayLike, npt.ArrayLike] = (1.0, 1.0)) -> Floats:
        """The M-step: the levels that maximise the expected log-likelihood times a Beta prior on each. (pairs,)

        `right` (annotations,) is P(label is true) at `level`. A coin of level t is a mixture: with probability t the
        truth, else what a coin of level 0 says, and what is counted is how often it was the first.
        """
        if self.at_zero.any():
            each = np.repeat(level, self._per_pair)
            own = np.maximum(right_probability(each, self.at_zero), EDGE)
            right = right * np.where(self.at_zero > 0, each / own, 1.0)[self.row]
        credit = np.bincount(self.pair, right if self.weight is None else right * self.weight, minlength=self.n_pairs)
        more, less = (np.asarray(number, np.float64) - 1 for number in prior)
        return np.asarray((credit + more) / np.maximum(self.counts + more + less, NO_ANNOTATIONS))

    def fit(
        self,
        e_step: Callable[[Evidence], tuple[Floats, float]],
        start: Floats,
        *,
        prior: tuple[npt.ArrayLike, npt.ArrayLike] = (1.0, 1.0),
        fixed: Bools | None = None,
        max_iter: int,
        tol: float = 0.0,
        least_gain: float = 0.0,
    ) -> Fit:
        """EM from the levels `start` (pairs,): the one that every coin in this package is fitted by.

        `e_step` knows the items' prior: it turns evidence into P(label is true) of every annotation (annotations,) and
        the log-likelihood (any number where `least_gain` is 0). EM ends after `max_iter` iterations, when no level
        moves by `tol`, or when the log-likelihood per annotation rises by less than `least_gain` (0: never). Pairs
        without annotations and those in `fixed` (pairs,) keep their start.
        """
        moving = self.counts > 0 if fixed is None else (self.counts > 0) & ~fixed
        level, path = start, list[float]()
        for _ in range(max_iter):
            right, log_likelihood = e_step(self.evidence(level))
            before, level = level, np.where(moving, self.update(level, right, prior), level)
            gain = log_likelihood - path[-1] if path else np.inf
            path.append(log_likelihood)
            if least_gain and gain < least_gain * self.counts.sum():
                break
            if tol and np.abs(level - before).max(initial=0.0) < tol:
                break
        return Fit(level, right, path)


def pairs_of(annotations: Annotations) -> Indices:
    """The (annotator, task) pair of each annotation, numbered annotator by annotator. Shape (annotations,)."""
    tasks = annotations.item_tasks[annotations.item].astype(np.int64)
    return annotations.annotator.astype(np.int64) * len(annotations.tasks) + tasks


def weights_of(annotations: Annotations) -> Floats | None:
    """The weights of the annotations, None where all are 1. Shape (annotations,)."""
    weight: Floats | None = getattr(annotations, "weight", None)
    return None if weight is None or (weight == 1).all() else weight.astype(np.float64, copy=False)
