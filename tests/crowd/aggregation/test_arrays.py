from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm.crowd.aggregation import DawidSkene, Glad, MajorityVote, OneCoin, WeightedMajority
from realm.crowd.aggregation.arrays import _order, most_probable
from realm.crowd.aggregation.base import Aggregator
from realm.errors import RealmError

from .pools import simulate

EVERY = [MajorityVote, WeightedMajority, DawidSkene, OneCoin, Glad]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": []}, "equally long"),
        ({"items": [], "annotators": [], "labels": []}, "no annotations"),
        ({"items": [0, 0, 1, -2]}, r"`items\[3\]` is -2"),
        ({"labels": [0.0, 1.0, 1.0, 0.0]}, "`labels` must be whole numbers"),
        ({"annotators": ["ann", "bob", "ann", "bob"]}, "numpy.unique"),
        ({"labels": [[0, 1, 1, 0]]}, "one dimension"),
        ({"n_options": 1}, r"`labels\[1\]` is 1, but its item has 1 options"),
        ({"n_options": 0}, "`n_options` must be 1 or more"),
        ({"option_counts": [1, 2]}, r"`labels\[1\]` is 1, but its item has 1 options"),
        ({"option_counts": [2]}, "`option_counts` has 1 entries"),
        ({"option_counts": [3, 2], "n_options": 2}, "goes up to 3"),
        ({"option_counts": [2, 2, 2], "gold": [0, 1]}, "one per item"),
        ({"gold": [0]}, "`gold` has 1 entries"),
        ({"gold": [0, 5], "n_options": 2}, r"`gold\[1\]` is 5"),
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


@pytest.mark.parametrize("method", EVERY)
def test_the_order_of_annotations_does_not_matter(method: type[Aggregator]) -> None:
    pool = simulate(seed=2)
    order = np.argsort(pool.items, kind="stable")
    shuffled = method().fit(*pool.arrays)
    ordered = method().fit(pool.items[order], pool.annotators[order], pool.labels[order])
    np.testing.assert_allclose(shuffled.posterior_, ordered.posterior_, atol=1e-9)
    np.testing.assert_array_equal(shuffled.labels_, ordered.labels_)


@pytest.mark.parametrize("method", EVERY)
def test_renaming_the_options_renames_the_answers(method: type[Aggregator]) -> None:
    pool = simulate(seed=3)
    renamed = np.array([2, 0, 1])
    plain, other = method().fit(*pool.arrays), method().fit(pool.items, pool.annotators, renamed[pool.labels])
    np.testing.assert_allclose(plain.posterior_, other.posterior_[:, renamed], atol=1e-7)


@pytest.mark.parametrize("method", EVERY)
def test_items_without_annotations_and_gold(method: type[Aggregator]) -> None:
    """Item 0 has nothing, item 1 gold alone, item 2 gold against its annotators; item 3 has two options of three."""
    pool = simulate(seed=5, low=0.6)
    items = np.concatenate([[2, 2, 2, 3, 3, 3], pool.items + 4])
    annotators = np.concatenate([[0, 1, 2, 0, 1, 2], pool.annotators])
    labels = np.concatenate([[0, 0, 0, 1, 1, 1], pool.labels])
    option_counts, gold = np.full(404, 3), np.full(404, -1)
    option_counts[3] = 2
    gold[[1, 2]] = [1, 2]
    model = method().fit(items, annotators, labels, option_counts=option_counts, gold=gold)
    assert model.labels_[:4].tolist() == [-1, 1, 2, 1]
    np.testing.assert_allclose(model.posterior_[0], 1 / 3)
    assert model.posterior_[[1, 2], [1, 2]].tolist() == [1, 1]
    assert model.posterior_[3, 2] == 0
    assert (model.labels_[4:] == pool.truth).mean() > 0.9


@pytest.mark.parametrize("method", EVERY)
def test_bare_items_do_not_change_the_others(method: type[Aggregator]) -> None:
    pool = simulate(seed=4)
    spaced = method().fit(pool.items * 2, pool.annotators, pool.labels)
    plain = method().fit(*pool.arrays)
    np.testing.assert_array_equal(spaced.posterior_[::2], plain.posterior_)
    assert (spaced.labels_[1::2] == -1).all()


@pytest.mark.parametrize("method", EVERY)
def test_one_option_is_no_question(method: type[Aggregator]) -> None:
    model = method().fit([0, 0, 1], [0, 1, 0], [0, 0, 0])
    assert model.labels_.tolist() == [0, 0]
    assert model.posterior_.tolist() == [[1], [1]]


def test_ties_fall_uniformly_at_random_by_seed() -> None:
    scores = np.tile([0.4, 0.2, 0.4], (6000, 1))
    first, again, other = most_probable(scores, 0), most_probable(scores, 0), most_probable(scores, 1)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    shares = np.bincount(first, minlength=3) / 6000
    assert shares[1] == 0 and abs(shares[0] - 0.5) < 0.03


def test_equal_up_to_rounding_is_a_tie_and_more_is_not() -> None:
    chosen = most_probable(np.tile([0.1 + 0.2, 0.3], (200, 1)), 0)
    assert 0 < chosen.mean() < 1
    assert not most_probable(np.tile([0.5 + 1e-6, 0.5 - 1e-6], (200, 1)), 0).any()


def test_booleans_are_labels() -> None:
    assert MajorityVote().fit([0, 0, 0], [0, 1, 2], [True, True, False]).labels_.tolist() == [1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_counting_orders_as_a_stable_sort_does(items: list[int]) -> None:
    np.testing.assert_array_equal(_order(np.array(items), 10), np.argsort(items, kind="stable"))


@pytest.mark.slow
def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.aggregation import main

    main(scale=0.005)
    assert "| one-coin | 5,000 | 10 |" in capsys.readouterr().out
