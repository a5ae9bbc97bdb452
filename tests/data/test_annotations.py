"""Operations on the table, on the real data whose figures are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.errors import RealmError


@pytest.fixture(scope="module")
def sentpolarity(shared_data: Path) -> Annotations:
    return Annotations.read(shared_data / "sentpolarity" / "annotations.csv")


@pytest.mark.shared
def test_sentpolarity_has_the_figures_of_its_readme(sentpolarity: Annotations) -> None:
    assert (sentpolarity.n_items, sentpolarity.n_annotators, sentpolarity.n_annotations) == (4999, 203, 27746)
    assert not sentpolarity.ledger.counts


@pytest.mark.shared
@pytest.mark.parametrize(("least", "items", "annotations"), [(100, 4983, 18037), (10, 4136, 7327)])
def test_contrast_20(sentpolarity: Annotations, least: int, items: int, annotations: int) -> None:
    pool = sentpolarity.contrast(20, least)
    assert (pool.n_items, pool.n_annotators, pool.n_annotations) == (items, 40, annotations)


@pytest.mark.shared
def test_sparse_keeps_one_annotation_of_each_item(sentpolarity: Annotations) -> None:
    one = sentpolarity.sparse(3)
    assert one.n_items == sentpolarity.n_items
    assert (one.annotations_per_item == 1).all()
    assert one.label.tolist() == sentpolarity.sparse(3).label.tolist()
    assert one.label.tolist() != sentpolarity.sparse(4).label.tolist()


@pytest.mark.shared
def test_questions_with_their_own_options(shared_data: Path) -> None:
    for name, items in (("obqa", 4957), ("piqa", 1338), ("pubmedqa", 500), ("arc_challenge", 1117)):
        table = Annotations.read_test(
            shared_data / name / "train.jsonl",
            text="question",
            options="choices",
            gold="answer",
            item="id",
        )
        assert table.n_items == items
        assert table.gold is not None
        assert (table.gold >= 0).all()


def table() -> Annotations:
    rows = [(text, f"w{k}", "xyx"[(k + len(text)) % 3]) for text in ("a", "bb", "ccc") for k in range(4)]
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label"])
    return Annotations.from_pandas(frame.assign(gold="x"))


def test_contrast_takes_lowest_and_highest_without_overlap() -> None:
    pool = table().contrast(2)
    assert pool.n_annotators == 4
    with pytest.raises(RealmError, match="contrast 3 needs 6 annotators"):
        table().contrast(3)
    with pytest.raises(RealmError, match="no gold"):
        table().without_gold().contrast(1)


def test_split_keeps_equal_texts_together() -> None:
    frame = pd.DataFrame(
        {"text": [f"t{k % 40}" for k in range(80)], "task": ["u", "v"] * 40, "annotator": "w", "label": 0}
    )
    frame["label"] = np.arange(80) % 3
    first, second = Annotations.from_pandas(frame, labels=["0", "1", "2"]).split(0.25, seed=1)
    assert not set(first.texts.to_pylist()) & set(second.texts.to_pylist())
    assert 0 < second.n_items < first.n_items


def test_a_question_asked_of_many_contexts_is_split_by_context() -> None:
    frame = pd.DataFrame(
        {"text": "Is it good?", "context": [f"c{k % 40}" for k in range(80)], "task": np.arange(80) // 40}
    )
    frame = frame.assign(annotator="w", label=np.arange(80) % 2)
    made = Annotations.from_pandas(frame, labels=["0", "1"])
    first, second = made.split(0.25, seed=1)
    assert not set(first.items.contexts.to_pylist()) & set(second.items.contexts.to_pylist())
    assert second.n_items == 20
    assert np.bincount(made.items.folds(5)).tolist() == [16] * 5


def test_a_split_leaves_neither_half_empty() -> None:
    made = Annotations.from_pandas(pd.DataFrame({"text": ["a", "b", "c"], "annotator": "w", "label": ["x", "y", "x"]}))
    assert [half.n_items for half in made.split(0.01)] == [2, 1]
    alone = Annotations.from_pandas(pd.DataFrame({"text": ["a"], "annotator": "w", "label": ["x"]}), labels=["x", "y"])
    with pytest.raises(RealmError, match="nothing can be held out"):
        alone.split(0.5)
    with pytest.raises(RealmError, match="too few for 5 folds"):
        made.items.folds(5)


def test_select() -> None:
    chosen = table().select(annotators=["w1", "w2"])
    assert chosen.annotators == ("w1", "w2")
    assert chosen.n_annotations == 6
    with pytest.raises(RealmError, match="no such annotators: nobody"):
        table().select(annotators=["nobody"])


def test_take_items_carries_everything(sentpolarity_like: Annotations) -> None:
    taken = sentpolarity_like.take_items(np.array([2, 0]))
    frame, whole = taken.to_pandas(), sentpolarity_like.to_pandas()
    for text in ("a", "ccc"):
        assert (
            frame[frame["text"] == text]
            .reset_index(drop=True)
            .equals(whole[whole["text"] == text].reset_index(drop=True))
        )


@pytest.fixture
def sentpolarity_like() -> Annotations:
    return table()
