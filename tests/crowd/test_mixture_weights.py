from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from realm.crowd.mixture_weights import EDGE, solve
from realm.errors import RealmError


def by_scipy(p, guess, prior):
    def loss(beta):
        return -(
            np.log(beta * p + (1 - beta) * guess).sum()
            + (prior[0] - 1) * np.log(beta)
            + (prior[1] - 1) * np.log1p(-beta)
        )

    return minimize_scalar(loss, bounds=(EDGE, 1 - EDGE), method="bounded", options={"xatol": 1e-10}).x


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.05, 0.95), st.integers(0, 2)), max_size=40),
    st.tuples(st.floats(1.05, 4.0), st.floats(1.05, 4.0)),
)
@settings(max_examples=80, deadline=None)
def test_the_maximum_is_the_one_scipy_finds(annotations, prior):
    p, guess, pair = (np.array(column) for column in zip(*annotations, strict=True)) if annotations else ([], [], [])
    found = solve(p, guess, pair, 3, prior=prior)
    for c in range(3):
        mine = np.asarray(pair) == c
        best = by_scipy(np.asarray(p)[mine], np.asarray(guess)[mine], prior)
        assert found[c] == pytest.approx(best, abs=2e-5)


def test_without_a_prior_an_annotator_whose_labels_are_all_improbable_ends_at_the_edge():
    found = solve([0.01] * 5 + [0.99] * 5, 0.5, [0] * 5 + [1] * 5, 2, prior=(1.0, 1.0))
    assert found[0] == pytest.approx(0, abs=1e-5)
    assert found[1] == pytest.approx(1, abs=1e-5)


def test_it_is_a_fixed_point_of_the_em_responsibilities():
    rng = np.random.default_rng(0)
    p, cell = rng.beta(0.5, 0.5, 300), rng.integers(0, 4, 300)
    beta = solve(p, 1 / 3, cell, 4, prior=(2.0, 3.0))
    r = beta[cell] * p / (beta[cell] * p + (1 - beta[cell]) / 3)
    again = (np.bincount(cell, r) + 1) / (np.bincount(cell) + 3)
    np.testing.assert_allclose(again, beta, atol=1e-7)


def test_a_prior_below_one_is_refused():
    with pytest.raises(RealmError, match="1 or more"):
        solve([0.5], 0.5, [0], 1, prior=(0.5, 1.0))


def test_a_weight_counts_an_annotation_as_often():
    weighted = solve([0.9, 0.2, 0.6], 0.5, [0, 0, 0], 1, weight=[2.0, 1.0, 3.0])
    repeated = solve([0.9, 0.9, 0.2, 0.6, 0.6, 0.6], 0.5, [0] * 6, 1)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_p_recorded_before_training_tells_a_guesser_from_an_expert():
    rng = np.random.default_rng(1)
    n = 400
    truth_p = rng.beta(6, 1, n)
    expert = np.where(rng.random(n) < truth_p, truth_p, 1 - truth_p)
    guesser = np.where(rng.random(n) < 0.5, truth_p, 1 - truth_p)
    beta = solve(np.concatenate([expert, guesser]), 0.5, np.repeat([0, 1], n), 2)
    assert beta[0] > 0.9
    assert beta[1] < 0.2
