"""Accuracies and intervals: from each label's probability to be right, with the truth of the items integrated out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from realm.crowd import accuracy
from realm.crowd.accuracy import (
    accuracy_posterior,
    angle_grid,
    histogram,
    leave_one_out,
)
from realm.crowd.engine import log_softmax
from realm.crowd.estimate import estimate

from .crowds import simulate

NONE = np.full(1, np.nan)


def posterior_of(right: np.ndarray, options: float = 2, prior: tuple[float, float] | None = None):
    """The posterior of one annotator from the probabilities that their labels are right."""
    counts = histogram(right, np.zeros(len(right), int), 1, np.ones(len(right)))
    own = (NONE, NONE) if prior is None else (np.array([prior[0]]), np.array([prior[1]]))
    return accuracy_posterior(counts, options, 1 / options, np.zeros(1, int), *own)


# -------------------------------------------------------------------- each label by everything but itself


def test_leave_one_out_is_the_posterior_with_that_annotation_taken_away() -> None:
    rng = np.random.default_rng(0)
    item, weight = rng.integers(0, 6, 20), rng.uniform(0.3, 1.5, 20)
    log_prior, evidence = log_softmax(rng.normal(size=(6, 3))), rng.normal(size=(20, 3))
    found = leave_one_out(log_prior, evidence, item, weight)
    for row in range(20):
        others = (item == item[row]) & (np.arange(20) != row)
        expected = log_softmax(log_prior[item[row]] + (weight[others, None] * evidence[others]).sum(axis=0))
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


def test_copies_of_a_label_go_with_it() -> None:
    """Two copies count one half each: leaving out a whole weight leaves both out."""
    log_prior, evidence = np.log(np.array([[0.3, 0.7]])), np.log(np.array([[0.9, 0.2], [0.9, 0.2], [0.4, 0.8]]))
    found = leave_one_out(log_prior, evidence, np.zeros(3, int), np.array([0.5, 0.5, 1.0]), own=np.ones(3))
    alone = log_softmax(log_prior[0] + evidence[2])
    np.testing.assert_allclose(found[:2], [alone, alone], atol=1e-12)


# -------------------------------------------------------------------- the posterior of one annotator


@pytest.mark.parametrize(("n", "share"), [(10, 0.5), (40, 0.9), (400, 0.7), (5000, 0.98)])
def test_with_the_truth_known_and_a_prior_given_it_is_the_beta_distribution(n: int, share: float) -> None:
    right = (np.arange(n) < share * n).astype(float)
    found = posterior_of(right, prior=(0.6, 5.0))
    exact = stats.beta(3 + right.sum(), 2 + n - right.sum())
    assert found.mean[0] == pytest.approx(exact.mean(), abs=2e-3)
    for level in (0.025, 0.5, 0.975):
        assert found.quantile(level)[0] == pytest.approx(exact.ppf(level), abs=4e-3)


@pytest.mark.parametrize("options", [2, 4])
def test_the_truth_is_integrated_out(options: int) -> None:
    """Against the likelihood prod_i (a p_i + (1 - a)(1 - p_i)/(K - 1)) integrated by quadrature."""
    right = np.random.default_rng(options).beta(4, 1, 30)
    found = posterior_of(right, options, prior=(0.7, 10.0))

    def density(a: float) -> float:
        return float(np.prod(a * right + (1 - a) * (1 - right) / (options - 1)) * stats.beta(7, 3).pdf(a))

    total = integrate.quad(density, 0, 1)[0]
    mean = integrate.quad(lambda a: a * density(a), 0, 1)[0] / total
    assert found.mean[0] == pytest.approx(mean, abs=3e-3)
    assert integrate.quad(density, 0, found.quantile(0.2)[0])[0] / total == pytest.approx(0.2, abs=0.01)


def test_the_histogram_keeps_every_p_and_adds_up_over_shards() -> None:
    rng = np.random.default_rng(0)
    right, annotator, weight = rng.random(500), rng.integers(0, 4, 500), rng.uniform(0.5, 2, 500)
    whole = histogram(right, annotator, 4, weight)
    np.testing.assert_allclose(whole @ angle_grid(accuracy.NODES, ends=True), np.bincount(annotator, weight * right))
    shards = [histogram(right[rows], annotator[rows], 4, weight[rows]) for rows in np.array_split(np.arange(500), 7)]
    np.testing.assert_allclose(sum(shards), whole, atol=1e-9)


# -------------------------------------------------------------------- intervals cover


@pytest.mark.parametrize("options", [2, 4])
def test_intervals_cover_in_simulated_crowds(options: int) -> None:
    """Of 300 annotators 91% or more: by a 95% interval fewer are covered once in a hundred runs, and seeds are fixed.

    The share of right labels that annotators show is compared, which is what gold would show.
    """
    covered, widths = [], []
    for seed in range(10):
        crowd = simulate(seed, annotators=30, labels_each=60, per_item=5, options=options)
        found = estimate(crowd.annotations)
        covered.append((found.low[:, 0] <= crowd.accuracy) & (crowd.accuracy <= found.high[:, 0]))
        widths.append(found.high[:, 0] - found.low[:, 0])
    assert np.mean(covered) > 0.91
    assert np.mean(widths) < 0.4, "and say something"
