"""Evidence, and the two things made of it: the posterior of every item and the joint likelihood of all annotations.

Evidence is E[a, k] = log P(label of annotation a | option k is true). It comes from an annotator model, which is one
file, such as `realm.crowd.coin`; nothing here asks which model it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.errors import RealmError

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCK = 32768
"""Numbers per block in `softmax_rows`: 256 kB of float64, which stays in a core's second-level cache."""
SHORTEST_BLOCK = 256
"""Rows per block at least, so that numpy's cost per call stays small where items have many options."""


class Evidence(ABC):
    """E[a, k] of all annotations of a table, each times the weight of its annotation.

    How it is stored is up to the annotator model; no model needs an array of annotations x options.
    """

    @property
    @abstractmethod
    def constant(self) -> float:
        """The evidence that `item_sums` leaves out because all options of an item share it, summed over everything."""

    @abstractmethod
    def item_sums(self, position: Indices, shape: tuple[int, int]) -> Floats:
        """The evidence of each item's annotations for each option, less what all its options share. (items, Kmax)

        `position` (annotations,) is where an annotation's (item, label) falls in a flat array of that shape.
        """


@dataclass(frozen=True, eq=False)
class LabelEvidence(Evidence):
    """Evidence that tells the annotation's label from the other options, and those not from each other.

    Such is that of a coin and of a habit: two numbers per row, where a row is what annotations with the same evidence
    share (an annotator and a number of options, and with a habit the label).

    | field | shape | meaning |
    |---|---|---|
    | own | (rows,) | log P(label | the label is true) |
    | other | (rows,) | log P(label | another option is true) |
    | row | (annotations,) or None | the row of each annotation; None: one row per annotation |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    | row_weights | (rows,) or None | the sum of `weight` over each row, where it is known already |
    """

    own: Floats
    other: Floats
    row: Indices | None = None
    weight: Floats | None = None
    row_weights: Floats | None = None

    @cached_property
    def log_odds(self) -> Floats:
        """What each annotation adds to the log-odds of its label against every other option. Shape (annotations,)."""
        odds = self.own - self.other
        odds = odds if self.row is None else odds[self.row]
        return odds if self.weight is None else odds * self.weight

    @cached_property
    def constant(self) -> float:
        if self.row_weights is not None:
            return float(self.other @ self.row_weights)
        other = self.other if self.row is None else self.other[self.row]
        return float(other.sum() if self.weight is None else other @ self.weight)

    def item_sums(self, position: Indices, shape: tuple[int, int]) -> Floats:
        sums = np.bincount(position, self.log_odds, minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)


class AnnotatorModel(Protocol):
    """How annotators turn the truth into labels, for all annotations of a table, and what EM needs to learn it.

    `parameters` is one array; for the joint likelihood its first axis is the (annotator, task) pair. A prior on the
    parameters is the model's own.
    """

    def evidence(self, parameters: Floats) -> Evidence:
        """The evidence of all annotations."""

    def update(self, parameters: Floats, posterior: Floats, position: Indices) -> Floats:
        """The M-step: the most probable parameters, given the posterior of every item at the present ones.

        `posterior` is (items, Kmax), and `position` (annotations,) where in it, flat, an annotation's own label stands.
        """


# -------------------------------------------------------------------- the posterior of every item


def check_log_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """log_probs normalised over each item's own options, -inf beyond them. Shape (items, Kmax), float64."""
    scores = np.asarray(log_probs, dtype=np.float64)
    counts = annotations.option_counts
    widest = int(counts.max(initial=0))
    if scores.ndim != 2 or scores.shape[0] != annotations.n_items or scores.shape[1] < widest:
        raise RealmError(
            f"`log_probs` must have shape ({annotations.n_items}, {widest}): a row per item, a column per option; "
            f"it has {scores.shape}."
        )
    scores = np.where(np.arange(scores.shape[1]) < counts[:, None], scores, -np.inf)
    if np.isnan(scores).any() or (scores == np.inf).any() or (scores.max(axis=1, initial=-np.inf) == -np.inf).any():
        raise RealmError("`log_probs`: every item needs one option with a finite log-probability, and no NaN.")
    return log_softmax_rows(scores)


def label_positions(annotations: Annotations, width: int) -> Indices:
    """Where each annotation's (item, label) falls in a flat (items, width) array. Shape (annotations,)."""
    return annotations.item.astype(np.int64) * width + annotations.label


