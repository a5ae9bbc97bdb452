"""The figures of the tables against closed forms."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from realm.comparison.significance import Summary, contrast, count_wins, paired_t_test, rank_correlation

NAMES = ("realm", "noisy")


def test_spread_is_that_of_a_sample() -> None:
    summary = Summary.of([0.1, 0.2, 0.6, math.nan])
    assert summary is not None and summary.seeds == 3
    assert summary.mean == pytest.approx(0.3)
    assert summary.std == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2))
    one = Summary.of([0.4])
    assert one is not None and math.isnan(one.std), "one seed has no spread"
    assert Summary.of([math.nan]) is None and Summary.of([]) is None


def test_a_contrast_pairs_seeds_and_leaves_out_what_is_missing() -> None:
    first = np.array([0.8, 0.7, 0.9, np.nan, 0.5])
    second = np.array([0.7, 0.7, 0.6, 0.1, 0.6])
    made = contrast(NAMES, first, second)
    assert made is not None
    assert (made.seeds, made.ahead, made.behind, made.signs) == (4, 2, 1, "+2 -1")
    assert made.delta == pytest.approx((0.1 + 0.0 + 0.3 - 0.1) / 4)
    known = [0, 1, 2, 4]
    assert made.p_seeds == pytest.approx(ttest_rel(first[known], second[known]).pvalue)
    assert not made.unanimous and made.low is None
    assert contrast(NAMES, np.array([np.nan]), np.array([0.5])) is None


@pytest.mark.filterwarnings("error")
def test_one_difference_on_every_seed_is_certain_up_to_rounding() -> None:
    first, second = np.array([0.8, 0.3]), np.array([0.7, 0.2])
    assert np.ptp(first - second) > 0  # one difference but for its last digit
    assert paired_t_test(first, second) == 0
    assert paired_t_test(first, first + np.array([0, 1e-16])) == 1
    second = np.array([0.83, 0.22])
    assert paired_t_test(first, second) == pytest.approx(ttest_rel(first, second).pvalue)
    assert paired_t_test(first[:1], second[:1]) is None


def test_items_give_an_interval_around_the_difference() -> None:
    generator = np.random.default_rng(0)
    right = generator.random((2, 3, 400)) < np.array([0.9, 0.7])[:, None, None]
    made = contrast(NAMES, right[0].mean(1), right[1].mean(1), (right[0], right[1]))
    assert made is not None and made.low is not None and made.high is not None
    assert made.low < made.delta < made.high and made.low > 0
    assert made.p_items == 0.0


def test_wins_are_counted_by_mean_and_by_significance() -> None:
    seeds = np.arange(5) / 1000
    clear = contrast(NAMES, 0.8 + seeds, 0.5 - seeds)
    lost = contrast(NAMES, 0.5 - seeds, 0.8 + seeds)
    unclear = contrast(NAMES, np.array([0.5, 0.7, 0.4, 0.6, 0.5]), np.array([0.6, 0.5, 0.5, 0.5, 0.5]))
    equal = contrast(NAMES, 0.5 + seeds, 0.5 + seeds)
    assert clear and lost and unclear and equal
    wins = count_wins([clear, clear, lost, unclear, equal])
    assert (wins.configurations, wins.ahead, wins.behind) == (5, 3, 1)
    assert (wins.better, wins.worse, wins.undecided, wins.unanimous) == (2, 1, 2, 3)


def closed_form(truth: list[float]) -> float:
    """sqrt(1 - sum (t^3 - t) / (n^3 - n)), t over the sizes of the tied groups."""
    sizes, n = [truth.count(value) for value in set(truth)], len(truth)
    return math.sqrt(1 - sum(t**3 - t for t in sizes) / (n**3 - n))


def test_the_paper_pools_have_their_known_maxima() -> None:
    for pool in ([0.9, 0.1, 0.1], [0.9, 0.9, 0.1]):
        assert closed_form(pool) == pytest.approx(math.sqrt(3) / 2)  # the paper's 0.87
        assert rank_correlation(pool, [0.8, 0.3, 0.2])[1] == pytest.approx(closed_form(pool))
    assert rank_correlation([0.9, 0.5, 0.1], [0.8, 0.3, 0.2]) == pytest.approx((1.0, 1.0))


@given(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.9]), min_size=3, max_size=12), st.randoms())
def test_the_maximum_under_ties_has_a_closed_form_and_is_never_passed(truth: list[float], chance: Random) -> None:
    assume(len(set(truth)) > 1)
    shuffled = list(range(len(truth)))
    chance.shuffle(shuffled)
    found, best = rank_correlation(truth, shuffled)
    assert found is not None and best is not None
    assert best == pytest.approx(closed_form(truth))
    assert found <= best + 1e-12
