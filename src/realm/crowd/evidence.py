"""Evidence: log P(label | truth = k) of every annotation, and the one place where it is added up per item.

Everything that judges items or annotators takes evidence and does not ask which annotator model it came from. An
annotator model is a small object such as `realm.crowd.coin.Coin`: `evidence(parameters)` gives the evidence of all
annotations, `update(parameters, ...)` is the M-step of its EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCK = 32768
"""Numbers per block in `softmax_rows`: 256 kB of float64, which stays in a core's second-level cache."""
SHORTEST_BLOCK = 256
"""Rows per block at least, so that numpy's cost per call stays small where items have many options."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """E[a, k] = log P(label of annotation a | option k is true), times the weight of the annotation.

    Stored as two numbers per row, because a coin (as a habit) says the same of every option but the label itself. A row
    is what annotations with the same evidence share: an annotator and a number of options. So ten million annotations
    never become an array of annotations x options.

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
        """The evidence that all options of an item share, summed over all annotations: part of the log-likelihood."""
        if self.row_weights is not None:
            return float(self.other @ self.row_weights)
        other = self.other if self.row is None else self.other[self.row]
        return float(other.sum() if self.weight is None else other @ self.weight)

    def item_sums(self, position: Indices, shape: tuple[int, int]) -> Floats:
        """The evidence of each item's annotations for each option, less what all its options share. (items, Kmax)

        `position` (annotations,) is where an annotation's (item, label) falls in a flat array of that shape.
        """
        sums = np.bincount(position, self.log_odds, minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)


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
