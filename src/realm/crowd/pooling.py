"""How alike the annotators of a task are: the priors that draw those with few labels to the rest.

Both priors are fitted by marginal likelihood, so that nothing is left to choose: a Beta distribution of mixture
weights, and the strength of Dirichlet distributions around given means. What comes back counts labels, as if that many
had been seen beforehand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from realm.crowd.coin import TINY
from realm.crowd.evidence import Floats, Indices
from realm.crowd.intervals import Grid, pool_densities, scaled

POINTS = 32
"""Points of the grid of mixture weights: a prior needs no tails."""
STRENGTHS = 2.0 ** np.arange(-1, 11)
"""Strengths that are considered: worth half a label to a thousand, by factors of two."""
AT_ONCE = 4096
"""Counts times strengths that are looked at together: arrays that stay in the cache."""
MOST_ANNOTATIONS = 200_000
"""Annotations that a pool of mixture weights is fitted to at most, evenly chosen: two numbers need no more."""
MOST_LABELS = 20.0
"""Labels that a pool of mixture weights is worth at most, however alike annotators look: it is fitted again and again
while the model learns, and must not hold them where they are."""


def mixture_pool(
    p: Floats, guess: Floats, pair: Indices, group: Indices, n_groups: int, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """The Beta(a, b) prior on mixture weights that best explains the annotators of each group. Shapes (n_groups,).

    | argument | shape | meaning |
    |---|---|---|
    | p, guess | (annotations,) | P(label) if it is read off the item, and if it is not |
    | pair | (annotations,) | who gave it; `group` (pairs,) is the group (the task) that each pair belongs to |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |

    Pools are averaged by how well they explain the annotators: the single best one is far too sure of itself where the
    labels say little yet, and would hold everybody at one value. a and b are 1 and more. A group without annotations
    has Beta(1, 1).
    """
    weight = np.ones(len(pair)) if weight is None else weight
    if len(pair) > MOST_ANNOTATIONS:
        rows = np.linspace(0, len(pair) - 1, MOST_ANNOTATIONS).astype(np.int64)
        p, guess, pair, weight = p[rows], guess[rows], pair[rows], weight[rows]
    grid = Grid(POINTS)
    logs = np.stack(
        [
            np.bincount(pair, weight * np.log(np.maximum(beta * p + (1 - beta) * guess, TINY)), minlength=len(group))
            for beta in grid.points
        ],
        axis=1,
    )
    means, weights, densities = pool_densities(POINTS, 0.0)
    weak = weights <= MOST_LABELS
    means, weights, densities = means[weak], weights[weak], densities[weak]
    present = np.bincount(pair, minlength=len(group)) > 0
    a, b = np.ones(n_groups), np.ones(n_groups)
    for index in np.unique(group[present]):
        likelihoods = scaled(logs[present & (group == index)])
        fits = np.log(np.maximum(likelihoods @ densities.T, TINY)).sum(axis=0)
        plausible = np.exp(fits - fits.max())
        plausible /= plausible.sum()
        a[index], b[index] = 1 + plausible @ (means * weights), 1 + plausible @ ((1 - means) * weights)
    return a, b


def dirichlet_strength(counts: Floats, means: npt.ArrayLike) -> float:
    """The strength of Dirichlet distributions around `means`, averaged by the marginal likelihood of the counts.

    The arguments are those of `dirichlet_fits`. The average is that of the logarithm, over `STRENGTHS`.
    """
    fits = dirichlet_fits(counts, means)
    plausible = np.exp(fits - fits.max())
    return float(np.exp((plausible @ np.log(STRENGTHS)) / plausible.sum()))


def dirichlet_fits(counts: Floats, means: npt.ArrayLike) -> Floats:
    """The log marginal likelihood of counts (n, K) under Dirichlets around `means`, at each of `STRENGTHS`.

    `means` broadcasts to the counts; options with a mean of 0 are left out.
    """
    means = np.broadcast_to(np.asarray(means, np.float64), counts.shape)
    inside = means > 0
    seen = np.where(inside, counts, 0.0)
    totals = seen.sum(axis=1)
    # Many strengths at once: on a small table a call of numpy costs more than what it computes.
    step = max(AT_ONCE // max(counts.size, 1), 1)
    fits: list[float] = []
    for start in range(0, len(STRENGTHS), step):
        shares = np.where(inside, STRENGTHS[start : start + step, None, None] * means, 1.0)  # (strengths, n, K)
        fit = np.where(inside, gammaln(seen + shares) - gammaln(shares), 0.0)
        whole = np.where(inside, shares, 0.0).sum(axis=2)
        rest = gammaln(whole) - gammaln(totals + whole)  # (strengths, n)
        fits.extend(float(here.sum() + there.sum()) for here, there in zip(rest, fit, strict=True))
    return np.array(fits)
