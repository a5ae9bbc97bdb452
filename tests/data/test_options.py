"""Multiple choice: options from lists, JSON or columns; labels by index, letter or text."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from realm.data.annotations import Annotations
from realm.data.items import Items, Task
from realm.errors import RealmError

OPTIONS = [["red", "green", "blue"], ["yes", "no"]]


def table(labels: list[Any], options: Any = None, **more: Any) -> Annotations:
    options = OPTIONS if options is None else options
    source = pd.DataFrame({"text": ["q1", "q2"], "annotator": ["w", "w"], "options": options, "label": labels})
    return Annotations.from_pandas(source, **more)


@pytest.mark.parametrize("labels", [[2, 1], ["2", "1"], [2.0, 1.0], ["C", "B"], ["c", "b"], ["blue", "no"]])
def test_every_form_of_label(labels: list[Any]) -> None:
    read = table(labels)
    assert read.label.tolist() == [2, 1]
    assert read.tasks == (Task("default", None),)
    assert read.option_counts.tolist() == [3, 2]
    assert read.options_of(1) == ["yes", "no"]
    assert read.label_name(0, 2) == "blue"


def test_options_as_json() -> None:
    read = table(["blue", "no"], [json.dumps(options) for options in OPTIONS])
    assert read.label.tolist() == [2, 1]
    with pytest.raises(RealmError, match="row 2: the options in column 'options' are not a list"):
        table(["blue", "no"], ['["red", "blue"]', "yes; no"])


def test_options_in_columns() -> None:
    source = pd.DataFrame(
        {
            "text": ["q1", "q2"],
            "annotator": ["w", "w"],
            "o1": ["red", "yes"],
            "o2": ["green", "no"],
            "o3": ["blue", None],
        }
    )
    read = Annotations.from_pandas(source.assign(label=["blue", "no"]), options="o1, o2,o3")
    assert [read.options_of(0), read.options_of(1)] == OPTIONS
    with pytest.raises(RealmError, match='`options="o9"`'):
        Annotations.from_pandas(source.assign(label=["blue", "no"]), options="o1, o9")


def test_two_readings_that_differ_ask_for_label_form() -> None:
    options = [["1", "0"], ["0", "1"]]
    with pytest.raises(RealmError, match=r"row 1: the label '0' can be read as index and as text.*`label_form="):
        table(["0", "0"], options)
    assert table(["0", "0"], options, label_form="text").label.tolist() == [1, 0]
    assert table(["0", "0"], options, label_form="index").label.tolist() == [0, 0]


@pytest.mark.parametrize("labels", [[3, 0], ["D", "A"], ["mauve", "no"], ["blue", 0]])
def test_a_label_that_is_no_option(labels: list[Any]) -> None:
    with pytest.raises(RealmError, match="is none of the item's options"):
        table(labels)


def test_the_same_question_with_other_options_is_another_item() -> None:
    source = pd.DataFrame(
        {"text": ["q", "q"], "annotator": ["w", "w"], "options": [["a", "b"], ["a", "c"]], "label": [0, 1]}
    )
    assert Annotations.from_pandas(source).n_items == 2
    with pytest.raises(RealmError, match="rows 1 and 2: the item '1' has two different options"):
        Annotations.from_pandas(source.assign(item="1"))


def test_tasks_with_options_and_tasks_with_labels_side_by_side() -> None:
    source = pd.DataFrame(
        {
            "text": ["q", "s", "s"],
            "task": ["quiz", "mood", "mood"],
            "annotator": ["w", "w", "v"],
            "options": [["a", "b"], None, None],
            "label": ["b", "good", "bad"],
        }
    )
    read = Annotations.from_pandas(source)
    assert read.tasks == (Task("quiz", None), Task("mood", ("bad", "good")))
    assert read.label.tolist() == [1, 1, 0]
    with pytest.raises(RealmError, match="row 3: the items of task 'mood' list their own options"):
        Annotations.from_pandas(source.assign(options=[["a", "b"], ["good", "bad"], None]))


def test_a_run_with_options_needs_options() -> None:
    quiz = (Task("default", None),)
    with pytest.raises(RealmError, match="`options`"):
        Items.from_pandas(pd.DataFrame({"text": ["q"]}), tasks=quiz)
    read = Items.from_pandas(pd.DataFrame({"text": ["q"], "options": [["a", "b"]]}), tasks=quiz)
    assert read.option_counts.tolist() == [2]


def test_an_option_that_is_written_like_a_number_is_not_rewritten() -> None:
    source = pd.DataFrame(
        {
            "text": ["How many?"] * 2,
            "annotator": ["ada", "bob"],
            "label": ["2.0", "0.0"],
            "gold": ["2.0", None],
            "options": [["2.0", "0.0", "1.0"]] * 2,
        }
    )
    read = Annotations.from_pandas(source)
    assert [read.label_name(0, int(label)) for label in read.label] == ["2.0", "0.0"]
    assert read.gold is not None and read.label_name(0, int(read.gold[0])) == "2.0"
    assert read.ledger.counts == {}


def test_indices_written_like_1_0_still_point_at_options() -> None:
    assert table(["2.0", "1.0"]).label.tolist() == [2, 1]
