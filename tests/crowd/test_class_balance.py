from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.class_balance import ClassBalance, fit_habits
from realm.crowd.estimate import estimate
from realm.crowd.evidence import check_log_probs
from realm.crowd.habit import Habit
from realm.errors import RealmError

from .crowds import table


def skewed(seed: int = 0, n: int = 900, shares: tuple[float, ...] = (0.7, 0.2, 0.1), per_item: int = 4):
    """Annotators of beta 0.6 whose habits are even, and labels of uneven frequency."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), size=n, p=shares)
    item, annotator = np.repeat(np.arange(n), per_item), rng.random((n, 8)).argsort(axis=1)[:, :per_item].ravel()
    read = rng.random(len(item)) < 0.6
    label = np.where(read, truth[item], rng.integers(len(shares), size=len(item)))
    return table(item, annotator, label, n_items=n, n_annotators=8, options=len(shares)), truth


def test_the_prior_comes_to_have_the_class_shares_that_annotators_agree_on():
    annotations, truth = skewed()
    balance, _, parameters = fit_habits(
        ClassBalance.of(annotations, check_log_probs(annotations, np.zeros((900, 3)))), Habit.of(annotations)
    )
    np.testing.assert_allclose(np.exp(balance.prior[0]), np.bincount(truth) / 900, atol=0.05)
    np.testing.assert_allclose(parameters[:, 0], 0.6, atol=0.12)
    np.testing.assert_allclose(balance.offset.sum(), 0.0, atol=1e-9)


def test_it_ends_where_iterative_scaling_does():
    """At rest the prior has the posterior's class shares, but for the one item of the model's."""
    annotations, _ = skewed(1)
    rng = np.random.default_rng(1)
    log_probs = check_log_probs(annotations, rng.normal(size=(900, 3)))
    posterior = rng.dirichlet([6, 2, 1], 900)
    balance = ClassBalance.of(annotations, log_probs)
    for _ in range(300):
        balance = balance.fitted(posterior)
    mean = np.exp(balance.prior).mean(axis=0)
    expected = (900 * posterior.mean(axis=0) + np.exp(log_probs).mean(axis=0)) / 901
    np.testing.assert_allclose(mean, expected, atol=1e-6)


def test_a_model_that_is_right_about_the_shares_is_left_alone():
    annotations, truth = skewed(2)
    rng = np.random.default_rng(20)
    probs = np.where(rng.random(900)[:, None] < 0.8, np.eye(3)[truth], np.array([0.7, 0.2, 0.1]))
    found = estimate(annotations, np.log(0.9 * probs + 0.1 * np.array([0.7, 0.2, 0.1])))
    assert np.abs(found.class_offsets).max() < 0.5


def test_a_model_that_misses_the_rare_label_is_set_right():
    annotations, truth = skewed(5)
    rng = np.random.default_rng(50)
    probs = np.where(rng.random(900)[:, None] < 0.5, np.eye(3)[truth], np.array([0.9, 0.08, 0.02]))
    log_probs = np.log(0.9 * probs + 0.1 * np.array([0.9, 0.08, 0.02]))
    balance, _, _ = fit_habits(
        ClassBalance.of(annotations, check_log_probs(annotations, log_probs)), Habit.of(annotations)
    )
    shares = np.bincount(truth) / 900
    before, after = (np.exp(logs).mean(axis=0) for logs in (log_probs, balance.prior))
    assert np.abs(after - shares).max() < 0.3 * np.abs(before - shares).max()


@pytest.mark.parametrize("own_options", [False, True])
def test_one_label_per_item_and_options_of_their_own_move_nothing(own_options: bool):
    rng = np.random.default_rng(3)
    item = np.arange(300) if not own_options else np.repeat(np.arange(300), 3)
    options = [3] * 300 if own_options else 3
    label = rng.choice(3, len(item), p=[0.8, 0.1, 0.1])
    made = table(item, np.arange(len(item)) % 5, label, n_items=300, n_annotators=5, options=options)
    assert (estimate(made, np.zeros((300, 3))).class_offsets == 0).all()


def test_gold_says_how_frequent_labels_are():
    annotations, truth = skewed(4, per_item=1)
    gold = np.where(np.arange(900) < 600, truth, -1)
    found = estimate(annotations, np.zeros((900, 3)), gold=gold)
    shares = np.exp(found.class_offsets[0]) / np.exp(found.class_offsets[0]).sum()
    np.testing.assert_allclose(shares, np.bincount(truth[:600]) / 600, atol=0.05)


def test_gold_that_does_not_fit_is_refused():
    annotations, _ = skewed()
    with pytest.raises(RealmError, match="`gold` must hold one label"):
        ClassBalance.of(annotations, check_log_probs(annotations, np.zeros((900, 3))), np.zeros(3, np.int64))
