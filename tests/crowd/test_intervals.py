from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from realm.crowd import intervals
from realm.crowd.coin import Coin
from realm.crowd.estimate import estimate
from realm.crowd.evidence import JointLikelihood, posterior
from realm.crowd.habit import Habit, HabitLines, habit_evidence
from realm.crowd.intervals import Grid, SkillLikelihood, leave_one_out

from .crowds import mixed, simulate, table


def counted(right: int, wrong: int) -> SkillLikelihood:
    """Annotations of items whose truth is known: K = 2."""
    agrees = np.array([1.0] * right + [0.0] * wrong)
    return SkillLikelihood(at_zero=1 - agrees, at_one=agrees)


def test_leave_one_out_is_the_likelihood_with_that_annotation_taken_away():
    joint = mixed()
    made, habit = joint.annotations, Habit.of(joint.annotations)
    rng = np.random.default_rng(1)
    skill = rng.uniform(0.3, 0.9, habit.n_pairs)
    xi = rng.dirichlet(np.full(habit.width, 9.0), habit.n_pairs)
    lines = HabitLines(habit.habits(xi).reshape(-1)[habit.row], habit.lowest[habit.pair])
    likelihood = leave_one_out(joint, lines, skill[habit.pair])
    beta = (habit.lowest + (1 - habit.lowest) * skill).reshape(made.n_annotators, 2)
    habits = xi.reshape(made.n_annotators, 2, -1)
    for j in range(0, made.n_annotations, 7):
        without = made.keep_annotations(np.arange(made.n_annotations) != j)
        share = posterior(without, joint.log_probs, habit_evidence(without, beta, habits))[made.item[j], made.label[j]]
        own = xi[habit.pair[j], : made.option_counts[made.item[j]]]
        for t, found in ((0.0, likelihood.at_zero[j]), (1.0, likelihood.at_one[j])):
            b = habit.lowest[habit.pair[j]] * (1 - t) + t
            assert found == pytest.approx(b * share + (1 - b) * own[made.label[j]] / own.sum(), abs=1e-12)


