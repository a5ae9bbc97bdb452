"""`Items`: what is to be labelled, and nothing of who labelled it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.data import Items, Task
from realm.errors import RealmError

TONE, QUIZ = Task("tone", ("bad", "good")), Task("quiz", None)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(lambda text: text.strip())


def mixed() -> Items:
    frame = pd.DataFrame(
        {
            "item": list("1234"),
            "text": ["a", "b", "a", "c"],
            "context": [None, "p", None, "q"],
            "task": ["tone", "quiz", "tone", "quiz"],
            "options": [None, ["x", "y", "z"], None, ["yes", "no"]],
        }
    )
    return Items.from_pandas(frame, tasks=[TONE, QUIZ])


def test_the_columns_and_one_item_at_a_time() -> None:
    items = mixed()
    assert len(items) == 4 and items.tasks == (TONE, QUIZ) and repr(items) == "Items(4 items, 2 tasks)"
    assert items.option_counts.tolist() == [2, 3, 2, 2]
    assert items.options_of(1) == ["x", "y", "z"] and items.label_name(0, 1) == "good"
    assert [tuple(item) for item in items] == [
        ("1", "a", None, ["bad", "good"]),
        ("2", "b", "p", ["x", "y", "z"]),
        ("3", "a", None, ["bad", "good"]),
        ("4", "c", "q", ["yes", "no"]),
    ]


def test_neither_annotations_nor_gold_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", "b", "a"], "annotator": ["", "w", "w"], "label": [None, "x", "y"], "gold": 3})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for items in (Items.from_pandas(frame, tasks=[TONE]), Items.read(tmp_path / "t.csv", tasks=[TONE])):
        assert items.texts.to_pylist() == ["a", "b"] and not hasattr(items, "gold")
    with pytest.raises(RealmError, match="there is no column 'text'"):
        Items.from_pandas(frame.drop(columns="text"))


@pytest.mark.parametrize(
    ("texts", "tasks", "task", "message"),
    [
        ("a film", [TONE], None, "give a list of texts"),
        (["a", 3], [TONE], None, "every text must be a string"),
        (["a"], [TONE, QUIZ], None, "name the task of the texts. There are: tone, quiz"),
        (["a"], [TONE], "mood", "`task=mood`: name the task of the texts. There are: tone"),
        (["a"], [TONE, QUIZ], "quiz", "the items of task 'quiz' list their own options"),
    ],
)
def test_texts_that_cannot_be_items(texts: Any, tasks: list[Task], task: str | None, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        Items.from_texts(texts, tasks, task=task)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), data=st.data())
def test_items_read_from_any_file_are_those_of_the_frame(tmp_path_factory, suffix, texts, data) -> None:
    contexts = [data.draw(st.one_of(st.none(), TEXTS)) for _ in texts]
    frame = pd.DataFrame({"text": texts, "context": pd.array(contexts, dtype="string")})
    path = tmp_path_factory.mktemp("items") / f"items{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False, lineterminator="\n", quoting=1)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    read, built = Items.read(path, tasks=[TONE]), Items.from_pandas(frame, tasks=[TONE])
    assert [tuple(item) for item in read] == [tuple(item) for item in built]
    assert read.item_tasks.tolist() == built.item_tasks.tolist() and read.tasks == built.tasks
