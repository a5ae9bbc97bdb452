from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd.coin import Coin
from realm.crowd.evidence import JointLikelihood
from realm.crowd.habit import Habit, HabitPrior
from realm.data import Annotations

EVEN = 1e12
"""Labels that hold every habit at the prior's."""


def table(rng: np.random.Generator, n_items: int = 40, annotators: int = 5, options: int = 3) -> Annotations:
    item = np.repeat(np.arange(n_items), 3)
    frame = pd.DataFrame(
        {
            "text": item.astype(str),
            "annotator": [f"a{a}" for i in range(n_items) for a in rng.permutation(annotators)[:3]],
            "label": rng.integers(options, size=len(item)).astype(str),
        }
    )
    return Annotations.from_pandas(frame)


def own_options(rng: np.random.Generator, n_items: int = 60) -> Annotations:
    """Items that list two to four options of their own."""
    sizes = 2 + np.arange(n_items) % 3
    rows = [
        (str(i), "|".join(f"o{k}" for k in range(sizes[i])), f"a{a}", f"o{rng.integers(sizes[i])}")
        for i in range(n_items)
        for a in rng.permutation(5)[:3]
    ]
    frame = pd.DataFrame(rows, columns=["text", "options", "annotator", "label"])
    frame["options"] = frame["options"].str.split("|")
    return Annotations.from_pandas(frame)


def random_parameters(habit: Habit, rng: np.random.Generator) -> np.ndarray:
    xi = np.where(habit.inside, rng.dirichlet(np.ones(habit.width), habit.n_pairs) + 0.02, 0.0)
    xi /= xi.sum(axis=1, keepdims=True)
    least = np.where(habit.inside, xi, 1.0).min(axis=1)
    low = -least / (1 - least)
    return np.column_stack([low + (1 - low) * rng.uniform(0.02, 0.98, habit.n_pairs), xi])


@pytest.mark.parametrize("make", [table, own_options])
def test_e_step_against_the_formula_in_plain_loops(make) -> None:
    rng = np.random.default_rng(0)
    annotations = make(rng)
    habit = Habit.of(annotations)
    parameters = random_parameters(habit, rng)
    counts = annotations.option_counts
    log_probs = np.full((annotations.n_items, habit.width), -np.inf)
    for i, k in enumerate(counts):
        log_probs[i, :k] = np.log(rng.dirichlet(np.ones(k)))
    posterior, log_likelihood = JointLikelihood(annotations, log_probs, habit).e_step(habit.evidence(parameters))
    expected = 0.0
    for i, k_max in enumerate(counts):
        joint = [math.exp(log_probs[i, k]) for k in range(k_max)]
        for row in np.flatnonzero(annotations.item == i):
            a, y = annotations.annotator[row], annotations.label[row]
            beta, xi = parameters[a, 0], parameters[a, 1 : 1 + k_max] / parameters[a, 1 : 1 + k_max].sum()
            for k in range(k_max):
                joint[k] *= beta * (y == k) + (1 - beta) * xi[y]
        expected += math.log(sum(joint))
        np.testing.assert_allclose(posterior[i, :k_max], np.array(joint) / sum(joint), rtol=1e-9)
    assert log_likelihood == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 1000), st.sampled_from([2, 3, 5]))
@settings(max_examples=20, deadline=None)
def test_with_even_habits_it_is_the_coin(seed: int, options: int) -> None:
    rng = np.random.default_rng(seed)
    annotations = table(rng, options=options)
    coin, habit = Coin.of(annotations, prior=(2.0, 2.0)), Habit.of(annotations)
    ones = np.ones(habit.n_pairs)
    habit = habit.with_prior(HabitPrior(ones, ones, np.where(habit.inside, EVEN, 0.0)))
    skill = rng.uniform(0.05, 0.95, coin.n_pairs)
    even = habit.inside / habit.inside.sum(axis=1, keepdims=True)
    parameters = np.column_stack([coin.expertise(skill), even])
    one, other = coin.evidence(skill), habit.evidence(parameters)
    np.testing.assert_allclose(other.log_odds, one.log_odds, rtol=1e-9)
    assert other.constant == pytest.approx(one.constant)
    log_probs = np.log(rng.dirichlet(np.ones(habit.width), annotations.n_items))
    joint = JointLikelihood(annotations, log_probs, coin)
    by_coin = joint.fit(skill, max_iter=30, tol=0)
    by_habit = JointLikelihood(annotations, log_probs, habit).fit(parameters, max_iter=30, tol=0)
    np.testing.assert_allclose(by_habit[:, 0], coin.expertise(by_coin), atol=1e-6)


