"""The canonical table written and read back is the same table, whatever is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realm.data import Annotations
from realm.data.write import labels_follow, to_arrow, write_table
from realm.errors import RealmError

# Every character but lone halves of pairs, which no file can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda text: text.strip())
labels = st.sampled_from(
    ["pos", "neg", "1", "1.0", "2", "Pos", "пос", " pos", "=1+1", "a,b", 'q"', "x\ny", "nil", "null"]
)


weights = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn) -> Annotations:
    rows = draw(st.lists(st.tuples(texts, texts, labels, st.sampled_from(["t", "u"])), min_size=2, max_size=12))
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label", "task"])
    if draw(st.booleans()):
        frame = frame.drop(columns="task")
    if draw(st.booleans()):
        frame["gold"] = [draw(st.sampled_from([None, label])) for label in frame["label"]]
    if draw(st.booleans()):
        frame["context"] = [draw(st.one_of(st.none(), texts)) for _ in rows]
    if draw(st.booleans()):
        frame["weight"] = [draw(weights) for _ in rows]
    return Annotations.from_pandas(
        frame, labels=None if draw(st.booleans()) else sorted(set(frame["label"]) | {"pos", "neg"}), exact_labels=True
    )


def same(one: Annotations, other: Annotations) -> None:
    assert to_arrow(one).equals(to_arrow(other))
    assert one.tasks == other.tasks
    assert (one.gold is None) == (other.gold is None)
    assert (one.weight is None) == (other.weight is None)
    assert one.items.fingerprint() == other.items.fingerprint()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_table_written_and_read_back_is_equal(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    try:
        table = data.draw(tables())
    except RealmError as error:
        assert "single class" in str(error)
        return
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    # `labels` holds for all tasks, so a file cannot bring back label sets that differ and do not follow from it.
    hint: Any = {} if labels_follow(table) else {"labels": table.tasks[0].labels}
    if not hint or len({task.labels for task in table.tasks}) == 1:
        same(table, Annotations.read(path, exact_labels=True, **hint))
    else:
        assert to_arrow(Annotations.read(path, exact_labels=True)).equals(to_arrow(table))


def quiz(options: list[list[str]], chosen: list[int], **more: Any) -> Annotations:
    frame = pd.DataFrame({"text": [f"q{k}" for k in range(len(options))], "annotator": "w", "options": options})
    return Annotations.from_pandas(frame.assign(label=chosen, **more), label_form="index")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([["red", "blue"], ["yes", "no", "maybe"]], [1, 2]),
        ([["1", "0"], ["0", "1"]], [1, 1]),
        ([["B", "A"], ["A", "B"]], [0, 1]),
        ([["a", "b", "b"], ["x", "y"]], [2, 0]),
        ([['say "no"', "a,b\nc"], ["[1]", "é"]], [0, 1]),
    ],
)
def test_multiple_choice_is_read_back(tmp_path: Path, suffix: str, options: list[list[str]], chosen: list[int]) -> None:
    table = quiz(options, chosen, gold=[0, None])
    write_table(table, tmp_path / f"t{suffix}")
    read = Annotations.read(tmp_path / f"t{suffix}")
    assert read.label.tolist() == chosen
    assert [read.options_of(i) for i in range(read.n_items)] == options
    assert read.gold is not None
    assert read.gold.tolist() == [0, -1]


def test_items_without_annotations_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": list("abc"), "annotator": ["w", None, "w"], "label": ["x", None, "y"]})
    table = Annotations.from_pandas(frame)
    write_table(table, tmp_path / "t.csv")
    read = Annotations.read(tmp_path / "t.csv")
    assert (read.n_items, read.n_annotations) == (3, 2)
    same(table, read)


def test_a_label_order_that_the_table_cannot_tell_does_not_follow() -> None:
    frame = pd.DataFrame({"text": list("ab"), "annotator": "w", "label": ["lo", "hi"]})
    assert labels_follow(Annotations.from_pandas(frame))
    assert not labels_follow(Annotations.from_pandas(frame, labels=["lo", "hi"]))
    assert not labels_follow(Annotations.from_pandas(frame, labels=["hi", "lo", "mid"]))


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    table = Annotations.from_pandas(pd.DataFrame({"text": list("ab"), "annotator": "w", "label": ["x", "y"]}))
    with pytest.raises(RealmError, match=r"must end in \.csv or \.parquet"):
        write_table(table, tmp_path / "t.xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises(RealmError, match="cannot be written"):
        write_table(table, tmp_path / "file" / "t.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