def posterior(annotations: Annotations, log_probs: npt.ArrayLike, evidence: Evidence) -> Floats:
    """P(true label = k | everything) = softmax over k of log P(k|Q) + sum over the item's annotations of E[a, k].

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | log P(k|Q) of the model; ignored beyond an item's own options |
    | evidence | of all annotations | log P(label | k is true), e.g. `realm.crowd.coin.expertise_evidence` |

    Returns (items, Kmax), rows summing to 1 and zero beyond an item's own options.

    Examples:
        >>> import pandas as pd
        >>> from realm.crowd.coin import expertise_evidence
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> posterior(table, np.log([[0.5, 0.5]]), expertise_evidence(table, [[0.8], [0.0]])).round(2).tolist()
        [[0.9, 0.1]]
    """
    scores = check_log_probs(annotations, log_probs)
    if scores.size:
        scores += evidence.item_sums(label_positions(annotations, scores.shape[1]), scores.shape)
        softmax_rows(scores)
    return scores


# -------------------------------------------------------------------- the joint likelihood


@dataclass(frozen=True, eq=False)
class JointLikelihood:
    """The joint likelihood of all annotations under an annotator model, with the model's P as each item's prior.

    For one item it is sum_k P(k|Q) exp(sum over its annotations of E[a, k]). `log_probs` (items, Kmax) is normalised.
    """

    annotations: Annotations
    log_probs: Floats
    model: AnnotatorModel

    @cached_property
    def position(self) -> Indices:
        """Where each annotation's (item, label) falls in a flat (items, Kmax) array. Shape (annotations,)."""
        return label_positions(self.annotations, self.log_probs.shape[1])

    def scores(self, evidence: Evidence) -> Floats:
        """log P(k|Q) plus the evidence of the item's annotations, less what all its options share. (items, Kmax)"""
        return self.log_probs + evidence.item_sums(self.position, self.log_probs.shape)

    def e_step(self, evidence: Evidence) -> tuple[Floats, float]:
        """The posterior of every item (items, Kmax), and the log-likelihood."""
        posterior = self.scores(evidence)
        return posterior, softmax_rows(posterior) + evidence.constant

    def log_likelihood(self, parameters: Floats) -> float:
        """The joint log-likelihood of all annotations at parameters of the annotator model."""
        return self.e_step(self.model.evidence(parameters))[1]

    def fit(
        self,
        start: Floats,
        *,
        fixed: Bools | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Floats:
        """EM from the parameters `start` to a maximum of the joint likelihood times their prior, which no step lowers.

        Pairs in `fixed` (pairs,) keep their start. EM ends after `max_iter` iterations, or when no parameter moves by
        `tol`.
        """
        parameters = start
        for _ in range(max_iter):
            posterior, _ = self.e_step(self.model.evidence(parameters))
            before, parameters = parameters, self.model.update(parameters, posterior, self.position)
            if fixed is not None:
                parameters[fixed] = start[fixed]
            if np.abs(parameters - before).max(initial=0.0) < tol:
                break
        return parameters


# -------------------------------------------------------------------- softmax


def log_softmax_rows(scores: Floats) -> Floats:
    """Each row less the log of the sum of its exponentials. (items, Kmax); a row needs one finite number."""
    if not scores.size:
        return scores
    top = scores.max(axis=1, keepdims=True)
    normalised: Floats = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    return normalised


def softmax_rows(scores: Floats) -> float:
    """Turn log P(truth = k, labels) (items, Kmax) into the posterior, in place; return the summed log-likelihood.

    Works column by column over blocks that stay in the cache: a reduction over a handful of options, row by row, costs
    numpy more than the exponentials themselves.
    """
    n_items, n_options = scores.shape
    step = max(BLOCK // max(n_options, 1), SHORTEST_BLOCK)
    log_likelihood = 0.0
    for start in range(0, n_items, step):
        block = scores[start : start + step]
        columns = [block[:, option] for option in range(n_options)]
        peak = columns[0].copy()
        for column in columns[1:]:
            np.maximum(peak, column, out=peak)
        for column in columns:
            column -= peak
        np.exp(block, out=block)
        total = columns[0].copy()
        for column in columns[1:]:
            total += column
        log_likelihood += float(peak.sum() + np.log(total).sum())
        np.reciprocal(total, out=total)
        for column in columns:
            column *= total
    return log_likelihood
