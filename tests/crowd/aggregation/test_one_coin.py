from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import MajorityVote, OneCoin

from .pools import simulate


@pytest.mark.parametrize("n_options", [2, 3, 5])
def test_agrees_with_crowdkit_at_equal_iterations(n_options: int) -> None:
    from crowdkit.aggregation import OneCoinDawidSkene as Peer

    pool = simulate(seed=n_options, n_items=200, n_options=n_options)
    frame = pd.DataFrame({"task": pool.items, "worker": pool.annotators, "label": pool.labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Peer(n_iter=10, tol=-np.inf).fit(frame)
    ours = OneCoin(max_iter=10, tol=0).fit(*pool.arrays)
    theirs = peer.probas_.sort_index().sort_index(axis=1).to_numpy()
    np.testing.assert_allclose(ours.posterior_, theirs, atol=1e-6)
    np.testing.assert_allclose(ours.accuracy_, peer.skills_.sort_index().to_numpy(), atol=1e-6)


def test_posterior_and_likelihood_against_every_assignment_of_truths_with_few_options() -> None:
    pool = simulate(seed=9, n_items=6, n_annotators=4, n_options=3, per_item=3, low=0.5)
    largest = np.zeros(6, dtype=int)
    np.maximum.at(largest, pool.items, pool.labels)
    counts = np.maximum(largest + 1, 2)
    model = OneCoin(max_iter=5000, tol=0).fit(*pool.arrays, option_counts=counts)
    evidence, marginal = 0.0, np.zeros((6, 3))
    for truths in itertools.product(*(range(count) for count in counts)):
        joint = math.prod(model.priors_[k] for k in truths)
        for i, a, y in zip(*pool.arrays, strict=True):
            accuracy = model.accuracy_[a]
            joint *= accuracy if truths[i] == y else (1 - accuracy) / (counts[i] - 1)
        evidence += joint
        for i, k in enumerate(truths):
            marginal[i, k] += joint
    np.testing.assert_allclose(model.posterior_, marginal / evidence, atol=1e-5)
    assert model.log_likelihood_ == pytest.approx(math.log(evidence), abs=1e-5)


def test_likelihood_never_falls_and_it_stops() -> None:
    pool = simulate(seed=5, n_options=4, low=0.2, high=0.8)
    largest = np.zeros(400, dtype=int)
    np.maximum.at(largest, pool.items, pool.labels)
    model = OneCoin(max_iter=300, tol=0).fit(*pool.arrays, option_counts=largest + 1)
    assert np.diff(model.log_likelihoods_).min() > -1e-7
    assert OneCoin(max_iter=300).fit(*pool.arrays).n_iter_ < 300


def test_finds_the_accuracies() -> None:
    pool = simulate(seed=6, n_items=3000, n_annotators=20)
    model, vote = OneCoin().fit(*pool.arrays), MajorityVote().fit(*pool.arrays)
    assert np.abs(model.accuracy_ - pool.accuracy).max() < 0.08
    assert (model.labels_ == pool.truth).mean() > (vote.labels_ == pool.truth).mean() + 0.02


def test_gold_says_which_way_round() -> None:
    """At K=2 three who always lie and two who never do look alike but for their number; gold decides."""
    truth = np.random.default_rng(0).integers(2, size=300)
    items, annotators = np.repeat(np.arange(300), 5), np.tile(np.arange(5), 300)
    labels = np.where(annotators < 3, 1 - truth[items], truth[items])
    gold = np.where(np.arange(300) < 30, truth, -1)
    model = OneCoin().fit(items, annotators, labels, gold=gold)
    assert (model.labels_ == truth).all()
    np.testing.assert_allclose(model.accuracy_, [0, 0, 0, 1, 1], atol=1e-6)


def test_two_unlucky_gold_items_turn_nothing() -> None:
    pool = simulate(seed=10, n_options=2, low=0.7, high=0.95)
    vote = MajorityVote().fit(*pool.arrays)
    wrong = np.flatnonzero(vote.labels_ != pool.truth)[:2]
    gold = np.full(400, -1)
    gold[wrong] = pool.truth[wrong]
    assert (OneCoin().fit(*pool.arrays, gold=gold).labels_ == pool.truth).mean() > 0.9
