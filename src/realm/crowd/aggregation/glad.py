"""GLAD: an ability per annotator and a difficulty per item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays
from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import EMPath, gold_start, need_overlap, normalise, run_em
from realm.crowd.evidence import Floats, Indices

SWEEPS = 20
"""Most alternations of abilities and eases in an M-step: EM needs it raised, not solved."""
SETTLED = 1e-2
"""Root mean square change, a hundredth of the prior's standard deviation, at which an M-step ends."""
HALVINGS = 8
"""Halvings of a Newton step before it is given up: 1/256 of it is as good as none."""
LONGEST_STEP = 1.0
"""A Newton step is cut at the prior's standard deviation: the quadratic is not to be believed farther out."""
SLACK = 1e-9
"""A fall of the objective by this much is rounding."""

Logits = Callable[[Floats], tuple[Floats, Floats]]


@dataclass(eq=False)
class Glad(Aggregator):
    """EM for P(annotator a is right on item i) = sigmoid(ability[a] * exp(ease[i])), the other options equally likely.

    J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan (2009). Whose vote should count more: optimal integration
    of labels from labelers of unknown expertise. Advances in Neural Information Processing Systems 22.

    Ability and ease start at 1 and have a normal prior with mean 1 and variance 1; the classes are equally likely. The
    M-step alternates Newton steps for all the abilities and all the eases until they settle, halving those that would
    lower the objective, so that no iteration ever does. EM ends after `max_iter` iterations, or when the objective
    (log-likelihood and priors) per annotation rises by less than `tol` (0: never). Where there is gold, EM also starts
    from what the gold says of the annotators, and the higher maximum is kept.

    | attribute | shape | meaning |
    |---|---|---|
    | ability_ | (annotators,) | 0: chance at K = 2, negative: worse; NaN with no annotation |
    | difficulty_ | (items,) | exp(-ease); 0: nobody gets it wrong; NaN with no annotation |
    | accuracy_ | (annotators,) | the mean posterior of the labels the annotator gave |
    | objectives_ | (iterations,) | log-likelihood and log-priors, less a constant, at each E-step |
    | log_likelihoods_ | (iterations,) | at each E-step; `log_likelihood_` is the last |
    | n_iter_ | | iterations run |

    The other attributes are those of every `Aggregator`.

    Example:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = Glad().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), bool(model.ability_[2] < model.ability_[0])
        ([0, 1, 1], True)
    """

    max_iter: int = 100
    tol: float = 1e-6
    seed: int = 0

    ability_: Floats = field(init=False, repr=False)
    difficulty_: Floats = field(init=False, repr=False)
    objectives_: list[float] = field(init=False, repr=False)
    log_likelihoods_: list[float] = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        need_overlap(arrays)
        path, posterior, fitting = self._em(arrays, None)
        if (start := gold_start(arrays)) is not None:
            other = self._em(arrays, start)
            if other[0].objectives[-1] > path.objectives[-1]:
                path, posterior, fitting = other
        self.log_likelihoods_, self.log_likelihood_ = path.likelihoods, path.likelihoods[-1]
        self.objectives_, self.n_iter_ = path.objectives, len(path.objectives)
        self.ability_ = np.where(arrays.per_annotator > 0, fitting.ability, np.nan)
        self.difficulty_ = np.full(arrays.n_items, np.nan)
        self.difficulty_[arrays.present] = np.exp(-fitting.ease)
        self.accuracy_ = arrays.annotator_mean(posterior.ravel()[arrays.position])
        return posterior

    def _em(self, arrays: AnnotationArrays, start: Floats | None) -> tuple[EMPath, Floats, _Fitting]:
        """EM from equal abilities, or from those that fit a posterior: its path, and where it ends."""
        constant = -float(arrays.log_others @ arrays.per_item) - float(np.log(arrays.option_counts).sum())
        fitting = _Fitting(arrays)
        if start is not None:
            fitting.maximise(start.ravel()[arrays.position])
        posterior = np.empty(0)

        def step() -> tuple[float, float]:
            nonlocal posterior
            logits = fitting.logits()
            posterior = arrays.option_sums(logits)
            posterior += arrays.log_others_sums
            wrong = arrays.weighted(_softplus(logits, np.exp(-np.abs(logits))))
            likelihood = normalise(posterior, arrays) + constant - float(wrong.sum())
            objective = likelihood + fitting.log_prior()
            fitting.maximise(posterior.ravel()[arrays.position])
            return likelihood, objective

        path = run_em(step, self.max_iter, self.tol, arrays.total_weight)
        return path, posterior, fitting


