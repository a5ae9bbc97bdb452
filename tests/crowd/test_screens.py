"""What is said of an annotator: one answer always, one label taken for another, copies, habits; and of whom nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from realm.crowd.estimate import estimate
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table
from realm.data import Annotations, Task

from .crowds import coins, known_estimate, labelled, mixtures, table


def noted(made: Annotations) -> np.ndarray:
    return Screens(made, estimate(made)).notes


def confused_labels(made: Annotations) -> pd.DataFrame:
    return Screens(made, estimate(made)).confused


# -------------------------------------------------------------------- one answer always, and copies


def crowd(seed: int, share: float = 0.5, *, constant: int = 0, items: int = 300, label: int = 0) -> Annotations:
    """Six annotators at beta 0.7; the first of them always answers the same, on as many items as said."""
    truth = (np.random.default_rng(seed).random(items) >= share).astype(np.int64)
    made = labelled(seed, truth, coins([0.85] * 6, 2), 5)
    own = np.flatnonzero(made.annotator == 0)
    keep = np.ones(made.n_annotations, bool)
    keep[own[constant:]] = constant == 0
    labels = np.where((made.annotator == 0) & (constant > 0), label, made.label)
    return table(made.item[keep], made.annotator[keep], labels[keep], n_items=items, n_annotators=6, options=2)


def test_one_answer_always_is_noted_where_the_items_call_for_others() -> None:
    made = crowd(0, constant=60, label=1)
    notes = noted(made)
    assert notes[0, 0] == "always answers `c1`" and (notes[1:] == "").all()
    assert noted(crowd(1, 0.9, constant=200))[0, 0] == "always answers `c0`", "of 200 items some 20 are not"
    own = table(made.item, made.annotator, made.label, n_items=300, n_annotators=6, options=[2] * 300)
    assert noted(own)[0, 0] == "always answers option 2"


@pytest.mark.parametrize(("share", "constant"), [(0.9, 5), (0.9, 12), (0.5, 8), (0.97, 60)])
def test_one_answer_always_is_no_finding_where_the_items_call_for_it(share: float, constant: int) -> None:
    for seed in range(3):
        assert (noted(crowd(seed, share, constant=constant)) == "").all()


def test_each_task_is_looked_at_by_itself() -> None:
    one, two = crowd(0, constant=60), crowd(1)
    made = table(
        np.concatenate([one.item, two.item + 300]),
        np.concatenate([one.annotator, two.annotator]),
        np.concatenate([one.label, two.label]),
        n_items=600, n_annotators=6, options=2, item_tasks=np.repeat([0, 1], 300),
    )  # fmt: skip
    assert noted(made)[0].tolist() == ["always answers `c0`", ""]


def test_copies_are_noted_on_both_sides_and_in_the_table() -> None:
    made = labelled(5, np.random.default_rng(5).integers(0, 2, 300), coins([0.7] * 6, 2), 6)
    label = made.label.copy()
    label[made.annotator == 1] = made.label[made.annotator == 0]
    made = table(made.item, made.annotator, label, n_items=300, n_annotators=6, options=2)
    frame = expertise_table(made, estimate(made)).set_index("annotator")
    assert frame["notes"]["a0"] == "gives the same labels as `a1` on 100% of 300 shared items"
    assert frame["notes"]["a1"] == "gives the same labels as `a0` on 100% of 300 shared items"
    assert (frame["notes"].drop(["a0", "a1"]) == "").all()


# -------------------------------------------------------------------- one label taken for another


def adjacent(accuracy: np.ndarray, options: int) -> np.ndarray:
    """All err towards the next label, some often and some rarely. Shape (annotators, K, K)."""
    shares = np.where(np.arange(options) == 1, 4.0, 1.0) * (np.arange(options) > 0)
    shares = np.stack([np.roll(shares / shares.sum(), k) for k in range(options)])
    right = accuracy[:, None, None]
    return right * np.eye(options) + (1 - right) * shares


def confuser(options: int, share: float = 0.62) -> np.ndarray:
    """Good, but that `c0` is answered `c1`. Shape (K, K)."""
    matrix = coins([0.95], options)[0]
    matrix[0] = 0.02
    matrix[0, 1], matrix[0, 0] = share, 1 - share - 0.02 * (options - 2)
    return matrix


@pytest.mark.parametrize("options", [3, 5])
def test_who_takes_one_label_for_another_is_named(options: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        matrices = coins(rng.uniform(0.75, 0.95, 10), options)
        matrices[4] = confuser(options)
        truth = rng.integers(0, options, 600)
        made = labelled(seed, truth, matrices, 5)
        (found,) = confused_labels(made).to_dict("records")
        others = (made.annotator != 4) & (truth[made.item] == 0)
        assert found["others"] == pytest.approx((made.label[others] == 1).mean(), abs=0.02)
        assert (found["annotator"], found["truth"], found["given"]) == (4, 0, 1)
        assert 0.45 < found["share"] < 0.75 and found["others"] < 0.15
        notes = expertise_table(made, estimate(made)).set_index("annotator")["notes"]
        words = f"answers `c1` for {found['share']:.0%} of the items that are `c0`, as others do for"
        assert notes["a4"] == f"{words} {found['others']:.0%}" and (notes.drop("a4") == "").all()


@pytest.mark.parametrize("kind", ["coins", "habits", "adjacent", "rare"])
def test_nobody_is_named_who_only_errs(kind: str) -> None:
    """Poor ones, guessers with a favourite, errors that all make, and a label that is rare."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.choice(4, 800, p=[0.4, 0.3, 0.2, 0.1] if kind != "rare" else [0.91, 0.03, 0.03, 0.03])
        matrices = {
            "coins": coins(rng.uniform(0.4, 0.98, 12), 4),
            "habits": mixtures(rng.choice([0.0, 0.4, 0.9], 12), rng.dirichlet(np.full(4, 0.5), 12)),
            "adjacent": adjacent(rng.uniform(0.4, 0.98, 12), 4),
            "rare": coins(rng.uniform(0.7, 0.98, 12), 4),
        }[kind]
        assert len(confused_labels(labelled(seed, truth, matrices, 6))) == 0


def test_own_options_are_never_confused() -> None:
    three = coins(np.full(6, 0.9), 3)
    three[0] = confuser(3)
    made = labelled(0, np.random.default_rng(0).integers(0, 3, 400), three, 5)
    own = table(made.item, made.annotator, made.label, n_items=400, n_annotators=6, options=[3] * 400)
    assert len(confused_labels(made)) == 1 and len(confused_labels(own)) == 0


# -------------------------------------------------------------------- habits


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
    return str(Screens(made, found).habits[0, 0])


def test_a_habit_is_told_in_words() -> None:
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
def test_a_habit_that_is_not_clear_is_not_told(changes: dict[str, float]) -> None:
    assert described(["fine", "toxic"], **changes) == ""


def test_real_habits_are_in_the_table() -> None:
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
