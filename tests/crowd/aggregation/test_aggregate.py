from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import METHODS, DawidSkene, aggregate
from realm.data import Annotations
from realm.errors import RealmError

from .pools import Pool, simulate


def frame_of(pool: Pool, task: str = "default", names: str = "abc") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "item": [f"{task}{i:04}" for i in pool.items],
            "task": task,
            "text": [f"{task} text {i:04}" for i in pool.items],
            "annotator": [f"w{a:02}" for a in pool.annotators],
            "label": [names[k] for k in pool.labels],
            "gold": [names[k] for k in pool.truth[pool.items]],
        }
    )


@pytest.mark.parametrize("method", METHODS)
def test_each_task_is_aggregated_as_if_alone(method: str) -> None:
    parts = [
        frame_of(simulate(seed=1, n_items=150), "one"),
        frame_of(simulate(seed=2, n_items=100, n_options=2), "two", "xy"),
    ]
    whole = Annotations.from_pandas(pd.concat(parts))
    both = aggregate(whole, method)
    labels = both.table(whole)
    for part in parts:
        name = part["task"].iloc[0]
        table = Annotations.from_pandas(part)
        alone = aggregate(table, method)
        mine = labels[labels["task"] == name].set_index("item")
        other = alone.table(table).set_index("item")
        assert mine["label"].to_dict() == other["label"].to_dict()
        np.testing.assert_allclose(mine["confidence"].sort_index(), other["confidence"].sort_index(), atol=1e-9)
        people = both.annotators[both.annotators["task"] == name].set_index("annotator")["accuracy"].sort_index()
        np.testing.assert_allclose(people, alone.annotators.set_index("annotator")["accuracy"].sort_index(), atol=1e-9)


def test_labels_confidence_and_annotators_are_those_of_the_estimator() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=3)))
    found = aggregate(table, "dawid-skene")
    model = DawidSkene().fit(table.item, table.annotator, table.label)
    np.testing.assert_array_equal(found.labels, model.labels_)
    assert found.labels.dtype == np.int32
    np.testing.assert_allclose(found.confidence, model.posterior_.max(axis=1))
    assert found.annotators.columns.tolist() == ["annotator", "task", "accuracy", "low", "high", "annotations"]
    assert found.annotators["annotations"].sum() == table.n_annotations
    assert not found.warnings


@pytest.mark.parametrize("method", METHODS)
def test_labels_index_the_items_own_options(method: str) -> None:
    rows = []
    for i in range(30):
        options = ["red", "green", "blue", "grey"][: 2 + i % 3]
        rows += [(f"q{i}", f"question {i}", options, who, options[i % len(options)]) for who in ("Ann", "Bob", "Cy")]
        rows[-1] = (*rows[-1][:4], options[(i + 1) % len(options)])
    frame = pd.DataFrame(rows, columns=["item", "text", "options", "annotator", "label"])
    table = Annotations.from_pandas(frame, options="options")
    found = aggregate(table, method)
    assert (found.labels == [i % (2 + i % 3) for i in range(30)]).all()
    assert (found.labels < table.option_counts).all()
    assert found.table(table)["label"].tolist()[:4] == ["red", "green", "blue", "green"]


def test_a_table_labelled_once_is_refused_whatever_the_method() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=4))).sparse(seed=0)
    for method in METHODS:
        with pytest.raises(RealmError, match=f"^{method}: no item has two annotations.*perfect"):
            aggregate(table, method)


def test_gold_takes_the_place_of_a_second_annotation() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=4, n_items=1500))).sparse(seed=0)
    found = aggregate(table, "one-coin", use_gold=True)
    np.testing.assert_array_equal(found.labels, table.gold)
    right = (table.label == table.gold[table.item]).astype(float)
    share = np.bincount(table.annotator, right) / np.bincount(table.annotator)
    np.testing.assert_allclose(found.annotators["accuracy"], share)


def test_the_share_labelled_once_is_said_and_a_task_labelled_once_gets_no_confidence() -> None:
    shared, once = frame_of(simulate(seed=5, n_items=50), "shared"), frame_of(simulate(seed=6, n_items=50), "once")
    table = Annotations.from_pandas(pd.concat([shared, once.drop_duplicates("item")]))
    found = aggregate(table, "dawid-skene")
    assert any("50 of 100 items (50%)" in warning for warning in found.warnings)
    assert any("task once" in warning for warning in found.warnings)
    alone = table.item_tasks == [task.name for task in table.tasks].index("once")
    assert np.isnan(found.confidence[alone]).all() and np.isfinite(found.confidence[~alone]).all()
    assert (found.labels[alone] == table.label[alone[table.item]]).all()
    assert found.annotators.query("task == 'once'")["accuracy"].isna().all()


def test_an_item_without_annotations_gets_no_label() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=7)))
    table = table.keep_annotations(table.item != 3)
    found = aggregate(table, "dawid-skene")
    assert found.labels[3] == -1 and np.isnan(found.confidence[3]) and (np.delete(found.labels, 3) >= 0).all()
    assert found.table(table)["label"].isna().sum() == 1
    assert any("1 item has no annotation" in warning for warning in found.warnings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("use_gold", [False, True])
def test_the_posterior_is_a_distribution_over_the_items_own_options(method: str, use_gold: bool) -> None:
    tasks = [frame_of(simulate(seed=k, n_items=40, n_options=k), f"of {k}") for k in (2, 3)]
    table = Annotations.from_pandas(pd.concat(tasks))
    table = table.keep_annotations(table.item != 3)
    found = aggregate(table, method, use_gold=use_gold)
    known = found.labels >= 0
    assert found.posterior.shape == (80, 3) and not found.posterior[~known].any() and known[4:].all()
    np.testing.assert_allclose(found.posterior[known].sum(axis=1), 1.0)
    beyond = np.arange(3) >= table.option_counts[:, None]
    assert not found.posterior[beyond].any()
    best = found.posterior[np.arange(80), np.maximum(found.labels, 0)]
    np.testing.assert_allclose(best[known], found.posterior.max(axis=1)[known])
    np.testing.assert_array_equal(best[known], found.confidence[known])


def test_gold_is_not_looked_at_unless_asked() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=8, low=0.2, high=0.7)))
    for method in METHODS:
        plain, blind = aggregate(table, method), aggregate(table.without_gold(), method)
        np.testing.assert_array_equal(plain.confidence, blind.confidence)
        np.testing.assert_array_equal(plain.labels, blind.labels)
        np.testing.assert_array_equal(aggregate(table, method, use_gold=True).labels, table.gold)
    with pytest.raises(RealmError, match="no gold"):
        aggregate(table.without_gold(), "majority", use_gold=True)


def test_the_seed_decides_ties_and_nothing_else() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=9, per_item=4, n_options=2)))
    first, other = aggregate(table, "majority", seed=0), aggregate(table, "majority", seed=1)
    differ = first.labels != other.labels
    assert differ.any()
    np.testing.assert_allclose(first.confidence[differ], 0.5)
    np.testing.assert_array_equal(first.labels, aggregate(table, "majority", seed=0).labels)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("method", "accuracy"), [("majority", 0.886), ("dawid-skene", 0.915), ("one-coin", 0.917), ("glad", 0.917)]
)
def test_accuracy_on_sentpolarity(shared_data: Path, method: str, accuracy: float) -> None:
    table = Annotations.read(shared_data / "sentpolarity" / "annotations.csv")
    found = aggregate(table.without_gold(), method)
    assert float((found.labels == table.gold).mean()) == pytest.approx(accuracy, abs=0.003)
