"""GLAD: an ability per annotator and a difficulty per item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.arrays import AnnotationArrays
from realm.crowd.aggregation.base import EMAggregator, EMResult
from realm.crowd.evidence import AnnotatorModel, Floats, Indices, LabelEvidence

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
class Glad(EMAggregator):
    """EM for P(annotator a is right on item i) = sigmoid(ability[a] * exp(ease[i])), the other options equally likely.

    J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan (2009). Whose vote should count more: optimal integration
    of labels from labelers of unknown expertise. Advances in Neural Information Processing Systems 22.

    Ability and ease start at 1 and have a normal prior with mean 1 and variance 1; the classes are equally likely. The
    M-step alternates Newton steps for all the abilities and all the eases until they settle, halving those that would
    lower the objective, so that no iteration ever does.

    | attribute | shape | meaning |
    |---|---|---|
    | ability_ | (annotators,) | 0: chance at K = 2, negative: worse; NaN with no annotation |
    | difficulty_ | (items,) | exp(-ease); 0: nobody gets it wrong; NaN with no annotation |
    | objectives_ | (iterations,) | log-likelihood and log-priors, less a constant, at each E-step |

    The other attributes are those of every `EMAggregator`.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = Glad().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), bool(model.ability_[2] < model.ability_[0])
        ([0, 1, 1], True)
    """

    takes_start = False  # what is learned of items is most of it

    ability_: Floats = field(init=False, repr=False)
    difficulty_: Floats = field(init=False, repr=False)
    objectives_: list[float] = field(init=False, repr=False)

    def _model(self, arrays: AnnotationArrays) -> AnnotatorModel:
        return AbilityAndEase(arrays)

    def _start(self, model: AnnotatorModel, arrays: AnnotationArrays, posterior: Floats, from_gold: bool) -> Floats:
        ones = np.ones(arrays.n_annotators + len(arrays.present))
        return model.update(ones, posterior, arrays.position) if from_gold else ones

    def _log_class_shares(self, posterior: Floats, arrays: AnnotationArrays) -> Floats:
        return -np.log(arrays.option_counts)[:, None]

    def _log_prior(self, model: AnnotatorModel, parameters: Floats, arrays: AnnotationArrays) -> float:
        return -0.5 * float(((parameters - 1) ** 2).sum())

    def _set_attributes(self, result: EMResult, arrays: AnnotationArrays) -> None:
        ability, ease = np.split(result.parameters, [arrays.n_annotators])
        self.objectives_ = result.objectives
        self.ability_ = np.where(arrays.per_annotator > 0, ability, np.nan)
        self.difficulty_ = np.full(arrays.n_items, np.nan)
        self.difficulty_[arrays.present] = np.exp(-ease)


class AbilityAndEase:
    """The annotator model: the abilities, then the eases of the items with annotations. (annotators + items,)"""

    def __init__(self, arrays: AnnotationArrays) -> None:
        self.item, self.annotator, self.weight = arrays.item, arrays.annotator, arrays.weight
        self.n_annotators = arrays.n_annotators
        self.log_others = np.log(np.maximum(arrays.option_counts - 1, 1))

    def evidence(self, parameters: Floats) -> LabelEvidence:
        ability, ease = np.split(parameters, [self.n_annotators])
        logits = ability[self.annotator] * np.exp(ease)[self.item]
        wrong = _softplus(logits, np.exp(-np.abs(logits)))
        return LabelEvidence(logits - wrong, -wrong - self.log_others[self.item], weight=self.weight)

    def update(self, parameters: Floats, posterior: Floats, position: Indices) -> Floats:
        """Raise the expected log-likelihood, until a sweep over abilities and eases changes little."""
        right = posterior.ravel()[position]
        ability, ease = np.split(parameters, [self.n_annotators])
        for _ in range(SWEEPS):
            before = ability, ease
            by_ability = _by_ability(self.annotator, np.exp(ease)[self.item])
            ability = _newton_step(ability, self.annotator, right, by_ability, self.weight)
            by_ease = _by_ease(self.item, ability[self.annotator])
            ease = _newton_step(ease, self.item, right, by_ease, self.weight)
            if max(_root_mean_square(ability - before[0]), _root_mean_square(ease - before[1])) < SETTLED:
                break
        return np.concatenate([ability, ease])


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
