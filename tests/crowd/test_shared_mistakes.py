"""Annotators who err together: tau by agreement alone, and e, a prior that gold moves by Bayes' rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from realm.crowd.estimate import estimate
from realm.crowd.model import AnnotatorModel
from realm.crowd.shared_mistakes import KINDS, SharedMistakes

from .crowds import coins, labelled, table


def erring_together(seed: int, hard: float, n: int = 800, people: int = 8, options: int = 2):
    """On a share of the items everybody is drawn to the same wrong label, 70% of the time; elsewhere 85% are right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, options, n)
    wrong = (truth + rng.integers(1, options, n)) % options
    misled = (rng.random(n) < hard)[:, None] & (rng.random((n, people)) < 0.7)
    label = np.where(rng.random((n, people)) < 0.85, truth[:, None], rng.integers(0, options, (n, people)))
    label = np.where(misled, wrong[:, None], label)
    item, annotator = np.repeat(np.arange(n), people), np.tile(np.arange(people), n)
    return table(item, annotator, label.ravel(), n_items=n, n_annotators=people, options=options), truth


# -------------------------------------------------------------------- tau


@pytest.mark.parametrize("options", [2, 4])
def test_tau_is_one_for_independent_annotators(options: int) -> None:
    """In at least eighteen of twenty crowds: the rule lets one in twenty pass by chance."""
    ones = 0
    for seed in range(20):
        truth = np.random.default_rng(seed).integers(0, options, 300)
        made = labelled(seed, truth, coins(np.linspace(0.6, 0.9, 8), options), 5)
        ones += AnnotatorModel(made).fit().exponent[0] == 1
    assert ones >= 18


@pytest.mark.parametrize("seed", range(3))
def test_tau_is_below_one_for_annotators_who_err_together(seed: int) -> None:
    made, truth = erring_together(seed, 0.25)
    found = estimate(made)
    assert found.exponent[0] < 0.7
    confidence, right = found.posterior.max(axis=1), found.posterior.argmax(axis=1) == truth
    assert confidence.mean() - right.mean() < 0.1, "and confidence is not what independence would make it"


# -------------------------------------------------------------------- e


def test_e_is_the_prior_of_its_kind_without_gold() -> None:
    assert SharedMistakes.of("people", 0.1).mean == 0.05 and SharedMistakes.of("models", 1.0).mean == 0.25
    assert SharedMistakes.of(None, 1.0).mean == 0.05 and SharedMistakes.of(None, 0.2).mean == 0.25
    for a, b in KINDS.values():
        assert SharedMistakes(a, b).high == pytest.approx(stats.beta(a, b).ppf(0.9))


@pytest.mark.parametrize("wrong", [0, 3, 12])
def test_gold_moves_e_as_an_explicit_bayes_computation_says(wrong: int) -> None:
    """Where labels leave no doubt, an item is misleading or not, and Beta(a, b) becomes Beta(a + wrong, b + right)."""
    posterior = np.tile([1.0, 0.0], (20, 1))
    gold = (np.arange(20) < wrong).astype(np.int64)
    moved = SharedMistakes(1.0, 19.0).given_gold(posterior, gold, np.full(20, 2))
    assert (moved.a, moved.b) == pytest.approx((1 + wrong, 19 + 20 - wrong), abs=1e-6)


def test_the_posterior_allows_for_a_truth_that_labels_do_not_show() -> None:
    """With truth z' = another class with probability e, each as likely, P(z' = k) is summed over what labels show."""
    q, e = np.array([[0.7, 0.2, 0.1]]), 0.25
    expected = [(1 - e) * q[0, k] + sum(e / 2 * q[0, j] for j in range(3) if j != k) for k in range(3)]
    found = SharedMistakes(2.0, 6.0).posterior(q, np.array([3]))
    np.testing.assert_allclose(found[0], expected, atol=1e-12)
    narrow = SharedMistakes(2.0, 6.0).posterior(np.array([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]]), np.array([2, 1]))
    np.testing.assert_allclose(narrow, [[0.7, 0.3, 0.0], [1.0, 0.0, 0.0]], atol=1e-12)


def test_confidence_never_exceeds_what_shared_mistakes_leave() -> None:
    made, _ = erring_together(0, 0.0)
    for kind, least in (("people", 0.05), ("models", 0.25)):
        found = estimate(made, kind=kind)
        assert found.shared_error[0] == least and found.posterior.max() <= 1 - least + 1e-9
