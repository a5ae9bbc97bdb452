from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import MajorityVote, WeightedMajority
from realm.errors import RealmError

from .pools import simulate


def test_counts_votes() -> None:
    vote = MajorityVote().fit([0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 0, 1, 2, 3], [2, 2, 1, 0, 0, 0, 1])
    assert vote.labels_.tolist() == [2, 0]
    np.testing.assert_allclose(vote.posterior_, [[0, 1 / 3, 2 / 3], [3 / 4, 1 / 4, 0]])
    np.testing.assert_allclose(vote.accuracy_, [1, 1, 0.5, 0])


def test_ties_are_split_by_seed_and_not_given_to_the_first() -> None:
    items, annotators = np.repeat(np.arange(2000), 2), np.tile([0, 1], 2000)
    labels = np.tile([0, 1], 2000)
    vote = MajorityVote(seed=3).fit(items, annotators, labels)
    assert abs(vote.labels_.mean() - 0.5) < 0.05
    np.testing.assert_array_equal(vote.labels_, MajorityVote(seed=3).fit(items, annotators, labels).labels_)
    assert (vote.labels_ != MajorityVote(seed=4).fit(items, annotators, labels).labels_).any()
    # An annotator's accuracy is against the labels that were drawn, not against others.
    assert vote.accuracy_[1] == vote.labels_.mean()


@pytest.mark.parametrize("n_options", [2, 3, 6])
def test_shares_agree_with_crowdkit(n_options: int) -> None:
    from crowdkit.aggregation import MajorityVote as Peer

    pool = simulate(seed=0, n_options=n_options)
    frame = pd.DataFrame({"task": pool.items, "worker": pool.annotators, "label": pool.labels})
    peer = Peer().fit_predict_proba(frame).sort_index().sort_index(axis=1).to_numpy()
    np.testing.assert_allclose(MajorityVote().fit(*pool.arrays).posterior_, peer)


def test_weights_beat_counts_and_find_the_careful() -> None:
    pool = simulate(seed=7, n_items=3000, n_annotators=30)
    plain, weighted = MajorityVote().fit(*pool.arrays), WeightedMajority().fit(*pool.arrays)
    assert (weighted.labels_ == pool.truth).mean() > (plain.labels_ == pool.truth).mean() + 0.02
    assert np.corrcoef(weighted.accuracy_, pool.accuracy)[0, 1] > 0.95
    assert 1 < weighted.n_iter_ < 100


def test_weighted_label_is_the_winner_of_the_weighted_vote() -> None:
    pool = simulate(seed=8, n_options=4)
    model = WeightedMajority().fit(*pool.arrays)
    score = np.zeros((400, 4))
    np.add.at(score, (pool.items, pool.labels), 4 * model.accuracy_[pool.annotators] - 1)
    chosen = score[np.arange(400), model.labels_]
    np.testing.assert_allclose(chosen, score.max(axis=1), atol=1e-9)


def test_who_is_wrong_more_often_than_chance_counts_against_their_label() -> None:
    """Three careful annotators teach that the fourth and fifth always lie; then the liars meet one careful alone."""
    truth = np.tile([0, 1], 60)
    items, annotators = np.repeat(np.arange(120), 5), np.tile(np.arange(5), 120)
    labels = np.where(annotators > 2, 1 - truth[items], truth[items])
    keep = (items < 100) | np.isin(annotators, [0, 3, 4])
    arrays = items[keep], annotators[keep], labels[keep]
    assert (MajorityVote().fit(*arrays).labels_[100:] == truth[100:]).mean() == 0
    assert (WeightedMajority().fit(*arrays).labels_ == truth).all()


def test_weighted_majority_refuses_no_rounds() -> None:
    with pytest.raises(RealmError, match="max_iter"):
        WeightedMajority(max_iter=0).fit([0], [0], [0])