class _Fitting:
    """The abilities and eases, and the M-step that fits them to how probably right each annotation is."""

    def __init__(self, arrays: AnnotationArrays) -> None:
        self.item, self.annotator, self.weight = arrays.item, arrays.annotator, arrays.weight
        self.ability = np.ones(arrays.n_annotators)
        self.ease = np.ones(len(arrays.present))

    def logits(self) -> Floats:
        """The log-odds of each annotation's being right. Shape (annotations,)."""
        return self.ability[self.annotator] * np.exp(self.ease)[self.item]

    def log_prior(self) -> float:
        return -0.5 * float(((self.ability - 1) ** 2).sum() + ((self.ease - 1) ** 2).sum())

    def maximise(self, right: Floats) -> None:
        """Raise the expected log-likelihood, where `right` (annotations,) is how probably each annotation is right."""
        for _ in range(SWEEPS):
            ability, ease = self.ability, self.ease
            by_ability = _by_ability(self.annotator, np.exp(ease)[self.item])
            self.ability = _newton_step(ability, self.annotator, right, by_ability, self.weight)
            by_ease = _by_ease(self.item, self.ability[self.annotator])
            self.ease = _newton_step(ease, self.item, right, by_ease, self.weight)
            if max(_root_mean_square(self.ability - ability), _root_mean_square(self.ease - ease)) < SETTLED:
                break


def _root_mean_square(change: Floats) -> float:
    return float(np.sqrt(np.mean(change**2)))


def _by_ability(annotator: Indices, factor: Floats) -> Logits:
    return lambda ability: (ability[annotator] * factor, factor)


def _by_ease(item: Indices, ability: Floats) -> Logits:
    def logits(ease: Floats) -> tuple[Floats, Floats]:
        x = np.exp(ease)[item] * ability
        return x, x

    return logits


def _newton_step(values: Floats, group: Indices, right: Floats, logits: Logits, weight: Floats | None = None) -> Floats:
    """One Newton step for every entry of `values` (groups,) at once, halved for those whose objective it would lower.

    `group` (annotations,) says which entry an annotation depends on; `logits` gives, from the entries, the log-odds of
    each annotation's being right and their derivative by its entry.
    """
    x, slope = logits(values)
    decay = np.exp(-np.abs(x))
    before = _objective(values, group, right, x, decay, weight)
    chance = np.where(x >= 0, 1.0, decay) / (1 + decay)
    weighted_slope = slope if weight is None else slope * weight
    gradient = np.bincount(group, (right - chance) * weighted_slope, minlength=len(values)) - (values - 1)
    chance *= 1 - chance
    chance *= slope
    chance *= weighted_slope
    curvature = np.bincount(group, chance, minlength=len(values)) + 1
    step = np.clip(gradient / curvature, -LONGEST_STEP, LONGEST_STEP)
    for _ in range(HALVINGS):
        x, _ = logits(values + step)
        worse = _objective(values + step, group, right, x, np.exp(-np.abs(x)), weight) < before - SLACK
        if not worse.any():
            return values + step
        step[worse] /= 2
    return np.where(worse, values, values + step)


def _objective(
    values: Floats, group: Indices, right: Floats, x: Floats, decay: Floats, weight: Floats | None
) -> Floats:
    """Each entry's part of the expected log-likelihood, with its prior; `decay` is exp(-|x|). Shape (groups,)."""
    gain = right * x - _softplus(x, decay)
    gain = gain if weight is None else gain * weight
    return np.bincount(group, gain, minlength=len(values)) - 0.5 * (values - 1) ** 2


def _softplus(x: Floats, decay: Floats) -> Floats:
    return np.maximum(x, 0) + np.log(1 + decay)
