"""Aggregation over arrays: what every estimator promises, and what each of them is for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from realm.crowd.estimators import (
    ESTIMATORS,
    Aggregator,
    DawidSkene,
    Mace,
    MajorityVote,
    OneCoin,
    most_probable,
)
from realm.errors import RealmError
from tests.crowd.pools import simulate

EVERY = list(ESTIMATORS.values())
EM = [DawidSkene, OneCoin, Mace]


# -------------------------------------------------------------------- every estimator


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": []}, "one entry per annotation"),
        ({"items": [], "annotators": [], "labels": []}, "not empty"),
        ({"items": [0, 0, 1, -2]}, r"`items\[3\]` is -2"),
        ({"labels": [0.0, 1.0, 1.0, 0.0]}, "`labels` must be a column of whole numbers"),
        ({"annotators": ["ann", "bob", "ann", "bob"]}, "numpy.unique"),
        ({"labels": [[0, 1, 1, 0]]}, "`labels` must be a column"),
        ({"n_options": 1}, "labels be below 1"),
        ({"gold": [0]}, "`gold` must have one entry for each of 2 items"),
        ({"gold": [0, 5], "n_options": 2}, "labels be below 2"),
        ({"weight": [1, 1, 0, 1]}, "`weight` must be one number above 0 for each of the 4"),
        ({"weight": [1]}, "`weight`"),
        ({"abstain": 2}, "`abstain` must be one of several labels"),
    ],
)
def test_wrong_arrays_are_named(arguments: dict[str, object], message: str) -> None:
    good = {"items": [0, 0, 1, 1], "annotators": [0, 1, 0, 1], "labels": [0, 1, 1, 0]}
    with pytest.raises(RealmError, match=message):
        MajorityVote().fit(**{**good, **arguments})


@pytest.mark.parametrize("method", EVERY)
def test_what_every_method_promises(method: type[Aggregator]) -> None:
    pool = simulate(seed=1, n_options=4)
    model = method()
    assert model.fit(*pool.arrays) is model
    assert model.labels_.shape == (400,) and model.labels_.dtype == np.int32
    assert model.posterior_.shape == (400, 4) and model.accuracy_.shape == (20,)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
    best = model.posterior_[np.arange(400), model.labels_]
    np.testing.assert_allclose(best, model.posterior_.max(axis=1))
    assert "seed=0" in repr(model)
    if model.priors:
        assert model.confusion_matrices_.shape == (20, 4, 4) and model.class_shares_.shape == (4,)
        np.testing.assert_allclose(model.confusion_matrices_.sum(axis=2), 1)
        assert np.isfinite(model.log_likelihood_) and 1 < model.n_iter_ <= 100


@pytest.mark.parametrize("method", EVERY)
def test_items_without_annotations_and_gold(method: type[Aggregator]) -> None:
    """Item 0 has nothing, item 1 gold alone, item 2 gold against its annotators."""
    pool = simulate(seed=5, low=0.6)
    items = np.concatenate([[2, 2, 2], pool.items + 3])
    annotators, labels = np.concatenate([[0, 1, 2], pool.annotators]), np.concatenate([[0, 0, 0], pool.labels])
    gold = np.full(403, -1)
    gold[[1, 2]] = [1, 2]
    model = method().fit(items, annotators, labels, gold=gold)
    assert model.labels_[:3].tolist() == [-1, 1, 2]
    np.testing.assert_allclose(model.posterior_[0], 1 / 3)
    assert model.posterior_[[1, 2], [1, 2]].tolist() == [1, 1]
    assert (model.labels_[3:] == pool.truth).mean() > 0.9


@pytest.mark.parametrize("method", EVERY)
def test_one_option_is_no_question(method: type[Aggregator]) -> None:
    model = method().fit([0, 0, 1], [0, 1, 0], [0, 0, 0])
    assert model.labels_.tolist() == [0, 0]
    assert model.posterior_.tolist() == [[1], [1]]


@pytest.mark.parametrize("method", EVERY)
def test_a_weight_of_two_is_as_good_as_two_annotations(method: type[Aggregator]) -> None:
    pool = simulate(seed=8, n_items=80)
    weight = np.where(np.arange(len(pool.items)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(pool.items)), weight.astype(int))
    one = method(seed=0).fit(*pool.arrays, weight=weight)
    other = method(seed=0).fit(*(column[twice] for column in pool.arrays))
    np.testing.assert_allclose(one.posterior_, other.posterior_, atol=1e-9)


def test_ties_fall_uniformly_at_random_by_seed() -> None:
    scores = np.tile([0.4, 0.2, 0.4], (6000, 1))
    first, again, other = most_probable(scores, 0), most_probable(scores, 0), most_probable(scores, 1)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    shares = np.bincount(first, minlength=3) / 6000
    assert shares[1] == 0 and abs(shares[0] - 0.5) < 0.03


# -------------------------------------------------------------------- the vote


# -------------------------------------------------------------------- EM


def probability(model: Aggregator, annotator: int, truth: int, label: int) -> float:
    return float(model.confusion_matrices_[annotator, truth, label])


@pytest.mark.parametrize("method", EM)
def test_posterior_and_likelihood_against_every_assignment_of_truths(method: type[Aggregator]) -> None:
    pool = simulate(seed=3, n_items=6, n_annotators=4, n_options=3, per_item=3, low=0.5)
    model = method(max_iter=3000, tol=0).fit(*pool.arrays)
    evidence, marginal = 0.0, np.zeros((6, 3))
    for truths in itertools.product(range(3), repeat=6):
        joint = math.prod(model.class_shares_[k] for k in truths)
        for i, a, y in zip(*pool.arrays, strict=True):
            joint *= probability(model, a, truths[i], y)
        evidence += joint
        for i, k in enumerate(truths):
            marginal[i, k] += joint
    np.testing.assert_allclose(model.posterior_, marginal / evidence, atol=1e-5)
    assert model.log_likelihood_ == pytest.approx(math.log(evidence), abs=1e-5)


@pytest.mark.parametrize("method", EM)
def test_learns_who_is_reliable_and_beats_the_vote(method: type[Aggregator]) -> None:
    pool = simulate(seed=5, n_items=2000, n_annotators=15, n_options=3)
    model, vote = method().fit(*pool.arrays), MajorityVote().fit(*pool.arrays)
    assert (model.labels_ == pool.truth).mean() > (vote.labels_ == pool.truth).mean() + 0.02
    assert np.abs(model.accuracy_ - pool.accuracy).max() < 0.08
    diagonal = np.einsum("akk->ak", model.confusion_matrices_)
    assert np.abs(diagonal - pool.accuracy[:, None]).max() < 0.15


@pytest.mark.parametrize("settings", [{"max_iter": 0}, {"tol": -1.0}])
def test_refuses_settings_that_mean_nothing(settings: dict[str, float]) -> None:
    with pytest.raises(RealmError, match="or more"):
        DawidSkene(**settings).fit([0, 0], [0, 1], [0, 0])


@pytest.mark.parametrize("method", EM)
def test_refuses_votes_that_nothing_can_be_held_against(method: type[Aggregator]) -> None:
    """Everyone would be called perfect."""
    votes = [0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 1, 0]
    with pytest.raises(RealmError, match="no item has two annotations"):
        method().fit(*votes)
    method().fit(*votes, gold=[0, -1, -1, -1])


@pytest.mark.parametrize("method", EM)
def test_gold_sees_through_a_clique(method: type[Aggregator]) -> None:
    """Three who agree on the wrong label out-vote two careful ones; a tenth of the truth unmasks them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    items, annotators = np.repeat(np.arange(300), 5), np.tile(np.arange(5), 300)
    labels = np.where(annotators < 3, 1 - truth[items], truth[items])
    gold = np.where(np.arange(300) < 30, truth, -1)
    assert (method().fit(items, annotators, labels).labels_ == truth).mean() < 0.1
    assert (method().fit(items, annotators, labels, gold=gold).labels_ == truth).mean() > 0.9


