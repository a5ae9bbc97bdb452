"""The coin: an annotator who gives the true label with one probability, and otherwise any other option alike.

    P(label | it is true)             = accuracy
    P(label | another option is true) = (1 - accuracy) / (K - 1)

This is written out here and nowhere else in numpy (`realm.channels` has it in torch). The paper's expertise beta is the
same number on a scale where 0 is chance and 1 is always right, accuracy = 1/K + (1 - 1/K) beta, which turns the above
into beta [y=k] + (1-beta)/K.

Where the items of a task differ in K, an annotator has one beta, and an accuracy for each K. The parameter of `Coin` is
therefore the skill, which runs from 0 at the lowest possible beta, -1/(K-1) for the most options of the task, to 1. On
items with that many options skill *is* the accuracy; on others accuracy = lowest + (1 - lowest) skill.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Floats, Indices, LabelEvidence
from realm.data import Annotations

EDGE = 1e-12
"""No annotator is taken to be certainly right or certainly wrong: two perfect ones may contradict each other. Small
enough to lie beyond what any number of annotations can show."""
NO_ANNOTATIONS = 1e-12
"""Stands for a count of 0 in a denominator."""
TINY = 1e-300
"""Stands for 0 in logarithms and denominators: near the smallest float64."""
FLAT_PRIOR = (1.0, 1.0)
"""Beta(1, 1), the uniform distribution."""

BetaPrior = tuple[npt.ArrayLike, npt.ArrayLike]
"""The two numbers of a Beta distribution, one for all (annotator, task) pairs or (pairs,) each."""


# -------------------------------------------------------------------- the formula


def accuracy_of(expertise: npt.ArrayLike, chance: npt.ArrayLike) -> Floats:
    """The accuracy at an expertise, `chance` being the accuracy at expertise 0: 1/K of a coin. Broadcasts."""
    expertise, chance = np.asarray(expertise, np.float64), np.asarray(chance, np.float64)
    return np.asarray(chance + (1 - chance) * expertise)


def expertise_of(accuracy: npt.ArrayLike, chance: npt.ArrayLike) -> Floats:
    """The inverse of `accuracy_of`. Broadcasts."""
    accuracy, chance = np.asarray(accuracy, np.float64), np.asarray(chance, np.float64)
    return np.asarray(1 - (1 - accuracy) / (1 - chance))


def label_probability(accuracy: npt.ArrayLike, truth: npt.ArrayLike, options: npt.ArrayLike) -> Floats:
    """P(the annotator gives a label) where the label is true with probability `truth`. Broadcasts."""
    own, other = _probabilities(np.asarray(accuracy, np.float64), 0.0, np.asarray(options, np.float64))
    shares = np.asarray(truth, np.float64)
    return np.asarray(own * shares + other * (1 - shares))


def bits(share: Floats) -> Floats:
    """-p log2 p, 0 at p = 0."""
    return np.asarray(-share * np.log2(np.maximum(share, TINY)))


def _probabilities(value: Floats, lowest: Floats | float, options: Floats) -> tuple[Floats, Floats]:
    """P(label | it is true) and P(label | another is true), where accuracy = lowest + (1 - lowest) value. Broadcasts.

    `lowest` is 0 for an accuracy, 1/K for an expertise. 1 - accuracy is not formed: it loses its digits near 0.
    """
    other = (1 - lowest) * (1 - value) / np.maximum(options - 1, 1)
    return np.maximum(lowest + (1 - lowest) * value, EDGE), np.maximum(other, EDGE)


# -------------------------------------------------------------------- the annotator model


class Coin:
    """The coins of all (annotator, task) pairs of a table; the parameter is the skill of each (pairs,).

    | argument | shape | meaning |
    |---|---|---|
    | pair | (annotations,) | the pair that gave each annotation |
    | options | (annotations,) | K of its item |
    | lowest_expertise | (pairs,) or None | the beta of skill 0; None: skill is the accuracy, whatever K is |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    | prior | | the Beta prior on each skill |
    | edge | | how far skills are kept from 0 and 1 where their evidence is taken |
    """

    def __init__(
        self,
        pair: Indices,
        n_pairs: int,
        options: npt.NDArray[np.integer],
        *,
        lowest_expertise: Floats | None = None,
        weight: Floats | None = None,
        prior: BetaPrior = FLAT_PRIOR,
        edge: float = EDGE,
    ) -> None:
        self.pair, self.n_pairs, self.weight, self.prior, self.edge = pair, n_pairs, weight, prior, edge
        self.lowest_expertise = np.zeros(n_pairs) if lowest_expertise is None else lowest_expertise
        # A row for every pair and every number of options that occurs: usually one per pair.
        sizes = np.flatnonzero(np.bincount(options)) if len(options) else np.array([2])
        self._per_pair = len(sizes)
        self.row = pair if len(sizes) == 1 else pair * len(sizes) + np.searchsorted(sizes, options)
        self.options: Floats = np.tile(sizes, n_pairs).astype(np.float64)
        self.lowest: Floats = np.zeros(len(self.options))
        if lowest_expertise is not None:
            lowest = accuracy_of(np.repeat(lowest_expertise, len(sizes)), 1 / self.options)
            self.lowest = np.where(lowest < EDGE, 0.0, lowest)
        self.row_weights: Floats = np.bincount(self.row, weight, minlength=len(self.options)).astype(np.float64)
        self.weights: Floats = self.row_weights.reshape(n_pairs, self._per_pair).sum(axis=1)

    @classmethod
    def of(cls, annotations: Annotations, prior: BetaPrior = FLAT_PRIOR) -> Coin:
        """The coins of a table, one expertise for each annotator and task."""
        lowest = lowest_expertise(annotations)
        options = annotations.option_counts[annotations.item]
        weight = weights_of(annotations)
        return cls(pairs_of(annotations), len(lowest), options, lowest_expertise=lowest, weight=weight, prior=prior)

    @cached_property
    def annotation_counts(self) -> Indices:
        """How many annotations each pair has, whatever their weight. Shape (pairs,)."""
        return np.bincount(self.pair, minlength=self.n_pairs)

    def skill(self, expertise: npt.ArrayLike) -> Floats:
        """Expertise beta (one, or (pairs,)) as skill (pairs,)."""
        return np.clip((np.asarray(expertise) - self.lowest_expertise) / (1 - self.lowest_expertise), 0.0, 1.0)

    def expertise(self, skill: Floats) -> Floats:
        """Skill as expertise beta, (pairs,) each."""
        return self.lowest_expertise + (1 - self.lowest_expertise) * skill

    def evidence(self, parameters: Floats) -> LabelEvidence:
        """The evidence of all annotations, at a skill for each pair (pairs,)."""
        skill = np.repeat(np.clip(parameters, self.edge, 1 - self.edge), self._per_pair)
        own, other = _probabilities(skill, self.lowest, self.options)
        return LabelEvidence(np.log(own), np.log(other), self.row, self.weight, self.row_weights)

    def update(self, parameters: Floats, posterior: Floats, position: Indices) -> Floats:
        """The M-step: see `AnnotatorModel`. Pairs without annotations keep their skill. (pairs,)

        A coin of skill t gives the truth with probability t, and else what a coin of skill 0 gives; what is counted is
        how often it was the first.
        """
        right = posterior.ravel()[position]
        if self.lowest.any():
            skill = np.repeat(parameters, self._per_pair)
            own = np.maximum(self.lowest + (1 - self.lowest) * skill, EDGE)
            right = right * np.where(self.lowest > 0, skill / own, 1.0)[self.row]
        credit = np.bincount(self.pair, right if self.weight is None else right * self.weight, minlength=self.n_pairs)
        more, less = (np.asarray(number, np.float64) - 1 for number in self.prior)
        skills = (credit + more) / np.maximum(self.weights + more + less, NO_ANNOTATIONS)
        return np.where(self.weights > 0, skills, parameters)


def expertise_evidence(annotations: Annotations, expertise: npt.ArrayLike) -> LabelEvidence:
    """The evidence of every annotation at an expertise beta (annotators, tasks), each on [-1/(K-1), 1].

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> expertise_evidence(table, [[0.8], [0.0]]).log_odds.round(2).tolist()
        [2.2, 0.0]
    """
    coin = Coin.of(annotations)
    return coin.evidence(coin.skill(np.asarray(expertise, np.float64).reshape(coin.n_pairs)))


def chance_of(annotations: Annotations, posterior: Floats) -> Floats:
    """What somebody would score on a pair's items who always gives the task's most frequent label, or who draws lots.

    The better of the two: the mean, over the items the pair annotated, of the posterior probability (items, Kmax) of
    the task's most frequent label (by its sum over all items of the task; a position, where items have options of
    their own), and of 1/K. Shape (pairs,), NaN where none.

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": list("abcd"), "annotator": ["x", "x", "y", "y"], "label": ["no", "yes", "no", "no"]}))
        >>> chance_of(table, np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [1.0, 0.0]])).round(2).tolist()
        [0.8, 0.6]
    """
    shape = len(annotations.tasks), posterior.shape[1]
    position = annotations.item_tasks[:, None].astype(np.int64) * shape[1] + np.arange(shape[1])
    frequent = np.bincount(position.ravel(), posterior.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    by_label = posterior[np.arange(len(posterior)), frequent.argmax(axis=1)[annotations.item_tasks]]
    pair, n_pairs = pairs_of(annotations), annotations.n_annotators * len(annotations.tasks)
    by_label, by_lot = (
        np.bincount(pair, share[annotations.item], minlength=n_pairs)
        for share in (by_label, 1 / annotations.option_counts)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(by_label, by_lot) / np.bincount(pair, minlength=n_pairs))


def lowest_expertise(annotations: Annotations) -> Floats:
    """The beta of an annotator who is never right, on items with the most options of the task. Shape (pairs,)."""
    widest = np.full(len(annotations.tasks), 2)
    np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
    return np.tile(-1.0 / (widest - 1), annotations.n_annotators)


def pairs_of(annotations: Annotations) -> Indices:
    """The (annotator, task) pair of each annotation, numbered annotator by annotator. Shape (annotations,)."""
    tasks = annotations.item_tasks[annotations.item].astype(np.int64)
    return annotations.annotator.astype(np.int64) * len(annotations.tasks) + tasks


def weights_of(annotations: Annotations) -> Floats | None:
    """The weights of the annotations, None where all are 1. Shape (annotations,)."""
    weight = annotations.weight
    return None if weight is None or (weight == 1).all() else weight.astype(np.float64, copy=False)
