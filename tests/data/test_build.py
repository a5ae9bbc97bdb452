"""Building the table: identities, inventories, gold, duplicates, missing values, and the errors that name rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations, Task
from realm.data.build import CONTRADICTED, GOLD_CHANGED, NO_ANNOTATION, NO_LABEL, POINT_ZERO, REPEATED
from realm.data.corrections import SPELLED
from realm.errors import RealmError


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def small(**more: Any) -> pd.DataFrame:
    return frame(text=["a", "a", "b"], annotator=["w1", "w2", "w1"], label=["pos", "neg", "neg"], **more)


def test_items_annotators_and_labels_are_numbered_in_order() -> None:
    table = Annotations.from_pandas(small())
    assert (table.n_items, table.n_annotators, table.n_annotations) == (2, 2, 3)
    assert table.annotators == ("w1", "w2")
    assert table.texts.to_pylist() == ["a", "b"]
    assert table.tasks == (Task("default", ("neg", "pos")),)
    assert table.item.tolist() == [0, 0, 1]
    assert table.label.tolist() == [1, 0, 0]
    assert table.item.dtype == table.annotator.dtype == table.label.dtype == np.int32


def test_missing_required_column_names_the_flag_and_the_columns() -> None:
    with pytest.raises(RealmError, match=r"no column 'annotator'.*text, label.*`annotator`"):
        Annotations.from_pandas(small().drop(columns="annotator"))


# ---------------------------------------------------------------- items


def test_items_by_id_within_task() -> None:
    table = Annotations.from_pandas(
        small(item=["1", "1", "1"], task=["t", "t", "u"]).assign(label=["p", "q", "p"]), labels=["p", "q"]
    )
    assert table.n_items == 2
    assert table.item_ids.to_pylist() == ["1", "1"]
    assert [task.name for task in table.tasks] == ["t", "u"]


def test_one_id_with_two_texts_names_both_rows() -> None:
    with pytest.raises(RealmError, match=r"rows 1 and 3: the item '1' has two different texts"):
        Annotations.from_pandas(small(item=["1", "1", "1"]))
    table = small(item=["1", "1", "1"]).assign(text=["a b", "a b", "a  b "])
    with pytest.raises(RealmError, match=r"which differ in spaces alone\..* trim them, name the task"):
        Annotations.from_pandas(table)


def test_ids_of_items_without_are_the_same_in_every_table() -> None:
    one, other = Annotations.from_pandas(small()), Annotations.from_pandas(small().iloc[::-1])
    ids = dict(zip(one.texts.to_pylist(), one.item_ids.to_pylist(), strict=True))
    assert ids == dict(zip(other.texts.to_pylist(), other.item_ids.to_pylist(), strict=True))
    assert len(set(ids.values())) == 2


# ---------------------------------------------------------------- labels and gold


def test_numbers_sort_as_numbers() -> None:
    table = Annotations.from_pandas(frame(text=list("abc"), annotator=["w"] * 3, label=[10, 9, -1]))
    assert table.tasks[0].labels == ("-1", "9", "10")


def test_text_labels_1_and_1_0_are_one_and_counted() -> None:
    table = Annotations.from_pandas(frame(text=list("abc"), annotator=["w"] * 3, label=["1", "1.0", "2"]))
    assert table.tasks[0].labels == ("1", "2")
    assert table.ledger.counts == {POINT_ZERO: 1}
    assert table.ledger.rows == {POINT_ZERO: [2]}


def test_versions_are_not_numbers() -> None:
    table = Annotations.from_pandas(frame(text=list("abc"), annotator=["w"] * 3, label=["1.0", "1", "1.5"]))
    assert table.tasks[0].labels == ("1", "1.0", "1.5")


def test_gold_written_as_1_0_meets_label_1() -> None:
    table = Annotations.from_pandas(frame(text=list("ab"), annotator=["w"] * 2, label=["0", "1"], gold=["1.0", ""]))
    assert table.gold is not None
    assert table.gold.tolist() == [1, -1]


def test_gold_is_spelled_as_labels_that_are_not_whole() -> None:
    table = Annotations.from_pandas(
        frame(text=list("ab"), annotator=["w"] * 2, label=["1.0", "1.5"], gold=["1.0", "1.0"])
    )
    assert table.gold is not None
    assert table.gold.tolist() == [0, 0]


def test_the_inventory_never_comes_from_gold() -> None:
    with pytest.raises(RealmError, match=r"row 2: the gold 'other' is not among the labels: neg, pos"):
        Annotations.from_pandas(small(gold=["pos", "other", "neg"]))


def test_deleting_gold_changes_nothing_else() -> None:
    with_gold, without = Annotations.from_pandas(small(gold=["pos", "pos", None])), Annotations.from_pandas(small())
    assert with_gold.tasks == without.tasks
    assert with_gold.label.tolist() == without.label.tolist()
    assert with_gold.item_ids.equals(without.item_ids)


def test_a_later_gold_is_kept_and_counted() -> None:
    table = Annotations.from_pandas(small(gold=["pos", "neg", "neg"]))
    assert table.gold is not None
    assert table.gold.tolist() == [0, 0]
    assert table.ledger.counts == {GOLD_CHANGED: 1}


def test_each_task_has_its_own_labels() -> None:
    table = Annotations.from_pandas(
        frame(text=list("aabb"), annotator=["w", "v"] * 2, label=["x", "y", "1", "2"], task=["t", "t", "u", "u"])
    )
    assert table.tasks == (Task("t", ("x", "y")), Task("u", ("1", "2")))


def test_the_tasks_of_a_run_give_their_numbers() -> None:
    tasks = (Task("u", ("b", "a")), Task("t", ("x", "y")))
    table = Annotations.test_from_pandas(frame(text=["q", "r"], task=["t", "u"], gold=["y", "a"]), tasks=tasks)
    assert table.tasks == tasks
    assert table.item_tasks.tolist() == [1, 0]
    assert table.gold is not None
    assert table.gold.tolist() == [1, 1]
    with pytest.raises(RealmError, match="row 1: the task 'v'"):
        Annotations.test_from_pandas(frame(text=["q"], task=["v"], gold=["y"]), tasks=tasks)
    with pytest.raises(RealmError, match="row 1: the gold 'z'"):
        Annotations.test_from_pandas(frame(text=["q"], task=["t"], gold=["z"]), tasks=tasks)
    with pytest.raises(RealmError, match="`task`"):
        Annotations.test_from_pandas(frame(text=["q"], gold=["y"]), tasks=tasks)


# ---------------------------------------------------------------- missing and repeated


@pytest.mark.parametrize("nothing", [None, "", "  ", "nan", "NaN", float("nan")])
def test_a_missing_label(nothing: Any) -> None:
    source = frame(text=list("abc"), annotator=["w"] * 3, label=["x", nothing, "y"])
    with pytest.raises(RealmError, match=r'row 2: no label \(1 in all\).*`missing="drop"`'):
        Annotations.from_pandas(source)
    table = Annotations.from_pandas(source, missing="drop")
    assert table.n_annotations == 2
    assert table.ledger.counts == {NO_LABEL: 1}
    assert table.ledger.rows == {NO_LABEL: [2]}


@pytest.mark.parametrize("column", ["annotator", "text", "task", "item"])
def test_a_missing_annotator_text_task_or_id(column: str) -> None:
    source = small(task=["t"] * 3, item=["1", "1", "2"])
    source.loc[2, column] = ""
    with pytest.raises(RealmError, match=f"row 3: no {column}"):
        Annotations.from_pandas(source)


def test_a_row_with_neither_annotator_nor_label_is_an_item_without_annotations() -> None:
    source = pd.concat([small(), frame(text=["c"], annotator=[None], label=[None])])
    table = Annotations.from_pandas(source)
    assert (table.n_items, table.n_annotations) == (3, 3)
    assert table.ledger.counts == {NO_ANNOTATION: 1}


def test_repeats_and_contradictions() -> None:
    table = Annotations.from_pandas(
        frame(
            text=["a", "a", "a", "b", "b"],
            annotator=["w", "w", "w", "v", "v"],
            label=["x", "y", "x", "y", "x"],
        ),
        repeats="last",
    )
    assert table.n_annotations == 2
    assert table.label.tolist() == [0, 0]
    assert table.ledger.counts == {REPEATED: 1, CONTRADICTED: 2}
    assert table.ledger.rows == {REPEATED: [1], CONTRADICTED: [2, 4]}


def test_mixed_types_in_one_column() -> None:
    table = Annotations.from_pandas(frame(text=list("abcd"), annotator=[1, "1", 2.0, True], label=[1, "1", 2.0, "two"]))
    assert table.annotators == ("1", "2", "True")
    assert table.tasks[0].labels == ("1", "2", "two")


def test_source_rows_are_kept_on_request() -> None:
    table = Annotations.from_pandas(
        frame(text=list("aba"), annotator=["w", "w", "v"], label=["x", "y", "y"]), keep_rows=True
    )
    assert table.source_rows is not None
    assert table.source_rows.tolist() == [1, 3, 2]
    assert table.sparse(0).source_rows is not None
    assert Annotations.from_pandas(small()).source_rows is None


def test_annotators_whose_names_look_alike_are_named() -> None:
    rows = [("one", "ann", "a"), ("one", " ann ", "b"), ("two", "Ann", "a"), ("two", "bob", "b")]
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label"])
    table = Annotations.from_pandas(frame)
    assert table.annotators == ("ann", "Ann", "bob") and table.ledger.rows == {SPELLED: [2]}
    (warning,) = [text for text in table.ledger.warnings if "look alike" in text]
    assert "'ann' and 'Ann'" in warning and "`map_annotators`" in warning and "bob" not in warning
    assert Annotations.from_pandas(frame, map_annotators={"Ann": "ann"}).annotators == ("ann", "bob")
    assert not Annotations.from_pandas(frame.iloc[[0, 3]]).ledger.warnings


def test_a_column_called_gold_that_holds_the_labels_is_not_gold() -> None:
    frame = pd.DataFrame([("one", "ann", "a"), ("two", "bob", "b")], columns=["text", "annotator", "gold"])
    assert Annotations.from_pandas(frame, label="gold").gold is None
    with pytest.raises(RealmError, match="`label` and `gold` are both the column 'gold'"):
        Annotations.from_pandas(frame, label="gold", gold="gold")
