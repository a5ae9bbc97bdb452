"""What the EM methods share: the loop, the start from gold, and turning log-probabilities into posteriors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays
from realm.crowd.evidence import Bools, Floats, softmax_rows
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

FLOOR = 1e-10
"""No class share and no entry of a confusion matrix is taken to be impossible because it was not met."""
POOL_PRIOR = 10
"""Labels that the hope of half-way between chance and certainty is worth against all gold labels together."""
ANNOTATOR_PRIOR = 5
"""Labels that the pool's accuracy on gold is worth against an annotator's own: a few unlucky ones decide nothing."""


@dataclass
class EMPath:
    """The log-likelihood and the objective (with any prior on the parameters) at the E-step of each iteration."""

    likelihoods: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)


def check_iterations(max_iter: int, tol: float) -> None:
    if max_iter < 1 or tol < 0:
        raise RealmError(f"`max_iter` must be 1 or more and `tol` 0 or more, not {max_iter} and {tol}.")


def run_em(step: Callable[[], tuple[float, float]], max_iter: int, tol: float, total_weight: float) -> EMPath:
    """Run EM iterations.

    `step` does one E-step and one M-step and returns the log-likelihood and the objective as they were at its E-step.
    EM ends after `max_iter` steps, or when the objective per annotation rises by less than `tol` (0: never).
    """
    check_iterations(max_iter, tol)
    path = EMPath()
    previous = -np.inf
    for _ in range(max_iter):
        likelihood, objective = step()
        path.likelihoods.append(likelihood)
        path.objectives.append(objective)
        if tol and objective - previous < tol * total_weight:
            break
        previous = objective
    return path


def need_overlap(arrays: AnnotationArrays) -> None:
    """Refuse annotations of which no two are about the same item, and none about one with gold."""
    gold = arrays.gold is not None and bool((arrays.gold[arrays.item] != UNKNOWN).any())
    if len(arrays.item) and not gold and np.bincount(arrays.item).max() < 2:
        raise RealmError(
            "no item has two annotations, and none has gold: every vote is unanimous, and EM would call everybody "
            "perfect. Collect a second label for some items."
        )


def gold_start(arrays: AnnotationArrays) -> Floats | None:
    """The posterior (items, options) given each annotator's accuracy on gold; None without any gold.

    EM finds the nearest maximum, and a majority that a clique has won is nearest to a wrong one. The accuracies are
    shrunk to the pool's, and the pool's to halfway between chance and certainty.
    """
    if arrays.gold is None:
        return None
    truth = arrays.gold[arrays.item]
    known = truth != UNKNOWN
    if not known.any():
        return None
    n = arrays.n_annotators
    counts = np.bincount(arrays.annotator, arrays.weighted(known.astype(np.float64)), minlength=n)
    right = np.bincount(arrays.annotator, arrays.weighted((truth == arrays.label).astype(np.float64)), minlength=n)
    hope = (1 + float((1 / np.maximum(arrays.option_counts, 2)).mean())) / 2
    pool = (right.sum() + POOL_PRIOR * hope) / (counts.sum() + POOL_PRIOR)
    accuracy = (right + ANNOTATOR_PRIOR * pool) / (counts + ANNOTATOR_PRIOR)
    posterior = arrays.coin.evidence(accuracy).item_sums(arrays.position, arrays.shape)
    normalise(posterior, arrays)
    return posterior


def normalise(scores: Floats, arrays: AnnotationArrays) -> float:
    """Turn log P(truth = k, labels) (items, options) into the posterior, in place; return the log-likelihood.

    Options that an item lacks, and those that its gold rules out, get nothing.
    """
    if arrays.restricted is not None:
        rows, barred = arrays.restricted
        scores[rows] += barred
    return softmax_rows(scores)


def class_shares(posterior: Floats) -> Floats:
    """The mean over items of (items, options), column by column: over a long narrow array numpy is slow."""
    return np.array([posterior[:, option].mean() for option in range(posterior.shape[1])])


def log_priors(shares: Floats, met: Bools) -> Floats:
    """Floored logs of the class shares (options,), but -inf for a class that nobody gave and no gold names.

    Such a class starts with no mass, and EM proper can never give it any; the floor alone would.
    """
    return np.where(met, np.log(np.maximum(shares, FLOOR)), -np.inf)
