"""Who was asked: where it depends on the item it is evidence of the truth, and elsewhere it is not used."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._worlds import Crowd, class_mix, constant, favourites, of_accuracies

from realm.crowd.assignment import assignment_z, assignment_z_of_labels
from realm.crowd.engine import LabelTable
from realm.crowd.estimate import estimate
from realm.crowd.model import AnnotatorModel


def drawn(world: object, seed: int, per_item: int | None) -> Crowd:
    rng = np.random.default_rng(seed)
    return world(rng, rng.integers(4, size=400), 4, per_item)  # type: ignore[operator,no-any-return]


def table(crowd: Crowd) -> LabelTable:
    return LabelTable(crowd.item, crowd.annotator, crowd.label, crowd.n_items, len(crowd.accuracy), crowd.n_options)


def test_labels_gain_by_who_was_asked_where_annotators_saw_other_classes() -> None:
    crowd = drawn(class_mix, 0, 4)
    assert assignment_z_of_labels(table(crowd)) > 10
    right = (estimate(crowd.annotations()).posterior.argmax(axis=1) == crowd.gold).mean()
    vote = (crowd.votes().argmax(axis=1) == crowd.gold).mean()
    assert right > vote + 0.02


@pytest.mark.parametrize("per_item", [4, None])
@pytest.mark.parametrize("world", [constant, favourites, of_accuracies(np.linspace(0.5, 0.95, 10))])
def test_habits_are_not_taken_for_who_was_asked(world: object, per_item: int | None) -> None:
    for seed in range(3):
        crowd = drawn(world, seed, per_item)
        assert assignment_z_of_labels(table(crowd)) < 3
        assert not AnnotatorModel(crowd.annotations()).tasks[0].assigned


def test_features_tell_it_where_items_have_one_label() -> None:
    crowd = drawn(class_mix, 1, 1)
    noise = np.random.default_rng(2).normal(size=(crowd.n_items, 8))
    assert assignment_z(np.eye(4)[crowd.gold] + 0.5 * noise[:, :4], table(crowd)) > 3
    assert assignment_z(noise, table(crowd)) < 3
    assert assignment_z_of_labels(table(crowd)) == 0
