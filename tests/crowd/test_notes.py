"""What is noted of an annotator by their labels alone, and of whom nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from realm.crowd.estimate import estimate
from realm.crowd.notes import annotator_notes, habit_notes
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table
from realm.data import Annotations, Task

from .crowds import coins, known_estimate, labelled, mixtures, table


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
    assert noted(own)[0, 0] == "always answers option 2"


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


# -------------------------------------------------------------------- habits in words


def described(labels: list[str] | None, **changes: float) -> str:
    """The habit of the first of three annotators of two labels, 100 labels each, half of all labels 0."""
    item, annotator = np.repeat(np.arange(100), 3), np.tile([0, 1, 2], 100)
    made = table(item, annotator, np.arange(300) % 2, n_items=100, n_annotators=3, options=2 if labels else [2] * 100)
    if labels:
        made = replace(made, items=replace(made.items, tasks=(Task("t0", tuple(labels)),)))
    numbers = {"expertise": 0.4, "accuracy": 0.7, "high": 0.8, "share": 0.93, "n": 100, **changes}
    found = known_estimate(made, mixtures(np.full(3, 0.4), [0.5, 0.5]))
    found = replace(
        found,
        **{name: np.full((3, 1), numbers[name]) for name in ("expertise", "accuracy", "high")},
        annotations=np.full((3, 1), numbers["n"], np.int64),
        habits=np.array([[[1 - numbers["share"], numbers["share"]]]] * 3),
    )
    return str(habit_notes(Screens(made, found))[0, 0])


def test_a_habit_is_told_in_words():
    assert described(["fine", "toxic"]) == "answers `toxic` 93% of the time when not answering from the item"
    assert described(None) == "answers option 2 93% of the time when not answering from the item"


@pytest.mark.parametrize(
    "changes",
    [
        {"high": 0.98},  # may always read: beta up to 0.96
        {"share": 0.6},  # a favourite, but hardly
        {"n": 5},  # too few labels to say
        {"expertise": -0.3, "accuracy": 0.35, "high": 0.5},  # reads, and answers the opposite
    ],
)
def test_a_habit_that_is_not_clear_is_not_told(changes):
    assert described(["fine", "toxic"], **changes) == ""


def test_real_habits_are_in_the_table():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 800)
    item, annotator = (index.ravel() for index in np.indices((800, 6)))
    guess = np.where(annotator < 2, rng.random(len(item)) < 0.95, rng.random(len(item)) < 0.5).astype(int)
    read = rng.random(len(item)) < np.where(annotator < 2, 0.2, 0.8)
    made = table(item, annotator, np.where(read, truth[item], guess), n_items=800, n_annotators=6, options=2)
    frame = expertise_table(made, estimate(made)).set_index("annotator")
    words = r"answers `c1` 9\d% of the time when not answering from the item"
    assert frame["habit"][["a0", "a1"]].str.fullmatch(words).all()
    assert (frame["habit"][["a2", "a3", "a4", "a5"]] == "").all()
