"""What the EM methods share: climbing until the objective settles, and turning log-probabilities into posteriors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.votes import UNKNOWN, Floats, Votes
from realm.errors import RealmError

FLOOR = 1e-10
CHUNK = 32768
POOL_PRIOR = 10
ANNOTATOR_PRIOR = 5


@dataclass
class Climb:
    """The log-likelihood and the objective (with any prior on the parameters) at the E-step of each iteration."""

    likelihoods: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)


def climb(step: Callable[[], tuple[float, float]], max_iter: int, tol: float, n_annotations: int) -> Climb:
    """Run EM iterations.

    `step` does one E-step and one M-step and returns the log-likelihood and the objective as they were at its E-step.
    The climb ends after `max_iter` steps, or when the objective per annotation rises by less than `tol` (0: never).
    """
    if max_iter < 1 or tol < 0:
        raise RealmError(f"max_iter must be 1 or more and tol 0 or more, not {max_iter} and {tol}.")
    path = Climb()
    previous = -np.inf
    for _ in range(max_iter):
        likelihood, objective = step()
        path.likelihoods.append(likelihood)
        path.objectives.append(objective)
        if tol and objective - previous < tol * n_annotations:
            break
        previous = objective
    return path


def need_overlap(found: Votes) -> None:
    """Refuse votes of which no two are about the same item, and none about one with gold."""
    gold = found.gold is not None and bool((found.gold[found.item] != UNKNOWN).any())
    if len(found.item) and not gold and np.bincount(found.item).max() < 2:
        raise RealmError(
            "no item has two annotations, and none has gold: every vote is unanimous, and EM would call everybody "
            "perfect. Collect a second label for some items."
        )


def gold_start(found: Votes) -> Floats | None:
    """The posterior (items, options) by votes weighed by each annotator's accuracy on gold; None without any gold.

    EM climbs to the nearest summit, and a vote that a clique has won lies on the wrong slope. The accuracies lean on
    the pool's, and the pool's on halfway between chance and certainty, so that a few unlucky gold items turn nothing.
    """
    if found.gold is None:
        return None
    truth = found.gold[found.item]
    known = truth != UNKNOWN
    if not known.any():
        return None
    counts = np.bincount(found.annotator[known], minlength=found.n_annotators)
    right = np.bincount(found.annotator[known & (truth == found.label)], minlength=found.n_annotators)
    hope = (1 + float((1 / np.maximum(found.option_counts, 2)).mean())) / 2
    pool = (right.sum() + POOL_PRIOR * hope) / (counts.sum() + POOL_PRIOR)
    accuracy = (right + ANNOTATOR_PRIOR * pool) / (counts + ANNOTATOR_PRIOR)
    posterior = found.cell_sums(np.log(accuracy / (1 - accuracy))[found.annotator]) + found.guesses
    normalise(posterior, found)
    return posterior


def normalise(logits: Floats, found: Votes) -> float:
    """Turn log P(truth = k, labels) (items, options) into the posterior, in place; return the log-likelihood.

    Options that an item lacks, and those that its gold rules out, get nothing.
    """
    if found.restricted is not None:
        rows, barred = found.restricted
        logits[rows] += barred
    # Column by column over blocks that stay in the cache: a reduction over a handful of options, row by row, costs
    # numpy more than the exponentials themselves.
    n_items, n_options = logits.shape
    step = max(CHUNK // n_options, 256)
    evidence = 0.0
    for start in range(0, n_items, step):
        block = logits[start : start + step]
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
        evidence += float(peak.sum() + np.log(total).sum())
        np.reciprocal(total, out=total)
        for column in columns:
            column *= total
    return evidence


def class_shares(posterior: Floats) -> Floats:
    """The mean over items of (items, options), column by column: over a long narrow array numpy is slow."""
    return np.array([posterior[:, option].mean() for option in range(posterior.shape[1])])


def log_priors(shares: Floats, met: npt.NDArray[np.bool_]) -> Floats:
    """Floored logs of the class shares (options,), but -inf for a class that nobody gave and no gold names.

    Such a class starts with no mass, and EM proper can never give it any; the floor alone would.
    """
    return np.where(met, np.log(np.maximum(shares, FLOOR)), -np.inf)
