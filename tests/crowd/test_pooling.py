"""The priors that draw annotators to the pool, against marginal likelihoods added up in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln

from realm.crowd.intervals import POOL_MEANS, POOL_WEIGHT_STEPS, POOL_WEIGHTS
from realm.crowd.pooling import MOST_LABELS, STRENGTHS, dirichlet_strength, mixture_pool


def test_the_pool_of_mixture_weights_is_the_mean_over_pools_by_their_marginal_likelihood() -> None:
    rng = np.random.default_rng(0)
    pair = np.repeat(np.arange(5), 4)
    p, guess, weight = rng.random(20), rng.uniform(0.2, 0.5, 20), rng.uniform(0.5, 2.0, 20)
    a, b = mixture_pool(p, guess, pair, np.zeros(5, np.int64), 1, weight)

    def marginal(mean: float, strength: float) -> float:
        total, right, wrong = 0.0, mean * strength, (1 - mean) * strength
        for one in range(5):
            rows = pair == one

            def density(beta: float, rows: np.ndarray = rows) -> float:
                likelihood = np.prod((beta * p[rows] + (1 - beta) * guess[rows]) ** weight[rows])
                return float(likelihood * beta ** (right - 1) * (1 - beta) ** (wrong - 1))

            total += np.log(quad(density, 0, 1, limit=200)[0]) - betaln(right, wrong)
        return total

    weights = np.linspace(POOL_WEIGHTS[0] ** -0.5, POOL_WEIGHTS[1] ** -0.5, POOL_WEIGHT_STEPS) ** -2
    pools = [
        (mean, strength)
        for mean in (np.arange(POOL_MEANS) + 0.5)[2:-2:4] / POOL_MEANS
        for strength in weights[weights <= MOST_LABELS][::3]
    ]
    fits = np.array([marginal(*pool) for pool in pools])
    plausible = np.exp(fits - fits.max()) / np.exp(fits - fits.max()).sum()
    expected = 1 + plausible @ np.array([(m * s, (1 - m) * s) for m, s in pools])
    # Every fourth mean and every third strength is looked at here.
    np.testing.assert_allclose([a[0], b[0]], expected, rtol=0.15)


def test_alike_annotators_make_a_strong_pool_and_different_ones_a_weak_one() -> None:
    rng = np.random.default_rng(1)
    pair = np.repeat(np.arange(30), 100)

    def pool(betas: np.ndarray) -> tuple[float, float]:
        read = rng.random(len(pair)) < betas[pair]
        p = np.where(read | (rng.random(len(pair)) < 0.25), 0.97, 0.01)
        a, b = mixture_pool(p, np.full(len(pair), 0.25), pair, np.zeros(30, np.int64), 1)
        return float(a[0] + b[0] - 2), float((a[0] - 1) / (a[0] + b[0] - 2))

    alike, mean = pool(np.full(30, 0.7))
    different, _ = pool(rng.uniform(0, 1, 30))
    assert mean == pytest.approx(0.7, abs=0.05)
    assert MOST_LABELS >= alike > 3 * different and different < 4
    # Groups have pools of their own, and one that nobody is in is flat.
    a, b = mixture_pool(np.full(4, 0.9), np.full(4, 0.5), np.array([0, 0, 1, 1]), np.array([0, 2]), 3)
    assert a[1] == b[1] == 1.0 and a[0] > b[0] and a[2] > b[2]


def test_many_annotations_are_thinned_evenly() -> None:
    rng = np.random.default_rng(2)
    pair = rng.integers(50, size=500_000)
    betas = rng.beta(8, 4, 50)
    p = np.where(rng.random(len(pair)) < betas[pair] + (1 - betas[pair]) / 2, 0.95, 0.05)
    a, b = mixture_pool(p, np.full(len(pair), 0.5), pair, np.zeros(50, np.int64), 1)
    assert (a[0] - 1) / (a[0] + b[0] - 2) == pytest.approx(2 / 3, abs=0.08)


def test_the_strength_of_a_dirichlet_is_averaged_by_its_marginal_likelihood() -> None:
    """At two options the Dirichlet-multinomial is a Beta-binomial, whose marginal likelihood is two Beta functions."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 12, (8, 2)).astype(float)
    means = np.array([0.7, 0.3])
    fits = np.array([(betaln(*(counts + s * means).T) - betaln(*(s * means))).sum() for s in STRENGTHS])
    plausible = np.exp(fits - fits.max())
    expected = np.exp(plausible @ np.log(STRENGTHS) / plausible.sum())
    assert dirichlet_strength(counts, means) == pytest.approx(expected)
    # An option that nobody can choose takes no part.
    wide = np.column_stack([counts, np.zeros(8)])
    assert dirichlet_strength(wide, [0.7, 0.3, 0.0]) == pytest.approx(expected)


@pytest.mark.parametrize("strength", [2.0, 16.0, 128.0])
def test_the_strength_that_counts_were_drawn_with_is_found(strength) -> None:
    rng = np.random.default_rng(4)
    means = np.array([0.5, 0.3, 0.2])
    counts = np.stack([rng.multinomial(200, row) for row in rng.dirichlet(strength * means, 200)]).astype(float)
    assert dirichlet_strength(counts, means) == pytest.approx(strength, rel=0.5)
