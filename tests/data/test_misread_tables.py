"""Tables that used to be read wrong without a word: each is read right now, or refused, and what is changed is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm import Annotations, RealmConfig, RealmError
from realm.data.answers import SEVERAL_FIRST
from realm.data.build import CONTRADICTED
from realm.data.corrections import SPELLED
from realm.data.read_options import ReadOptions
from realm.data.readers.tables import HEADER_AGAIN
from realm.data.roles import TrainedColumns


def crowd(items: int = 30) -> pd.DataFrame:
    """A table as crowd-kit and cleanlab have it: three workers, 20 items, two labels."""
    rows = [(f"i{n}", f"w{w}", "ab"[(n + (w == 2 and n % 3 == 0)) % 2]) for n in range(items) for w in range(3)]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def labels_of(table: Annotations) -> list[str]:
    return [table.label_name(item, label) for item, label in zip(table.item, table.label, strict=True)]


# ---------------------------------------------------------------- options


def test_options_are_passed_whole_or_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    crowd().rename(columns={"task": "review"}).to_csv(path, index=False)
    options = ReadOptions(text="review", labels="b,a")
    table = Annotations.read(path, options, annotator="worker")
    assert table.tasks[0].labels == ("b", "a") and table.annotators == ("w0", "w1", "w2")
    with pytest.raises(RealmError, match=r"`txt`: there is no such argument. Did you mean `text`"):
        Annotations.read(path, options, txt="x")  # type: ignore[call-arg]
    for internal in ({"rows": 1}, {"ledger": None}, {"wants": "gold"}, {"source_rows": 1}):
        with pytest.raises(RealmError, match="there is no such argument"):
            Annotations.read(path, **internal)  # type: ignore[arg-type]
    assert "labels" in Annotations.read.__signature__.parameters  # type: ignore[attr-defined]


# ---------------------------------------------------------------- roles


@pytest.mark.parametrize("flags", [{}, {"item": "task"}, {"text": "task"}], ids=str)
def test_a_table_whose_items_are_called_tasks(flags: dict[str, str], tmp_path: Path, realm_cli: Any) -> None:
    crowd().to_csv(tmp_path / "t.csv", index=False)
    table = Annotations.read(tmp_path / "t.csv", **flags)  # type: ignore[arg-type]
    assert (table.n_items, len(table.tasks), table.n_annotators) == (30, 1, 3)
    assert table.has_texts == ("text" in flags)
    words = [word for role, column in flags.items() for word in (f"--{role}", column)]
    for command in ("check", "aggregate", "judges"):
        assert realm_cli(command, tmp_path / "t.csv", *words)[0] == 0


def test_training_needs_texts(tmp_path: Path) -> None:
    from realm import RealmTrainer

    table = Annotations.from_pandas(crowd())
    assert "has no texts" in table.ledger.warnings[0] and "`text`" in table.ledger.warnings[0]
    with pytest.raises(RealmError, match=r"has no texts: the column 'task'.*`text`"):
        RealmTrainer("no model", table, RealmConfig(str(tmp_path / "run")))


def test_as_many_tasks_as_items_are_refused_with_the_flag_to_give() -> None:
    frame = crowd().assign(text=lambda table: "text " + table["task"])
    with pytest.raises(RealmError, match=r"'task' makes 30 tasks of 30 items.*`item=\"task\"`"):
        Annotations.from_pandas(frame)
    assert len(Annotations.from_pandas(frame, item="task").tasks) == 1


# ---------------------------------------------------------------- spellings


def test_labels_that_differ_in_case_and_spaces_are_one() -> None:
    frame = pd.DataFrame(
        {
            "text": list("abcdef"),
            "annotator": "w",
            "label": [" billing", "billing", "Billing ", "billing", "ACCOUNT", "Account"],
            "gold": ["Billing", "billing", "BILLING", None, "account", "Account"],
        }
    )
    table = Annotations.from_pandas(frame)
    assert table.tasks[0].labels == ("ACCOUNT", "billing") and table.gold is not None
    assert table.gold.tolist() == [1, 1, 1, -1, 0, 0]
    (label, gold) = table.ledger.counts
    assert "' billing' as 'billing'" in label and "`exact_labels`" in label and table.ledger.rows[label] == [1, 3, 6]
    assert gold.startswith("gold in another case")
    exact = Annotations.from_pandas(frame.drop(columns="gold"), exact_labels=True)
    assert len(exact.tasks[0].labels or ()) == 5
    listed = Annotations.from_pandas(frame.drop(columns="gold"), labels=["Billing", "account"])
    assert listed.tasks[0].labels == ("Billing", "account")
    test = Annotations.test_from_pandas(frame[["text", "gold"]].dropna(), tasks=table.tasks)
    assert test.gold is not None and test.gold.tolist() == [1, 1, 1, 0, 0]


def test_annotators_of_two_spellings_are_one(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"text": list("abcde"), "annotator": ["1", "1.0", " ann ", "ann", "bob"], "label": list("xyxyx")}
    )
    table = Annotations.from_pandas(frame)
    assert table.annotators == ("1", "ann", "bob") and table.ledger.rows[SPELLED] == [2, 3]
    mapped = Annotations.from_pandas(frame, map_annotators={"bob": "ann"})
    assert mapped.annotators == ("1", "ann")
    (tmp_path / "map.csv").write_text("from,to\nbob,ann\n")
    assert Annotations.from_pandas(frame, map_annotators=tmp_path / "map.csv").annotators == ("1", "ann")
    for named in ("1", "1.0"):
        assert Annotations.from_pandas(frame, exclude=[named]).annotators == ("ann", "bob")
    with pytest.raises(RealmError, match="`map_annotators`: 'bob' has no annotator to become"):
        Annotations.from_pandas(frame, map_annotators={"bob": None})


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_header_in_the_middle_is_no_annotation(name: str, tmp_path: Path) -> None:
    """What `cat a.csv b.csv` makes."""
    frame = pd.DataFrame({"text": list("ab"), "annotator": list("vw"), "label": list("xy")})
    both = pd.concat([frame, pd.DataFrame([frame.columns], columns=frame.columns), frame])
    write = {"csv": "to_csv", "jsonl": "to_json", "parquet": "to_parquet"}[name.split(".")[1]]
    options = {"to_csv": {"index": False}, "to_json": {"orient": "records", "lines": True}}.get(write, {})
    getattr(both, write)(tmp_path / name, **options)
    table = Annotations.read(tmp_path / name)
    assert table.annotators == ("v", "w") and table.ledger.rows == {HEADER_AGAIN: [3]}


def test_annotator_and_label_swapped_with_labels_spelled_in_many_ways() -> None:
    """Eight agents, three of them on each of 400 items, whose four labels have several spellings and a few repeats."""
    draw = np.random.default_rng(0)
    rows = []
    for item in range(400):
        truth = draw.integers(4)
        for agent in draw.choice(8, 3, replace=False):
            label = "abcd"[truth if draw.random() < 0.8 else draw.integers(4)]
            rows.append(
                (f"t{item}", f"agent {agent}", [label, label.upper(), f" {label}"][draw.choice(3, p=[0.8, 0.1, 0.1])])
            )
    rows += [(rows[0][0], rows[0][1], "d"), (rows[3][0], rows[3][1], "a")]
    frame = pd.DataFrame(rows, columns=["text", "who", "what"])
    with pytest.raises(RealmError, match=r'annotator and label are swapped. Give `annotator="who"`'):
        Annotations.from_pandas(frame, annotator="what", label="who")
    assert Annotations.from_pandas(frame, annotator="who", label="what").n_annotators == 8


def test_a_list_of_one_answer_is_that_answer() -> None:
    records = [
        {"text": t, "annotator": "w", "label": label} for t, label in zip("abcd", ["a", ["a"], ["b"], "b"], strict=True)
    ]
    assert Annotations.from_list(records).tasks[0].labels == ("a", "b")
    several = Annotations.from_list([*records, {"text": "e", "annotator": "w", "label": ["b", "a"]}], multi="first")
    assert labels_of(several)[-1] == "b" and several.ledger.counts == {SEVERAL_FIRST: 1}


def test_the_last_label_is_the_latest_where_there_are_times() -> None:
    frame = pd.DataFrame({"text": list("aab"), "annotator": list("wwv"), "label": list("xyy")})
    frame["created_at"] = ["2024-05-02", "2024-05-01", "2024-05-03"]
    table = Annotations.from_pandas(frame, repeats="last")
    assert labels_of(table) == ["x", "y"] and table.ledger.rows == {CONTRADICTED: [2]}


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("other", [None, 0.5, "x", 2**64 - 1])
def test_large_ids_are_exact(other: object) -> None:
    big = 9007199254740993
    records: list[dict[str, Any]] = [
        {"id": big, "text": "a", "annotator": "v", "label": "x"},
        {"id": big + 1, "text": "b", "annotator": "v", "label": "y"},
    ]
    if other is not None:
        records.append({"id": other, "text": "c", "annotator": "v", "label": "y"})
    for table in (
        Annotations.from_list(records, item="id"),
        Annotations.from_pandas(pd.DataFrame(records, dtype=object), item="id"),
    ):
        assert table.item_ids.to_pylist()[:2] == [str(big), str(big + 1)]


# ---------------------------------------------------------------- tables themselves


def test_what_a_table_cannot_be_is_refused() -> None:
    table = Annotations.from_pandas(crowd())
    with pytest.raises(RealmError, match="numbered from 0 to 29"):
        table.take_items(np.array([-1]))
    with pytest.raises(RealmError, match="no such items: nope"):
        table.select(items=["nope"])
    with pytest.raises(ValueError, match="read-only"):
        table.label[0] = 3
    with pytest.raises(ValueError, match="sorted by item"):
        Annotations(table.items, table.annotators, table.item[::-1], table.annotator, table.label)
    with pytest.raises(RealmError, match="there is no column 'text'"):
        Annotations.from_list([{1: 2}])  # type: ignore[dict-item]


def test_renamed_annotators_are_remembered() -> None:
    frame = pd.DataFrame({"text": list("abc"), "annotator": ["ann", "bob", "cyd"], "label": list("xyx")})
    table = Annotations.from_pandas(frame, map_annotators={"bob": "ann"})
    trained = TrainedColumns("the run", table.columns, None, table.corrections)
    again = Annotations.from_pandas(frame, trained=trained)
    assert again.annotators == ("ann", "cyd") and not again.ledger.warnings


def test_ids_1_and_1_0_are_one_item_unless_an_id_is_no_number() -> None:
    """A column of whole numbers with a gap is written with points: half of the rows would be other items."""
    frame = pd.DataFrame(
        {
            "id": ["1", "1.0", "2", "2.0"],
            "text": ["a", "a", "b", "b"],
            "annotator": ["x", "y"] * 2,
            "label": list("nyny"),
        }
    )
    table = Annotations.from_pandas(frame, item="id")
    assert table.item_ids.to_pylist() == ["1", "2"] and table.annotations_per_item.tolist() == [2, 2]
    versions = frame.assign(id=["v1", "1.0", "v1", "1.0"], text=["a", "b", "a", "b"])
    assert sorted(Annotations.from_pandas(versions, item="id").item_ids.to_pylist()) == ["1.0", "v1"]


def test_text_and_label_swapped_are_asked_about() -> None:
    rows = [(f"text {k}", "ab"[k % 2], "xyz"[k % 3]) for k in range(60)]
    table = pd.DataFrame(rows, columns=["body", "annotator", "queue"])
    swapped = Annotations.from_pandas(table, text="queue", label="body").ledger.warnings
    assert any('are text and label swapped? If so, give `text="body"` and `label="queue"`' in each for each in swapped)
    right = Annotations.from_pandas(table, text="body", label="queue").ledger.warnings
    assert not any("text and label" in each for each in right)