@pytest.mark.parametrize("make", [table, own_options])
@pytest.mark.parametrize("seed", range(3))
def test_no_m_step_lowers_the_objective_and_the_last_is_a_maximum(make, seed: int) -> None:
    rng = np.random.default_rng(seed)
    annotations = make(rng)
    habit = Habit.of(annotations)
    options = np.arange(habit.width) < annotations.option_counts[:, None]
    log_probs = np.log(np.where(options, 1 / annotations.option_counts[:, None], 1e-300))
    log_probs[~options] = -np.inf
    joint = JointLikelihood(annotations, log_probs, habit)
    parameters = random_parameters(habit, rng)
    objectives = []
    for _ in range(1500):
        posterior, log_likelihood = joint.e_step(habit.evidence(parameters))
        objectives.append(log_likelihood + habit.log_prior(parameters))
        parameters = habit.update(parameters, posterior, joint.position)
    assert np.diff(objectives).min() > -1e-9
    assert np.diff(objectives)[0] > 0
    best = joint.log_likelihood(parameters) + habit.log_prior(parameters)
    for _ in range(200):
        step = 1e-3 * rng.normal(size=parameters.shape)
        step[:, 1:] *= habit.inside
        step[:, 1:] -= habit.inside * (step[:, 1:].sum(axis=1) / habit.inside.sum(axis=1))[:, None]
        near = parameters + step
        if (near[:, 1:][habit.inside] > 0).all() and near[:, 0].max() < 1:
            assert joint.log_likelihood(near) + habit.log_prior(near) < best + 1e-6


def test_two_options_are_the_whole_confusion_matrix_even_below_chance() -> None:
    rng = np.random.default_rng(4)
    truth = np.repeat([0, 1], 2000)
    rates = np.array([[0.9, 0.7], [0.6, 0.95], [0.2, 0.3]])  # P(label 0 | truth 0), P(label 1 | truth 1)
    rows = [
        (str(i), f"a{a}", str(t if rng.random() < rates[a, t] else 1 - t))
        for i, t in enumerate(truth)
        for a in range(3)
    ]
    annotations = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    log_probs = np.log(np.where(np.arange(2) == truth[:, None], 0.999, 0.001))
    habit = Habit.of(annotations)
    parameters = JointLikelihood(annotations, log_probs, habit).fit(habit.even())
    own, _ = habit.label_probabilities(parameters)
    np.testing.assert_allclose(own[:, 0], rates, atol=0.03)
    assert parameters[2, 0] == pytest.approx(-0.5, abs=0.04)


def test_the_pool_is_as_strong_as_annotators_are_alike() -> None:
    rng = np.random.default_rng(5)

    def prior(spread: float) -> HabitPrior:
        """The pool of 200 annotators with 40 labels of known truth each, alike or not."""
        truth = rng.integers(2, size=8000)
        beta, share = rng.beta(0.6 * spread, 0.4 * spread, 200), rng.beta(0.5 * spread, 0.5 * spread, 200)
        annotator = np.arange(8000) % 200
        guess = (rng.random(8000) < share[annotator]).astype(int)
        label = np.where(rng.random(8000) < beta[annotator], truth, guess)
        habit = Habit(annotator, label, np.full(8000, 2), np.zeros(200, dtype=int), np.array([2]))
        posterior = np.eye(2)[truth]
        parameters, position = habit.even(), np.arange(8000) * 2 + label
        for _ in range(10):
            parameters = habit.update(parameters, posterior, position)
            habit = habit.pooled(parameters, posterior, position)
        return habit.prior

    alike, diverse = prior(100.0), prior(2.0)
    assert (alike.right + alike.wrong)[0] > 2 * (diverse.right + diverse.wrong)[0]
    assert alike.habit[0].sum() > 4 * diverse.habit[0].sum()
    mean = alike.right[0] / (alike.right + alike.wrong)[0]
    assert mean == pytest.approx(0.8, abs=0.03)  # skill of beta 0.6 at two options
