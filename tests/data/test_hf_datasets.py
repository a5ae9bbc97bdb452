"""The `datasets` library in and out: names of labels survive, splits are asked for, and nothing is read as a number."""

from __future__ import annotations

from typing import Any

import datasets
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.data import Annotations, Task
from realm.errors import RealmError
from tests.data.test_write import same, tables

ROWS = {"text": ["a", "a", "b"], "annotator": ["w1", "w2", "w1"], "label": [1, 0, 2]}
NAMES = ["unhappy", "happy", "average", "never given"]


def dataset(**columns: Any) -> datasets.Dataset:
    made = datasets.Dataset.from_dict({**ROWS, **columns})
    return made.cast_column("label", datasets.ClassLabel(names=NAMES))


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_table_as_a_dataset_and_back_is_equal(data: st.DataObject) -> None:
    try:
        table = data.draw(tables())
    except RealmError as error:
        assert "single class" in str(error)
        return
    # text columns of several tasks do not say which labels nobody gave
    known = {} if len(table.tasks) == 1 else {"tasks": table.tasks}
    same(Annotations.from_dataset(table.to_dataset(), **known), table)


def test_class_labels_are_read_by_name_and_declare_the_label_set() -> None:
    table = Annotations.from_dataset(dataset())
    assert table.tasks == (Task("default", tuple(NAMES)),)
    assert table.to_pandas()["label"].tolist() == ["happy", "unhappy", "average"]
    assert table.to_dataset().features["label"].names == NAMES
    given = Annotations.from_dataset(dataset(), labels=["average", "happy", "unhappy"])
    assert given.tasks[0].labels == ("average", "happy", "unhappy"), "what the caller lists wins"


def test_minus_one_is_no_label() -> None:
    source = dataset(label=[1, -1, 2])
    with pytest.raises(RealmError, match="row 2"):
        Annotations.from_dataset(source)
    table = Annotations.from_dataset(source, missing="drop")
    assert table.to_pandas()["label"].tolist() == ["happy", "average"]
    gold = dataset(gold=[1, 1, -1]).cast_column("gold", datasets.ClassLabel(names=NAMES))
    assert Annotations.from_dataset(gold).gold.tolist() == [1, -1]


def test_a_split_is_asked_for_where_there_are_several() -> None:
    both = datasets.DatasetDict(train=dataset(), test=dataset().select([0]))
    same(Annotations.from_dataset(both, "train"), Annotations.from_dataset(dataset()))
    same(Annotations.from_dataset(datasets.DatasetDict(train=dataset())), Annotations.from_dataset(dataset()))
    with pytest.raises(RealmError, match=r"no single split `None`\. Name one with `split`; there are: test, train"):
        Annotations.from_dataset(both)
    with pytest.raises(RealmError, match="no single split `dev`"):
        Annotations.from_dataset(both, "dev")
    with pytest.raises(RealmError, match='`split="train"` is for a DatasetDict; this is Dataset'):
        Annotations.from_dataset(dataset(), "train")


@pytest.mark.parametrize("wrong", [dataset().to_iterable_dataset(), pd.DataFrame(ROWS), "imdb"])
def test_what_is_no_dataset_is_refused(wrong: Any) -> None:
    with pytest.raises(RealmError, match=rf"`dataset` is {type(wrong).__name__}: give a datasets.Dataset"):
        Annotations.from_dataset(wrong)
