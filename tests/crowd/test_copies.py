"""Copies are found, honest experts are not, and copies share the weight of one witness."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd import copies
from realm.crowd.copies import CopyPair, comparable, find_copies, witness_weights
from realm.data import Annotations

from .crowds import coins, labelled, mixtures, table


def crowd(seed: int, accuracy: list[float], *, items: int = 400, per_item: int = 5, options: int = 2) -> Annotations:
    truth = np.random.default_rng(seed).integers(0, options, items)
    return labelled(seed + 1, truth, coins(accuracy, options), per_item)


def with_copies(made: Annotations, seed: int, *, rate: float, items: int, source: int = 0, n: int = 1) -> Annotations:
    """The same and `n` annotators more, who give the source's labels on its first items, and else draw lots."""
    rng = np.random.default_rng(seed)
    options = int(made.option_counts[0])
    rows = np.flatnonzero(made.annotator == source)[:items]
    copied = []
    for _ in range(n):
        drawn = rng.integers(0, options, len(rows))
        copied.append(np.where(rng.random(len(rows)) < rate, made.label[rows], drawn))
    return table(
        np.concatenate([made.item, *[made.item[rows]] * n]),
        np.concatenate([made.annotator, np.repeat(made.n_annotators + np.arange(n), len(rows))]),
        np.concatenate([made.label, *copied]),
        n_items=made.n_items,
        n_annotators=made.n_annotators + n,
        options=options,
    )


def found(made: Annotations) -> set[frozenset[int]]:
    return {frozenset((pair.first, pair.second)) for pair in find_copies(made)}


# -------------------------------------------------------------------- nobody honest is called a copy


@pytest.mark.parametrize("options", [2, 4])
def test_honest_experts_are_not_copies_in_two_hundred_crowds(options):
    for seed in range(100):
        assert find_copies(crowd(seed, [0.97] * 8, items=150, options=options)) == []


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize("poor", [0.6, 0.7])
def test_two_experts_among_poor_annotators_are_not_copies(poor, options):
    """They agree with each other far more than with anybody else, because they are right."""
    for seed in range(10):
        assert find_copies(crowd(seed, [0.97, 0.97, poor, poor, poor], options=options)) == []


def test_those_who_always_give_the_same_answer_are_not_copies():
    """They agree always, and each alone explains it."""
    beta, habits = [0.0, 0.0, 0.8, 0.8, 0.8, 0.8], [[1.0, 0.0]] * 2 + [[0.5, 0.5]] * 4
    for seed in range(10):
        truth = (np.random.default_rng(seed).random(400) < 0.3).astype(np.int64)
        assert find_copies(labelled(seed, truth, mixtures(beta, habits), 6)) == []


def test_judges_who_err_together_on_hard_items_are_not_copies():
    """On a fifth of the items two judges of one family give the same wrong answer half of the time."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        made = crowd(seed, [0.9] * 6, items=500, per_item=6)
        led_astray = rng.random(500) < 0.2
        truth = np.random.default_rng(seed).integers(0, 2, 500)
        misled = led_astray[made.item] & (made.annotator < 2) & (rng.random(made.n_annotations) < 0.6)
        label = np.where(misled, 1 - truth[made.item], made.label)
        assert find_copies(table(made.item, made.annotator, label, n_items=500, n_annotators=6, options=2)) == []


def test_without_shared_items_nothing_is_said():
    made = crowd(0, [0.8] * 5, per_item=1)
    assert find_copies(made) == []
    assert witness_weights(made) is None


# -------------------------------------------------------------------- copies are found


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize(("rate", "items"), [(1.0, 60), (0.95, 100)])
def test_copies_are_found(rate, items, options):
    hits = 0
    for seed in range(10):
        made = crowd(seed, [0.7, *np.linspace(0.7, 0.95, 9)], options=options)
        pairs = found(with_copies(made, seed, rate=rate, items=items))
        assert pairs <= {frozenset((0, 10))}
        hits += len(pairs)
    assert hits >= 9


@pytest.mark.parametrize("options", [2, 4])
def test_copies_in_the_majority_of_an_item_are_found_too(options):
    """Four of eight are one: they must not be taken for the truth that they are judged by."""
    for seed in range(5):
        made = with_copies(
            crowd(seed, [0.7, 0.85, 0.85, 0.85, 0.85], items=300, options=options), seed, rate=1.0, items=300, n=3
        )
        assert found(made) == {frozenset((i, j)) for i in (0, 5, 6, 7) for j in (0, 5, 6, 7) if i < j}


def test_a_pair_says_how_far_it_agrees_and_how_far_two_strangers_would():
    made = with_copies(crowd(1, [0.7] * 8), 1, rate=1.0, items=150)
    (pair,) = find_copies(made)
    assert (pair.first, pair.second, pair.shared, pair.same) == (0, 8, 150, 150)
    assert pair.expected == pytest.approx(150 * (0.7**2 + 0.3**2), rel=0.15)


# -------------------------------------------------------------------- weights


def test_copies_share_the_weight_of_one_witness():
    made = table([0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 0, 1, 3], [1, 1, 1, 1, 0, 1, 0], n_items=2, n_annotators=4,
                 options=2)  # fmt: skip
    pairs = [CopyPair(0, 1, 30, 30, 20.0), CopyPair(1, 2, 30, 30, 20.0)]
    weights = witness_weights(made, pairs)
    assert weights is not None
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 1, 1, 1, 1])
    assert witness_weights(made, []) is None


def test_the_weights_of_found_copies_add_up_to_one_witness():
    made = with_copies(crowd(2, [0.7] * 8), 2, rate=1.0, items=200)
    weights = witness_weights(made)
    assert weights is not None
    both = np.isin(made.annotator, (0, 8)) & np.isin(made.item, made.item[made.annotator == 8])
    np.testing.assert_allclose(weights[both], 0.5)
    np.testing.assert_allclose(weights[~both], 1.0)


def test_crowded_items_are_left_out_and_the_others_compared(monkeypatch):
    made = with_copies(crowd(2, [0.7] * 8), 2, rate=1.0, items=200)
    monkeypatch.setattr(copies, "MOST_COMPARISONS", int((made.annotations_per_item**2).sum()) - 1)
    assert comparable(made).sum() == made.n_items - 1
    assert found(made) == {frozenset((0, 8))}
