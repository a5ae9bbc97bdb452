from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from realm.comparison.simulation import (
    POOLS,
    implied_expertise,
    read_pool,
    realised_accuracies,
    simulate,
)
from realm.data import Annotations
from realm.errors import RealmError

NOISES = ["uniform", "asymmetric", "systematic", "systematic-offset"]


def questions(n: int, labels: int = 4, tasks: int = 1) -> Annotations:
    """n items with a random true label among `labels`, dealt to the tasks in turn."""
    truth = np.random.default_rng(99).integers(labels, size=n)
    frame = pd.DataFrame(
        {
            "text": [f"question {i}" for i in range(n)],
            "gold": [f"label {k}" for k in truth],
            "task": [f"task {i % tasks}" for i in range(n)],
        }
    )
    return Annotations.test_from_pandas(frame, labels=[f"label {k}" for k in range(labels)])


def mistakes(table: Annotations, annotator: int) -> np.ndarray:
    """How far each wrong label of an annotator lies from the truth, counted upwards in a circle."""
    assert table.gold is not None
    mine = table.annotator == annotator
    shift = (table.label[mine] - table.gold[table.item[mine]]) % table.option_counts[table.item[mine]]
    return shift[shift > 0]


def test_pools_are_the_papers() -> None:
    assert POOLS == {"D1": (0.9, 0.1, 0.1), "D2": (0.9, 0.9, 0.1), "D3": (0.9, 0.5, 0.1)}
    assert read_pool("graded:5") == pytest.approx((0.9, 0.7, 0.5, 0.3, 0.1))
    assert read_pool("graded:3") == pytest.approx(POOLS["D3"])
    assert read_pool("one-reliable:3") == POOLS["D1"]
    assert read_pool("one-reliable:10") == (0.9, *[0.1] * 9)
    assert read_pool("d2") == POOLS["D2"]
    assert read_pool("one-reliable:4") == (0.9, *[0.1] * 3)
    assert read_pool("0.95, 0.2") == (0.95, 0.2)


@pytest.mark.parametrize("said", ["D4", "graded", "graded:x", "graded:1", "one-reliable:0", "0.9;0.1", ""])
def test_a_pool_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(RealmError, match="pool"):
        read_pool(said)


@pytest.mark.parametrize("noise", ["uniform", "asymmetric", "systematic-offset"])
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_accuracies_come_out_as_asked(noise: str, labels: int) -> None:
    table = simulate(questions(6000, labels), POOLS["D3"], noise=noise, regime="shared", seed=3)
    assert table.gold is not None
    for person, accuracy in enumerate(POOLS["D3"]):
        mine = table.annotator == person
        right = int((table.label[mine] == table.gold[table.item[mine]]).sum())
        assert binomtest(right, int(mine.sum()), accuracy).pvalue > 1e-4


@pytest.mark.parametrize(
    ("noise", "adjacent", "expected"),
    [
        ("uniform", "weight", [1 / 3, 1 / 3, 1 / 3]),
        ("asymmetric", "weight", [4 / 6, 1 / 6, 1 / 6]),
        ("asymmetric", "paper", [4 / 7, 1.5 / 7, 1.5 / 7]),
    ],
)
def test_errors_follow_the_channel(noise: str, adjacent: str, expected: list[float]) -> None:
    table = simulate(questions(12000), (0.1,), noise=noise, adjacent=adjacent, seed=1)
    shifts = mistakes(table, 0)
    counts = np.bincount(shifts, minlength=4)[1:]
    assert chisquare(counts, np.array(expected) * len(shifts)).pvalue > 1e-3


@pytest.mark.parametrize("adjacent", ["weight", "paper"])
def test_with_two_options_asymmetric_noise_is_uniform_noise(adjacent: str) -> None:
    asked = questions(200, labels=2)
    uniform = simulate(asked, POOLS["D3"], noise="uniform", seed=5)
    asymmetric = simulate(asked, POOLS["D3"], noise="asymmetric", adjacent=adjacent, seed=5)
    assert uniform.label.tolist() == asymmetric.label.tolist()


@pytest.mark.parametrize(("labels", "perfect"), [(2, 1), (3, 2), (4, None)])
def test_systematic_noise_collides_with_the_truth(labels: int, perfect: int | None) -> None:
    table = simulate(questions(900, labels), (0.5, 0.5, 0.5), noise="systematic", regime="shared")
    accuracy = realised_accuracies(table)[:, 0]
    for person in range(3):
        if person == perfect:
            assert accuracy[person] == 1.0
        else:
            assert accuracy[person] < 0.6
            assert set(mistakes(table, person)) == {(person + 1) % labels}
    warned = [warning for warning in table.ledger.warnings if "systematic" in warning]
    assert bool(warned) == (perfect is not None)
    if perfect is not None:
        assert f"a{perfect + 1} 1.00 instead of 0.50" in warned[0]


@pytest.mark.parametrize("labels", [2, 3, 4, 5])
def test_systematic_offset_never_gives_the_truth_in_error(labels: int) -> None:
    table = simulate(questions(50, labels), [0.0] * 7, noise="systematic-offset", regime="shared")
    assert not realised_accuracies(table).any()
    assert not table.ledger.warnings
    for person in range(7):
        assert set(mistakes(table, person)) == {1 + person % (labels - 1)}


