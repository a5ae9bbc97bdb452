"""GLAD: an ability per annotator and a difficulty per item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import Climb, climb, gold_start, need_overlap, normalise
from realm.crowd.aggregation.votes import Floats, Ints, Votes

SWEEPS = 20
SETTLED = 1e-2
HALVINGS = 8
LONGEST_STEP = 1.0
SLACK = 1e-9

Logits = Callable[[Floats], tuple[Floats, Floats]]


@dataclass(eq=False)
class Glad(Aggregator):
    """EM for P(annotator a is right on item i) = sigmoid(ability[a] * exp(ease[i])), the other options equally likely.

    J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan (2009). Whose vote should count more: optimal integration
    of labels from labelers of unknown expertise. Advances in Neural Information Processing Systems 22.

    Ability and ease start at 1 and have a normal prior with mean 1 and variance 1; the classes are equally likely. The
    M-step alternates Newton steps for all the abilities and all the eases until they settle, halving those that would
    lower the objective, so that no iteration ever does. EM ends after `max_iter` iterations, or when the objective
    (log-likelihood and priors) per annotation rises by less than `tol` (0: never). Where there is gold, EM also climbs
    from what the gold says of the annotators, and the higher summit is kept.

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

    def _fit(self, found: Votes) -> Floats:
        need_overlap(found)
        path, posterior, fitting = self._climb(found, None)
        if (start := gold_start(found)) is not None:
            other = self._climb(found, start)
            if other[0].objectives[-1] > path.objectives[-1]:
                path, posterior, fitting = other
        self.log_likelihoods_, self.log_likelihood_ = path.likelihoods, path.likelihoods[-1]
        self.objectives_, self.n_iter_ = path.objectives, len(path.objectives)
        self.ability_ = np.where(found.per_annotator > 0, fitting.ability, np.nan)
        self.difficulty_ = np.full(found.n_items, np.nan)
        self.difficulty_[found.present] = np.exp(-fitting.ease)
        self.accuracy_ = found.annotator_mean(posterior.ravel()[found.cell])
        return posterior

    def _climb(self, found: Votes, start: Floats | None) -> tuple[Climb, Floats, _Fitting]:
        """EM from equal abilities, or from those that fit a posterior: its path, and where it ends."""
        constant = -float(found.log_others @ found.per_item) - float(np.log(found.option_counts).sum())
        fitting = _Fitting(found)
        if start is not None:
            fitting.maximise(start.ravel()[found.cell])
        posterior = np.empty(0)

        def step() -> tuple[float, float]:
            nonlocal posterior
            logits = fitting.logits()
            posterior = found.cell_sums(logits)
            posterior += found.guesses
            likelihood = (
                normalise(posterior, found) + constant - float(_softplus(logits, np.exp(-np.abs(logits))).sum())
            )
            objective = likelihood + fitting.log_prior()
            fitting.maximise(posterior.ravel()[found.cell])
            return likelihood, objective

        path = climb(step, self.max_iter, self.tol, found.n_annotations)
        return path, posterior, fitting


class _Fitting:
    """The abilities and eases, and the M-step that fits them to how probably right each annotation is."""

    def __init__(self, found: Votes) -> None:
        self.item, self.annotator = found.item, found.annotator
        self.ability = np.ones(found.n_annotators)
        self.ease = np.ones(len(found.present))

    def logits(self) -> Floats:
        """The log-odds of each annotation's being right. Shape (annotations,)."""
        return self.ability[self.annotator] * np.exp(self.ease)[self.item]

    def log_prior(self) -> float:
        return -0.5 * float(((self.ability - 1) ** 2).sum() + ((self.ease - 1) ** 2).sum())

    def maximise(self, right: Floats) -> None:
        """Raise the expected log-likelihood, where `right` (annotations,) is how probably each annotation is right."""
        for _ in range(SWEEPS):
            ability, ease = self.ability, self.ease
            self.ability = _ascend(ability, self.annotator, right, _by_ability(self.annotator, np.exp(ease)[self.item]))
            self.ease = _ascend(ease, self.item, right, _by_ease(self.item, self.ability[self.annotator]))
            if max(_spread(self.ability - ability), _spread(self.ease - ease)) < SETTLED:
                break


def _spread(change: Floats) -> float:
    return float(np.sqrt(np.mean(change**2)))


def _by_ability(annotator: Ints, factor: Floats) -> Logits:
    return lambda ability: (ability[annotator] * factor, factor)


def _by_ease(item: Ints, ability: Floats) -> Logits:
    def logits(ease: Floats) -> tuple[Floats, Floats]:
        x = np.exp(ease)[item] * ability
        return x, x

    return logits


def _ascend(values: Floats, group: Ints, right: Floats, logits: Logits) -> Floats:
    """One Newton step for every entry of `values` (groups,) at once, halved for those whose objective it would lower.

    `group` (annotations,) says which entry an annotation depends on; `logits` gives, from the entries, the log-odds of
    each annotation's being right and their derivative by its entry.
    """
    x, slope = logits(values)
    decay = np.exp(-np.abs(x))
    before = _objective(values, group, right, x, decay)
    chance = np.where(x >= 0, 1.0, decay) / (1 + decay)
    gradient = np.bincount(group, (right - chance) * slope, minlength=len(values)) - (values - 1)
    chance *= 1 - chance
    chance *= slope
    chance *= slope
    curvature = np.bincount(group, chance, minlength=len(values)) + 1
    step = np.clip(gradient / curvature, -LONGEST_STEP, LONGEST_STEP)
    for _ in range(HALVINGS):
        x, _ = logits(values + step)
        worse = _objective(values + step, group, right, x, np.exp(-np.abs(x))) < before - SLACK
        if not worse.any():
            return values + step
        step[worse] /= 2
    return np.where(worse, values, values + step)


def _objective(values: Floats, group: Ints, right: Floats, x: Floats, decay: Floats) -> Floats:
    """Each entry's part of the expected log-likelihood, with its prior; `decay` is exp(-|x|). Shape (groups,)."""
    gain = right * x - _softplus(x, decay)
    return np.bincount(group, gain, minlength=len(values)) - 0.5 * (values - 1) ** 2


def _softplus(x: Floats, decay: Floats) -> Floats:
    return np.maximum(x, 0) + np.log(1 + decay)
