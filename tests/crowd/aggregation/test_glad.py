from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import Glad, MajorityVote
from realm.crowd.aggregation.glad import _by_ability, _by_ease, _newton_step

from .pools import simulate


def test_as_accurate_as_crowdkit() -> None:
    from crowdkit.aggregation import GLAD as Peer

    pool = simulate(seed=0, n_items=120, n_annotators=10)
    frame = pd.DataFrame({"task": pool.items, "worker": pool.annotators, "label": pool.labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Peer(n_iter=10, tol=-np.inf).fit(frame)
    ours = Glad(max_iter=10, tol=0).fit(*pool.arrays)
    theirs = peer.probas_.sort_index().sort_index(axis=1).to_numpy()
    assert (ours.labels_ == theirs.argmax(axis=1)).mean() > 0.98
    assert np.abs(ours.posterior_ - theirs).max() < 0.05
    assert np.abs(ours.ability_ - peer.alphas_.sort_index().to_numpy()).max() < 0.05


@pytest.mark.parametrize("gold_share", [0.0, 0.2])
def test_objective_never_falls(gold_share: float) -> None:
    pool = simulate(seed=1, n_options=4, low=0.1, high=0.9)
    largest = np.zeros(400, dtype=int)
    np.maximum.at(largest, pool.items, pool.labels)
    gold = np.where(np.arange(400) < 400 * gold_share, np.minimum(pool.truth, largest), -1)
    model = Glad(max_iter=60, tol=0).fit(*pool.arrays, option_counts=largest + 1, gold=gold)
    assert np.diff(model.objectives_).min() > -1e-5


def test_newton_steps_reach_the_summit() -> None:
    """The gradient of the M-step's own objective, by differences, is nil where repeated steps end."""
    rng = np.random.default_rng(0)
    group, right, factor = rng.integers(5, size=200), rng.random(200), rng.uniform(0.2, 4, 200)
    for logits in (_by_ability(group, factor), _by_ease(group, factor)):
        values = np.ones(5)
        for _ in range(60):
            values = _newton_step(values, group, right, logits)

        def objective(at: np.ndarray, logits: object = logits) -> float:
            x = logits(at)[0]
            return float((right * x - np.logaddexp(0, x)).sum() - 0.5 * ((at - 1) ** 2).sum())

        for index in range(5):
            nudge = np.eye(5)[index] * 1e-4
            assert abs(objective(values + nudge) - objective(values - nudge)) / 2e-4 < 1e-3


def test_finds_hard_items_and_able_annotators() -> None:
    """Half the items are answered at random by all; the others by ability."""
    pool = simulate(seed=2, n_items=1000, n_annotators=20, n_options=2, per_item=9, low=0.55, high=0.99)
    rng = np.random.default_rng(0)
    hard = pool.items < 500
    labels = np.where(hard, rng.integers(2, size=len(pool.items)), pool.labels)
    model = Glad().fit(pool.items, pool.annotators, labels)
    assert np.median(model.difficulty_[:500]) > 1.5 * np.median(model.difficulty_[500:])
    assert np.corrcoef(model.ability_, pool.accuracy)[0, 1] > 0.9


def test_beats_the_vote_and_stops() -> None:
    pool = simulate(seed=3, n_items=2000)
    model, vote = Glad().fit(*pool.arrays), MajorityVote().fit(*pool.arrays)
    assert (model.labels_ == pool.truth).mean() > (vote.labels_ == pool.truth).mean() + 0.02
    assert model.n_iter_ < 100
    assert np.isfinite(model.log_likelihood_)


def test_what_has_no_annotation_has_no_estimate() -> None:
    model = Glad().fit([1, 1, 1], [0, 1, 3], [0, 0, 1])
    assert np.isnan(model.difficulty_[0]) and np.isnan(model.ability_[2])
    assert np.isfinite(model.difficulty_[1])


def test_gold_sees_through_a_clique() -> None:
    truth = np.random.default_rng(0).integers(2, size=300)
    items, annotators = np.repeat(np.arange(300), 5), np.tile(np.arange(5), 300)
    labels = np.where(annotators < 3, 1 - truth[items], truth[items])
    gold = np.where(np.arange(300) < 30, truth, -1)
    assert (Glad().fit(items, annotators, labels, gold=gold).labels_ == truth).mean() > 0.95
