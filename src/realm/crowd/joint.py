"""The joint likelihood of all annotations, with the model's P as each item's prior.

For one item it is sum_k P(k|Q) exp(sum over its annotations of E[a, k]), where the evidence E is that of a coin for
each (annotator, task) pair (`realm.crowd.coin`), on the scale of skill: 0 is the lowest expertise, 1 always right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import Coin
from realm.crowd.evidence import Bools, Evidence, Floats, Indices, log_softmax_rows, softmax_rows
from realm.crowd.posterior import label_positions
from realm.data import Annotations

LARGEST_LOG_ODDS = 800.0
"""Stands for infinite log-odds: tanh(400) is 1 to the last bit, and the exponentials stay finite."""


@dataclass(frozen=True, eq=False)
class SkillLikelihood:
    """P(label) of each annotation as a straight line in its annotator's skill, everything else held fixed.

    | field | shape | meaning |
    |---|---|---|
    | at_zero, at_one | (annotations,) | P(label) at skill 0 and at skill 1 |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    """

    at_zero: Floats
    at_one: Floats
    weight: Floats | None = None

    def take(self, order: Indices) -> SkillLikelihood:
        """The annotations at these places, in this order."""
        weight = None if self.weight is None else self.weight[order]
        return SkillLikelihood(self.at_zero[order], self.at_one[order], weight)

    def masked(self, counted: Bools) -> SkillLikelihood:
        """The same, with a likelihood of 1 at every skill for annotations that are not `counted`."""
        return SkillLikelihood(np.where(counted, self.at_zero, 1.0), np.where(counted, self.at_one, 1.0), self.weight)


@dataclass(frozen=True, eq=False)
class JointLikelihood:
    """A table of annotations with the model's log-probabilities (items, Kmax), normalised: what EM works on."""

    annotations: Annotations
    log_probs: Floats

    @cached_property
    def coin(self) -> Coin:
        """The coins of all (annotator, task) pairs, numbered annotator by annotator."""
        return Coin.of(self.annotations)

    @cached_property
    def annotation_counts(self) -> Indices:
        """How many annotations each pair has, whatever their weight. Shape (pairs,)."""
        return np.bincount(self.coin.pair, minlength=self.coin.n_pairs)

    @cached_property
    def chance(self) -> Floats:
        """Mean 1/K over the items a pair annotated: the accuracy of a guesser. Shape (pairs,), NaN where none."""
        coin = self.coin
        share = np.bincount(
            coin.pair, 1.0 / self.annotations.option_counts[self.annotations.item], minlength=coin.n_pairs
        )
        with np.errstate(invalid="ignore"):
            mean: Floats = share / self.annotation_counts
        return mean

    @cached_property
    def position(self) -> Indices:
        """Where each annotation's (item, label) falls in a flat (items, Kmax) array. Shape (annotations,)."""
        return label_positions(self.annotations, self.log_probs.shape[1])

    def scores(self, evidence: Evidence) -> Floats:
        """log P(k|Q) plus the evidence of the item's annotations, less what all its options share. (items, Kmax)"""
        return self.log_probs + evidence.item_sums(self.position, self.log_probs.shape)

    def e_step(self, evidence: Evidence) -> tuple[Floats, float]:
        """P(label is true | everything) of every annotation (annotations,), and the log-likelihood."""
        posterior = self.scores(evidence)
        log_likelihood = softmax_rows(posterior) + evidence.constant
        return posterior.ravel()[self.position], log_likelihood

    def log_likelihood(self, skill: Floats) -> float:
        """The joint log-likelihood of all annotations at a skill per pair (pairs,)."""
        return self.e_step(self.coin.evidence(skill))[1]

    def fit(
        self,
        start: Floats,
        *,
        prior: tuple[npt.ArrayLike, npt.ArrayLike] = (1.0, 1.0),
        fixed: Bools | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Floats:
        """EM from the skills `start` (pairs,) to a maximum of the joint likelihood times a Beta prior on each. (pairs,)

        A step never lowers it. `prior` is the Beta's two numbers, for all pairs or (pairs,) each. Pairs without
        annotations and those in `fixed` keep their start.
        """
        return self.coin.fit(self.e_step, start, prior=prior, fixed=fixed, max_iter=max_iter, tol=tol).level

    def leave_one_out(self, skill: Floats) -> SkillLikelihood:
        """What each annotation says of its annotator, given the skill behind every annotation (annotations,).

        The probability that its label is true comes from the model and the item's other annotations: the annotation's
        own evidence is left out, because annotators always agree with themselves.
        """
        evidence = self.coin.evidence_each(skill)
        log_posterior = log_softmax_rows(self.scores(evidence))
        shares = np.exp(log_posterior)
        # The sum over the other options is taken directly: 1 - p loses all its digits where p is nearly 1.
        rest = (shares @ (1 - np.eye(shares.shape[1]))).ravel()[self.position]
        with np.errstate(divide="ignore"):
            odds = log_posterior.ravel()[self.position] - evidence.log_odds - np.log(rest)
        odds = np.nan_to_num(odds, nan=0.0, posinf=LARGEST_LOG_ODDS, neginf=-LARGEST_LOG_ODDS)
        at_zero, at_one = self.coin.label_line(0.5 * (1 + np.tanh(0.5 * odds)))
        return SkillLikelihood(at_zero, at_one, self.coin.weight)