@pytest.mark.parametrize("tasks", [1, 3])
def test_sparse_shares_are_disjoint_and_even(tasks: int) -> None:
    table = simulate(questions(500, tasks=tasks), read_pool("graded:7"), regime="sparse", seed=2)
    assert table.annotations_per_item.tolist() == [1] * 500
    for task in range(tasks):
        share = np.bincount(table.annotator[table.item_tasks[table.item] == task], minlength=7)
        assert share.max() - share.min() <= 1


def test_shared_means_everyone_labels_everything() -> None:
    table = simulate(questions(40), read_pool("graded:4"), regime="shared")
    assert set(zip(table.item.tolist(), table.annotator.tolist(), strict=True)) == {
        (i, a) for i in range(40) for a in range(4)
    }


@settings(max_examples=40, deadline=None)
@given(people=st.integers(1, 9), data=st.data(), seed=st.integers(0, 1000))
def test_drawn_annotators_are_distinct(people: int, data: st.DataObject, seed: int) -> None:
    wanted = data.draw(st.integers(1, people))
    table = simulate(questions(25), [0.5] * people, per_item=wanted, seed=seed)
    pairs = set(zip(table.item.tolist(), table.annotator.tolist(), strict=True))
    assert len(pairs) == table.n_annotations == 25 * wanted
    assert (table.annotations_per_item == wanted).all()


def test_every_annotator_is_drawn_as_often() -> None:
    table = simulate(questions(3000), [0.5] * 6, per_item=3, seed=4)
    assert chisquare(table.annotations_per_annotator).pvalue > 1e-3


@pytest.mark.parametrize("noise", NOISES)
def test_a_seed_gives_one_table_and_another_seed_another(noise: str) -> None:
    asked = questions(300)
    first, again, other = (simulate(asked, read_pool("graded:5"), noise=noise, seed=seed) for seed in (7, 7, 8))
    assert first.label.tolist() == again.label.tolist()
    assert first.annotator.tolist() == again.annotator.tolist()
    assert first.annotator.tolist() != other.annotator.tolist()


def test_noises_disagree_only_about_wrong_labels() -> None:
    asked = questions(300)
    uniform, offset = (simulate(asked, POOLS["D3"], noise=noise, seed=1) for noise in ("uniform", "systematic-offset"))
    assert asked.gold is not None
    assert ((uniform.label == asked.gold) == (offset.label == asked.gold)).all()
    assert (uniform.label != offset.label).any()


def test_accuracy_may_differ_by_task() -> None:
    matrix = np.array([[0.9, 0.5, 0.1], [0.1, 0.9, 0.5]])
    table = simulate(questions(9000, tasks=3), matrix, regime="shared", seed=6)
    assert realised_accuracies(table) == pytest.approx(matrix, abs=0.03)


def test_items_may_have_options_of_their_own() -> None:
    frame = pd.DataFrame(
        {
            "text": [f"q{i}" for i in range(400)],
            "options": [["yes", "no"], ["red", "green", "blue"]] * 200,
            "gold": ["no", "blue"] * 200,
        }
    )
    table = simulate(Annotations.test_from_pandas(frame), (0.0, 0.0), regime="shared")
    assert table.gold is not None
    assert (table.label < table.option_counts[table.item]).all()
    assert (table.label != table.gold[table.item]).all()
    assert set(table.label[table.option_counts[table.item] == 3].tolist()) == {0, 1}


def test_gold_is_kept_and_items_without_it_are_left_out_and_counted() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "gold": ["yes", None, "no"]})
    table = simulate(Annotations.test_from_pandas(frame), (1.0,), names=["Ann"])
    assert table.n_items == 2 and table.gold is not None
    assert table.label.tolist() == table.gold.tolist()
    assert table.annotators == ("Ann",)
    assert table.ledger.counts == {"no gold label to simulate from": 1}


def test_implied_expertise_is_the_charters() -> None:
    expected = {2: (0.8, 0.0), 3: (0.85, 0.25), 4: (13 / 15, 1 / 3), 5: (0.875, 0.375)}
    for options, values in expected.items():
        assert implied_expertise([0.9, 0.5], options).tolist() == pytest.approx(values)
        assert implied_expertise(0.1, options) < 0


def test_what_cannot_be_simulated_is_refused() -> None:
    asked = questions(10)
    with pytest.raises(RealmError, match="gold"):
        simulate(asked.without_gold(), (0.9,))
    with pytest.raises(RealmError, match="between 0 and 1"):
        simulate(asked, (1.2,))
    with pytest.raises(RealmError, match="shape"):
        simulate(asked, np.full((2, 3), 0.5))
    with pytest.raises(RealmError, match="`noise=loud`"):
        simulate(asked, (0.9,), noise="loud")  # type: ignore[arg-type]
    with pytest.raises(RealmError, match="`per_item=3`"):
        simulate(asked, (0.9, 0.1), per_item=3)
    with pytest.raises(RealmError, match="distinct names"):
        simulate(asked, (0.9, 0.1), names=["Ann", "Ann"])