def test_a_sure_posterior_still_leaves_ones_own_label_out():
    made = table([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, options=2)
    joint = JointLikelihood(made, np.log([[1 - 1e-15, 1e-15]]), Coin.of(made))
    coins = HabitLines(guess=np.full(2, 0.5), lowest=np.full(2, -1.0))
    likelihood = leave_one_out(joint, coins, np.array([0.999999, 0.999999]))
    assert likelihood.at_one[0] == pytest.approx(1e9 / (1e9 + 1), rel=1e-3)
    assert likelihood.at_one[1] == pytest.approx(1e-21, rel=0.3)


@given(st.integers(0, 3000), st.floats(0, 1), st.floats(1, 6), st.floats(1, 6))
@settings(max_examples=60, deadline=None)
def test_with_the_truth_known_the_posterior_is_the_beta_distribution(n, share, a, b):
    right = round(n * share)
    grid = Grid.fine_enough(n, spacing=0.5, largest=1024)
    logs = intervals.log_likelihood(grid, counted(right, n - right), np.zeros(n, np.int64), 1)
    mass = intervals.with_prior(grid, logs, np.array([a]), np.array([b]))
    exact = stats.beta(a + right, b + n - right)
    assert (mass @ grid.points)[0] == pytest.approx(exact.mean(), abs=2e-3)
    for level in (0.025, 0.5, 0.975):
        assert grid.quantile(mass, level)[0] == pytest.approx(exact.ppf(level), abs=0.05 * exact.std() + 1e-3)


def test_likelihood_is_the_same_however_it_is_cut_into_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    likelihood = SkillLikelihood(at_zero=rng.random(500), at_one=rng.random(500))
    pair = np.sort(rng.integers(0, 20, 500))
    grid = Grid(64)
    whole = intervals.log_likelihood(grid, likelihood, pair, 22)
    monkeypatch.setattr(intervals, "CHUNK_SIZE", 64 * 7)
    np.testing.assert_allclose(intervals.log_likelihood(grid, likelihood, pair, 22), whole)
    lines = np.log(np.outer(likelihood.at_zero, 1 - grid.points) + np.outer(likelihood.at_one, grid.points))
    np.testing.assert_allclose(whole[3], lines[pair == 3].sum(axis=0))
    assert (whole[20:] == 0).all()


def test_without_own_divides_the_annotation_out_of_its_annotators_posterior():
    likelihood = counted(7, 3)
    grid = Grid(400)
    pair = np.zeros(10, np.int64)
    logs = intervals.log_likelihood(grid, likelihood, pair, 1)
    mass = intervals.with_prior(grid, logs, np.array([2.0]), np.array([2.0]))
    found = intervals.mean_without_own(grid, likelihood, pair, mass)
    assert found[0] == pytest.approx(8 / 13, abs=1e-3)
    assert found[-1] == pytest.approx(9 / 13, abs=1e-3)


def test_the_pooled_posterior_averages_over_pools():
    """Against the hierarchical model integrated by scipy, for two annotators with known truth."""
    counts = [(9, 1), (3, 3)]
    grid = Grid(200)
    likelihood = SkillLikelihood(
        *(np.concatenate([getattr(counted(*c), f) for c in counts]) for f in ("at_zero", "at_one"))
    )
    logs = intervals.log_likelihood(grid, likelihood, np.array([0] * 10 + [1] * 6), 2)
    mass = intervals.pooled(grid, logs, 0.25)
    weight = np.linspace(2**-0.5, 64**-0.5, intervals.POOL_WEIGHT_STEPS) ** -2
    mean = 0.25 + 0.75 * (np.arange(intervals.POOL_MEANS) + 0.5) / intervals.POOL_MEANS
    expected, total = np.zeros(2), 0.0
    for w in weight:
        for m in mean:
            a, b = m * w, (1 - m) * w
            seen = np.prod([np.exp(stats.betabinom(r + f, a, b).logpmf(r)) for r, f in counts])
            expected += seen * np.array([(a + r) / (w + r + f) for r, f in counts])
            total += seen
    np.testing.assert_allclose(mass @ grid.points, expected / total, atol=2e-3)


def test_a_wide_and_a_narrow_pool_pull_differently():
    grid = Grid(128)

    def third_of_three(others: list[tuple[int, int]]) -> float:
        counts = [*others, (2, 2)]
        likelihood = SkillLikelihood(
            *(np.concatenate([getattr(counted(*c), f) for c in counts]) for f in ("at_zero", "at_one"))
        )
        pair = np.repeat(np.arange(len(counts)), [r + w for r, w in counts])
        mass = intervals.pooled(grid, intervals.log_likelihood(grid, likelihood, pair, len(counts)), 0.5)
        return float((mass @ grid.points)[-1])

    assert third_of_three([(90, 10)] * 20) > 0.8, "twenty alike annotators say what the next is like"
    assert 0.45 < third_of_three([(95, 5), (5, 95)] * 10) < 0.6, "a scattered pool says little"


def test_density_integrates_the_beta():
    grid = Grid(300)
    mass = grid.density(3.0, 2.0)
    edge = np.sin(np.arange(301) / 300 * np.pi / 2) ** 2
    expected = [quad(stats.beta(3, 2).pdf, edge[g], edge[g + 1])[0] for g in (10, 150, 290)]
    np.testing.assert_allclose(mass[[10, 150, 290]], expected, rtol=1e-3, atol=1e-6)


SETTINGS = [
    {"annotators": 30, "labels_each": 10, "per_item": 3, "options": 2, "pool": (8, 2)},
    {"annotators": 10, "labels_each": 40, "per_item": 1, "options": 4, "pool": (4, 2)},
    {"annotators": 20, "labels_each": 20, "per_item": 5, "options": 3, "pool": (8, 3)},
    {"annotators": 6, "labels_each": 100, "per_item": 2, "options": 5, "pool": (6, 2)},
]


def test_intervals_cover_and_pooling_beats_the_raw_estimate():
    """The small version of benchmarks/coverage.py: P known, averaged over annotators drawn from the pool."""
    covered, pooled, raw = [], [], []
    for row, setting in enumerate(SETTINGS):
        for seed in range(min(700 // setting["annotators"], 40)):
            crowd = simulate(1000 * row + seed, **setting)
            found = estimate(crowd.annotations, crowd.log_probs)
            seen = found.annotations[:, 0] > 0
            inside = (crowd.accuracy >= found.low[:, 0]) & (crowd.accuracy <= found.high[:, 0])
            covered.append(np.mean(inside[seen]))
            few = seen & (found.annotations[:, 0] < 20)
            coin = Coin.of(crowd.annotations)
            plain = JointLikelihood(crowd.annotations, crowd.log_probs, coin).fit(np.full(coin.n_pairs, 0.7))
            pooled.extend((found.accuracy[few, 0] - crowd.accuracy[few]) ** 2)
            raw.extend((plain[few] - crowd.accuracy[few]) ** 2)
    error = np.std(covered) / len(covered) ** 0.5
    assert error < 0.01
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(pooled) < 0.8 * np.mean(raw)
