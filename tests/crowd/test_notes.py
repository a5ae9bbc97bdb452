"""What is noted of an annotator by their labels alone, and of whom nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.estimate import estimate
from realm.crowd.notes import annotator_notes
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table
from realm.data import Annotations

from .crowds import coins, labelled, mixtures, table


def noted(made: Annotations) -> np.ndarray:
    return annotator_notes(Screens(made, estimate(made)))


def crowd(seed: int, share: float = 0.5, *, constant: int = 0, items: int = 300, label: int = 0) -> Annotations:
    """Six annotators at beta 0.7; the first of them always answers the same, on as many items as said."""
    truth = (np.random.default_rng(seed).random(items) >= share).astype(np.int64)
    made = labelled(seed, truth, coins([0.85] * 6, 2), 5)
    own = np.flatnonzero(made.annotator == 0)
    keep = np.ones(made.n_annotations, bool)
    keep[own[constant:]] = constant == 0
    labels = np.where((made.annotator == 0) & (constant > 0), label, made.label)
    return table(made.item[keep], made.annotator[keep], labels[keep], n_items=items, n_annotators=6, options=2)


def test_one_answer_always_is_noted():
    notes = noted(crowd(0, constant=60, label=1))
    assert notes[0, 0] == "always answers `c1`"
    assert (notes[1:] == "").all()


@pytest.mark.parametrize(("share", "constant"), [(0.9, 5), (0.9, 12), (0.5, 8), (0.97, 60)])
def test_one_answer_always_is_no_finding_where_the_items_call_for_it(share, constant):
    for seed in range(5):
        assert (noted(crowd(seed, share, constant=constant)) == "").all()


def test_one_answer_always_is_a_finding_where_the_items_call_for_others():
    """90% `c0`: of 200 items some 20 are not."""
    assert noted(crowd(1, 0.9, constant=200))[0, 0] == "always answers `c0`"


def test_who_got_items_of_one_kind_only_is_not_noted():
    truth = np.repeat([0, 1], 150)
    made = labelled(3, truth, coins([0.9] * 6, 2), 5)
    keep = (made.annotator != 0) | ((made.item < 150) & (made.label == 0))
    assert (noted(made.keep_annotations(keep)) == "").all()


def test_where_items_have_options_of_their_own_the_place_is_named():
    made = crowd(0, constant=60, label=1)
    own = table(made.item, made.annotator, made.label, n_items=300, n_annotators=6, options=[2] * 300)
    assert noted(own)[0, 0] == "always answers the 2nd option"


def test_each_task_is_looked_at_by_itself():
    """The same answer in one task and not in the other."""
    one, two = crowd(0, constant=60), crowd(1)
    item = np.concatenate([one.item, two.item + 300])
    made = table(
        item, np.concatenate([one.annotator, two.annotator]), np.concatenate([one.label, two.label]),
        n_items=600, n_annotators=6, options=2, item_tasks=np.repeat([0, 1], 300),
    )  # fmt: skip
    assert noted(made)[0].tolist() == ["always answers `c0`", ""]
    (suspect,) = Screens(made, estimate(made)).suspects
    assert (suspect.annotator, suspect.task, suspect.kind) == (0, 0, "constant")


def test_answers_in_turn_are_noted():
    made = crowd(0)
    rows = np.flatnonzero(made.annotator == 0)
    label = made.label.copy()
    label[rows] = np.arange(len(rows)) % 2
    made = table(made.item, made.annotator, label, n_items=300, n_annotators=6, options=2)
    assert noted(made)[0, 0] == "repeats the same 2 answers in turn"
    assert (noted(made)[1:] == "").all()


def test_copies_are_noted_on_both_sides_and_in_the_table():
    truth = np.random.default_rng(5).integers(0, 2, 300)
    made = labelled(5, truth, coins([0.7] * 6, 2), 6)
    label = made.label.copy()
    first, second = np.flatnonzero(made.annotator == 0), np.flatnonzero(made.annotator == 1)
    label[second] = made.label[first]
    made = table(made.item, made.annotator, label, n_items=300, n_annotators=6, options=2)
    notes = noted(made)[:, 0]
    assert notes[0] == "gives the same labels as `a1` on 100% of 300 shared items"
    assert notes[1] == "gives the same labels as `a0` on 100% of 300 shared items"
    assert (notes[2:] == "").all()
    frame = expertise_table(made, estimate(made)).set_index("annotator")
    assert frame["notes"].to_dict() == dict(zip(made.annotators, notes, strict=True))


def test_nothing_is_noted_of_honest_annotators():
    for seed in range(5):
        truth = (np.random.default_rng(seed).random(300) < 0.2).astype(np.int64)
        made = labelled(seed, truth, mixtures(np.linspace(0.4, 0.95, 8), [[0.8, 0.2]] * 8), 5)
        assert (noted(made) == "").all()