# -------------------------------------------------------------------- Dawid-Skene


def test_thousands_of_annotations_of_one_item_do_not_underflow() -> None:
    labels = (np.random.default_rng(0).random(20_000) < 0.4).astype(int)
    model = DawidSkene().fit(np.repeat([0, 1], 10_000), np.tile(np.arange(10_000), 2), labels)
    assert np.isfinite(model.posterior_).all() and np.isfinite(model.log_likelihood_)
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)


def test_an_option_nobody_gave_is_never_the_answer() -> None:
    pool = simulate(seed=1, n_items=60, n_options=2, low=0.0, high=1.0)
    wide = DawidSkene(max_iter=50, tol=0).fit(*pool.arrays, n_options=5)
    narrow = DawidSkene(max_iter=50, tol=0).fit(*pool.arrays)
    assert not wide.posterior_[:, 2:].any()
    np.testing.assert_allclose(wide.posterior_[:, :2], narrow.posterior_, atol=1e-9)


# -------------------------------------------------------------------- MACE


def test_annotators_with_habits_do_not_look_expert() -> None:
    """Four who always say 1 agree with each other, and are no better than a coin that fell on 1."""
    rng = np.random.default_rng(2)
    truth = (rng.random(1500) < 0.4).astype(int)
    items, annotators = np.repeat(np.arange(1500), 8), np.tile(np.arange(8), 1500)
    read = rng.random(len(items)) < np.where(annotators < 4, 0.1, 0.75)
    guess = (rng.random(len(items)) < np.where(annotators < 4, 0.95, 0.5)).astype(int)
    labels = np.where(read, truth[items], guess)
    model = Mace().fit(items, annotators, labels)
    assert model.expertise_[:4].max() < 0.3 < model.expertise_[4:].min()
    assert model.habits_[:4, 1].min() > 0.9
    vote = MajorityVote().fit(items, annotators, labels)
    assert (model.labels_ == truth).mean() > (vote.labels_ == truth).mean() + 0.1
