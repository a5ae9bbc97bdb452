"""What the EM methods share: climbing until the objective settles, and turning log-probabilities into posteriors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from realm.aggregation.votes import Floats, Votes
from realm.errors import RealmError

FLOOR = 1e-10
CHUNK = 32768


def climb(step: Callable[[], tuple[float, float]], max_iter: int, tol: float, n_annotations: int) -> list[float]:
    """Run EM iterations; return the log-likelihood at each.

    `step` does one E-step and one M-step and returns the log-likelihood and the objective (with any prior on the
    parameters) as they were at its E-step. The climb ends after `max_iter` steps, or when the objective per annotation
    rises by less than `tol` (0: never).
    """
    if max_iter < 1 or tol < 0:
        raise RealmError(f"max_iter must be 1 or more and tol 0 or more, not {max_iter} and {tol}.")
    likelihoods: list[float] = []
    previous = -np.inf
    for _ in range(max_iter):
        likelihood, objective = step()
        likelihoods.append(likelihood)
        if tol and objective - previous < tol * n_annotations:
            break
        previous = objective
    return likelihoods


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
