"""Copies are found, honest annotators are not, and copies share the weight of one witness."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.copies import find_task_copies
from realm.crowd.engine import LabelTable
from realm.crowd.estimate import estimate
from realm.crowd.model import AnnotatorModel

from .crowds import coins, mixtures, table
from .label_tables import drawn

COPIED = [0.62, *[0.75] * 7]
"""Accuracies of a crowd whose first annotator is copied. Copies of somebody better than most may pass for experts."""


def crowd(seed: int, accuracy: list[float], *, items: int = 400, per_item: int = 5, options: int = 2) -> LabelTable:
    truth = np.random.default_rng(seed).integers(0, options, items)
    return drawn(seed + 1, truth, coins(accuracy, options), per_item)


def with_copies(made: LabelTable, seed: int, *, rate: float = 1.0, items: int = 100, n: int = 1) -> LabelTable:
    """The same and `n` annotators more, who give the first one's labels on their first items, and else draw lots."""
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(made.annotator == 0)[:items]
    drawn_labels = [rng.integers(0, made.n_options, len(rows)) for _ in range(n)]
    copied = [np.where(rng.random(len(rows)) < rate, made.label[rows], lots) for lots in drawn_labels]
    return LabelTable(
        np.concatenate([made.item, *[made.item[rows]] * n]),
        np.concatenate([made.annotator, np.repeat(made.n_annotators + np.arange(n), len(rows))]),
        np.concatenate([made.label, *copied]),
        made.n_items,
        made.n_annotators + n,
        made.n_options,
    )


def pairs(made: LabelTable) -> set[tuple[int, int]]:
    return {(pair.first, pair.second) for pair in find_task_copies(made)}


# -------------------------------------------------------------------- nobody honest is called a copy


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize(
    "accuracy",
    [[0.97] * 8, [0.9] * 8, [0.97, 0.97, 0.65, 0.65, 0.65], [0.95, 0.9, 0.85, 0.8, 0.7, 0.6]],
    ids=["experts", "good", "two experts", "uneven"],
)
def test_honest_annotators_are_no_copies(accuracy: list[float], options: int) -> None:
    convicted = sum(bool(pairs(crowd(seed, accuracy, items=150, options=options))) for seed in range(12))
    assert convicted == 0


def test_those_who_always_give_the_same_answer_are_not_copies() -> None:
    """They agree always, and each alone explains it."""
    truth = np.random.default_rng(0).integers(0, 2, 400)
    matrices = mixtures([0.8] * 6 + [0.0] * 3, [[0.5, 0.5]] * 6 + [[0.0, 1.0]] * 3)
    assert pairs(drawn(1, truth, matrices, 5)) == set()


def test_one_label_per_item_says_nothing() -> None:
    assert find_task_copies(LabelTable(np.arange(50), np.arange(50) % 2, np.zeros(50, int), 50, 2, 2)) == []


# -------------------------------------------------------------------- copies are found


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize("rate", [1.0, 0.95])
def test_copies_are_found(rate: float, options: int) -> None:
    convicted = [
        pairs(with_copies(crowd(seed, COPIED, options=options), seed, rate=rate, items=200)) for seed in range(5)
    ]
    assert sum(found == {(0, 8)} for found in convicted) >= 4, convicted


def test_a_clique_that_copies_a_wrong_source_is_found_and_seen_through() -> None:
    """Five of ten give the labels of a source that is right on a third of the items: a vote follows them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 500)
    made = drawn(1, truth, coins([0.8] * 10, 3), 4)
    source = np.where(rng.random(500) < 0.35, truth, (truth + 1 + rng.integers(0, 2, 500)) % 3)
    copying = (made.annotator < 5) & (rng.random(len(made.item)) < 0.97)
    label = np.where(copying, source[made.item], made.label)
    model = AnnotatorModel(table(made.item, made.annotator, label, n_items=500, n_annotators=10, options=3))
    assert len(model.copies) >= 8 and all(pair.second < 5 for pair in model.copies)
    right = model.fit().estimate().posterior.argmax(axis=1) == truth
    alone = AnnotatorModel(model.annotations, find_copies=False).fit().estimate().posterior.argmax(axis=1) == truth
    assert right.mean() > 0.75 > 0.5 > alone.mean()


# -------------------------------------------------------------------- copies count once


def test_copies_count_once_in_the_model_and_change_no_label() -> None:
    """With four copies of one annotator more, labels are those of the table without them."""
    made = crowd(5, COPIED, options=3, items=500)
    more = with_copies(made, 5, items=10_000, n=4)
    one, two = (
        table(part.item, part.annotator, part.label, n_items=500, n_annotators=part.n_annotators, options=3)
        for part in (made, more)
    )
    model = AnnotatorModel(two)
    assert len(model.copies) == 10, "five annotators are one, in ten pairs"
    copied = np.isin(two.annotator, [0, 8, 9, 10, 11])
    np.testing.assert_allclose(model.weight, np.where(copied, 0.2, 1.0))
    alone, together, naive = (
        estimate(one).posterior,
        estimate(two).posterior,
        AnnotatorModel(two, find_copies=False).fit().estimate().posterior,
    )
    assert (alone.argmax(axis=1) == together.argmax(axis=1)).mean() > 0.97
    assert (alone.argmax(axis=1) == naive.argmax(axis=1)).mean() < 0.95


# -------------------------------------------------------------------- good annotators are no copies


def test_a_clique_is_seen_through_where_there_are_two_labels() -> None:
    """Five of ten give the labels of a source that is right on 40%, which a vote follows."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 1000)
    made = drawn(2, truth, coins([0.8] * 10, 2), 4)
    source = np.where(rng.random(1000) < 0.4, truth, 1 - truth)
    label = np.where((made.annotator < 5) & (rng.random(len(made.item)) < 0.97), source[made.item], made.label)
    model = AnnotatorModel(table(made.item, made.annotator, label, n_items=1000, n_annotators=10, options=2))
    assert len(model.copies) == 10 and all(pair.second < 5 for pair in model.copies)
    assert (model.fit().estimate().posterior.argmax(axis=1) == truth).mean() > 0.75


def test_copies_are_one_of_the_independent_annotators_of_an_item() -> None:
    from realm.crowd.screens import Screens

    made = with_copies(crowd(5, COPIED, options=3, items=500, per_item=8), 5, items=10_000, n=4)
    annotations = table(made.item, made.annotator, made.label, n_items=500, n_annotators=12, options=3)
    model = AnnotatorModel(annotations).fit()
    independence = Screens(annotations, model.estimate(), model).independence
    assert independence is not None and len(model.copies) == 10
    assert independence.annotations_per_item == 12 and independence.effective == pytest.approx(
        1 + 7 * independence.exponent
    )
