"""Annotations from what is in memory already, and how they show themselves."""

from __future__ import annotations

from pathlib import Path

import datasets
import pandas as pd
import pytest

from realm.data import Annotations, Task
from realm.errors import RealmError

RECORDS = [
    {"review": "a", "who": "ada", "mood": "bad", "truth": "bad"},
    {"review": "a", "who": "bob", "mood": "good", "truth": "bad"},
    {"review": "b", "who": "bob", "mood": "good", "truth": None},
]
ROLES = {"text": "review", "annotator": "who", "label": "mood", "gold": "truth"}
EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
HOSTILE = "<script>alert(1)</script>"


def test_one_table_in_every_shape(tmp_path: Path) -> None:
    frame = pd.DataFrame(RECORDS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = Annotations.read(tmp_path / "t.csv", **ROLES).fingerprint(gold=True)
    assert Annotations.from_list(RECORDS, **ROLES).fingerprint(gold=True) == expected
    assert Annotations.from_list((row for row in RECORDS), **ROLES).fingerprint(gold=True) == expected
    assert Annotations.from_pandas(frame, **ROLES).fingerprint(gold=True) == expected
    dataset = datasets.Dataset.from_list(RECORDS)
    assert Annotations.from_dataset(dataset, **ROLES).fingerprint(gold=True) == expected


def test_one_row_per_item() -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "ada": ["x", "y"], "bob": ["y", "x"]})
    for table in (
        Annotations.from_pandas(frame, wide="rest"),
        Annotations.from_list(frame.to_dict("records"), wide=["ada", "bob"]),
        Annotations.from_dataset(datasets.Dataset.from_pandas(frame), wide="rest"),
    ):
        assert (table.n_items, table.annotators, table.n_annotations) == (2, ("ada", "bob"), 4)


def test_an_export_is_recognised() -> None:
    import json

    records = json.loads((EXPORTS / "label_studio.json").read_text())
    expected = Annotations.read(EXPORTS / "label_studio.json", multi="drop")
    table = Annotations.from_list(records, multi="drop")
    assert table.fingerprint(gold=True) == expected.fingerprint(gold=True) and table.ledger.format == "label-studio"
    frame = pd.read_csv(EXPORTS / "label_studio.csv", dtype=str)
    table = Annotations.from_pandas(frame, multi="drop")
    assert table.fingerprint() == Annotations.read(EXPORTS / "label_studio.csv", multi="drop").fingerprint()


def test_a_table_with_all_columns_is_plain_whatever_else_it_has() -> None:
    frame = pd.DataFrame({"HITId": "h", "WorkerId": "w", "text": ["a", "b"], "annotator": "ada", "label": ["x", "y"]})
    assert Annotations.from_pandas(frame).ledger.format == "table"
    with pytest.raises(RealmError, match=r"which field is the text|no field for the text"):
        Annotations.from_pandas(frame, format="mturk")


def test_records_without_an_annotator_are_not_doccanos() -> None:
    records = [{"id": n, "text": t, "label": ["x"]} for n, t in enumerate("ab")]
    with pytest.raises(RealmError, match="the records: there is no column 'annotator'"):
        Annotations.from_list(records)


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ({"text": ["a"]}, "`records` is dict: give a list of dicts"),
        ("labels.csv", "`records` is str"),
        (pd.DataFrame(RECORDS), "`records` is DataFrame"),
        ([RECORDS[0], ["a", "ada", "x"]], "`records` is list: give a list of dicts"),
        ([], "the records: "),
        (RECORDS, r"the records: there is no column 'text'. The columns are: review, who, mood, truth.*`text`"),
    ],
)
def test_other_things_say_what_to_give(records: object, match: str) -> None:
    with pytest.raises(RealmError, match=match):
        Annotations.from_list(records)  # type: ignore[arg-type]


def test_a_wrong_argument_is_named() -> None:
    with pytest.raises(RealmError, match=r"`anotator`: there is no such argument\. Did you mean `annotator`"):
        Annotations.from_list(RECORDS, anotator="who")
    with pytest.raises(RealmError, match=r'the table: `text="reviw"`: there is no such column'):
        Annotations.from_pandas(pd.DataFrame(RECORDS), text="reviw")
    with pytest.raises(RealmError, match=r"`frame` is list: give a DataFrame, or use `Annotations\.from_list`"):
        Annotations.from_pandas(RECORDS)  # type: ignore[arg-type]


# ---------------------------------------------------------------- how they show themselves


def test_reprs() -> None:
    table = Annotations.from_list(RECORDS, **ROLES)
    assert repr(table) == "Annotations(2 items, 2 annotators, 3 annotations, 1 task)"
    assert repr(table.items) == "Items(2 items, 1 task)"
    assert repr(table.tasks[0]) == "Task(name='default', labels=('bad', 'good'))"  # fingerprints are made of it


def test_in_a_notebook() -> None:
    records = [
        {"text": f"{HOSTILE} {n}", "annotator": HOSTILE + who, "label": HOSTILE + "xy"[n % 2], "gold": HOSTILE + "x"}
        for n in range(30)
        for who in "ab"
    ]
    table = Annotations.from_list(records)
    for shown in (table._repr_html_(), table.items._repr_html_(), table.tasks[0]._repr_html_()):
        assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert "30 items, 2 annotators" in table._repr_html_() and "<th>annotator</th>" in table._repr_html_()
    assert "items with gold" in table._repr_html_() and "items with gold" not in table.without_gold()._repr_html_()
    empty = Annotations.read_test(EXPORTS / "label_studio.json")
    assert f"{empty.n_items} items" in empty._repr_html_()
    assert "lists its own options" in Task("t", None)._repr_html_()
