"""An expertise update with no learning rate: for fixed P the log-likelihood is concave in each beta, so solve for it.

Of the annotations of a pair (annotator and task), each with p = P(label|Q) as the model gave it *before* the step that
trained on it, the update finds the beta in (0, 1) that maximises

    sum log(beta p + (1 - beta) guess) + (a - 1) log beta + (b - 1) log(1 - beta)

with a Beta(a, b) prior, where `guess` is the probability of the label when the annotator does not look at the item: 1/K
for a uniform guess, xi(label) for a habit. In-sample p would reward memorisation: a model that has fitted a guesser's
labels gives them a high p, and the guesser looks expert.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Floats
from realm.errors import RealmError

PRIOR = (1.5, 1.5)
"""The Beta prior on beta: half a label for either side, enough to keep an annotator with few labels off 0 and 1."""
EDGE = 1e-6
"""How near to 0 and 1 a beta may come; omega stays within +-14."""
TINY = 1e-12
"""Stands for 0 in denominators."""


def solve(
    p: npt.ArrayLike,
    guess: npt.ArrayLike,
    pair: npt.ArrayLike,
    n_pairs: int,
    *,
    weight: npt.ArrayLike = 1.0,
    prior: tuple[npt.ArrayLike, npt.ArrayLike] = PRIOR,
    start: npt.ArrayLike | None = None,
    tol: float = 1e-9,
    max_iter: int = 100,
) -> Floats:
    """The most probable beta of each pair. Shape (n_pairs,), within (0, 1).

    | argument | shape | meaning |
    |---|---|---|
    | p | (annotations,) | P(label|Q) of each annotation, recorded before it was trained on |
    | guess | (annotations,) or scalar | P(label) under the guess: 1/K of its item, or a habit's share of the label |
    | pair | (annotations,) | the (annotator, task) pair that gave it, from 0 |
    | weight | (annotations,) or scalar | how much each annotation counts |
    | prior | two numbers or (n_pairs,) each | the Beta's a and b, 1 or more |
    | start | (n_pairs,) | betas to start from |

    Newton steps on the derivative, which falls throughout (the problem is concave); a step that leaves the interval in
    which the root is known to lie is replaced by its middle, so that it always converges.

    Examples:
        >>> solve([0.9, 0.9, 0.9, 0.1], 0.5, [0, 0, 0, 0], 1, prior=(1.0, 1.0)).round(3).tolist()
        [0.625]
    """
    right, wrong = (np.asarray(number, np.float64) - 1 for number in prior)
    if min(right.min(initial=0.0), wrong.min(initial=0.0)) < 0:
        raise RealmError(f"the prior of the expertise update must be Beta(a, b), a and b 1 or more, not {prior}.")
    pairs = np.asarray(pair, dtype=np.int64)
    guesses = np.broadcast_to(np.asarray(guess, np.float64), pairs.shape)
    gain = np.asarray(p, np.float64) - guesses
    weights = np.broadcast_to(np.asarray(weight, np.float64), pairs.shape)
    low, high = np.full(n_pairs, EDGE), np.full(n_pairs, 1 - EDGE)
    beta = np.full(n_pairs, 0.5) if start is None else np.clip(np.asarray(start, np.float64), 2 * EDGE, 1 - 2 * EDGE)
    for _ in range(max_iter):
        slope = gain / np.maximum(guesses + beta[pairs] * gain, TINY)
        first = np.bincount(pairs, weights * slope, minlength=n_pairs) + right / beta - wrong / (1 - beta)
        curvature = right / beta**2 + wrong / (1 - beta) ** 2
        curvature += np.bincount(pairs, weights * slope**2, minlength=n_pairs)
        low, high = np.where(first >= 0, beta, low), np.where(first <= 0, beta, high)
        step = beta + first / np.maximum(curvature, TINY)
        step = np.where((step >= low) & (step <= high), step, (low + high) / 2)
        change, beta = np.abs(step - beta).max(initial=0.0), step
        if change < tol:
            break
    return beta
