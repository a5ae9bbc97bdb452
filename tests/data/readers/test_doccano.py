"""doccano: a folder with a file per annotator; the collaborative export is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm.data import Annotations, Items
from realm.data.answers import SEVERAL_FIRST
from realm.data.readers.doccano import UNLABELLED
from realm.errors import RealmError


def example(number: int, text: str, *labels: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "text": text, "label": list(labels), "Comments": [], **more}


ADA = [example(1, "a", "pos"), example(2, "b", "neg"), example(3, "c")]
BOB = [example(1, "a", "neg"), example(2, "b"), example(3, "c", "pos")]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def pack(path: Path, files: dict[str, str]) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_a_folder_with_a_file_per_annotator(tmp_path: Path) -> None:
    table = Annotations.read(pack(tmp_path / "export", {"ada.jsonl": lines(ADA), "bob.jsonl": lines(BOB)}))
    assert table.annotators == ("ada", "bob")
    assert (table.n_items, table.n_annotations) == (3, 4)
    assert table.ledger.counts == {UNLABELLED: 2}
    assert table.ledger.rows[UNLABELLED] == [3, 5]


def test_a_folder_json_and_csv(tmp_path: Path) -> None:
    (tmp_path / "ada.json").write_text(json.dumps(ADA))
    (tmp_path / "bob.csv").write_text("id,text,label,Comments\n1,a,neg,\n2,b,,\n3,c,pos#neg,\n")
    with pytest.raises(RealmError, match="row 6: an annotation has several answers"):
        Annotations.read(tmp_path)
    table = Annotations.read(tmp_path, multi="first")
    assert table.ledger.counts == {UNLABELLED: 2, SEVERAL_FIRST: 1}
    assert table.n_annotations == 4


def test_the_file_of_one_annotator(tmp_path: Path) -> None:
    (tmp_path / "ada.king.jsonl").write_text(lines(ADA))
    assert Annotations.read(tmp_path / "ada.king.jsonl").annotators == ("ada.king",)


@pytest.mark.parametrize("name", ["all.jsonl", "all.json"])
def test_the_collaborative_export_is_refused(tmp_path: Path, name: str) -> None:
    text = lines(ADA) if name.endswith("l") else json.dumps(ADA)
    (tmp_path / name).write_text(text)
    for path in (tmp_path / name, pack(tmp_path / "export", {name: text})):
        with pytest.raises(RealmError, match=r"does not say who gave which label.*one file per annotator"):
            Annotations.read(path)
    assert len(Items.read(tmp_path / name)) == 3


def test_the_old_form_names_users_by_number(tmp_path: Path) -> None:
    old = [{"id": 1, "text": "a", "annotations": [{"label": 7, "user": 1}, {"label": 8, "user": 2}]}]
    (tmp_path / "old.json").write_text(json.dumps(old))
    table = Annotations.read(tmp_path / "old.json")
    assert table.annotators == ("1", "2")
    assert table.tasks[0].labels == ("7", "8")


def test_spans_are_not_labels(tmp_path: Path) -> None:
    (tmp_path / "ada.jsonl").write_text(json.dumps({"id": 1, "text": "a", "label": [[0, 1, "PER"]]}))
    with pytest.raises(RealmError, match="row 1: 'label' holds spans"):
        Annotations.read(tmp_path / "ada.jsonl", format="doccano")


def test_lists_of_labels_beside_an_annotator_are_a_plain_table(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(lines([example(1, "a", "pos", rater="ada"), example(1, "a", "neg", rater="bob")]))
    with pytest.raises(RealmError, match=r"there is no column 'annotator'.*rater.*`annotator`"):
        Annotations.read(path)
    table = Annotations.read(path, annotator="rater")
    assert (table.annotators, table.ledger.format) == (("ada", "bob"), "table")


def test_a_named_annotator_is_a_column_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(lines([example(1, "a", "pos", who="ada"), example(1, "a", "neg", who="bob")]))
    assert Annotations.read(path).annotators == ("labels",)
    assert Annotations.read(path, annotator="who").annotators == ("ada", "bob")
    with pytest.raises(RealmError, match=r'`annotator="who"`: not for this format.*`format="table"`'):
        Annotations.read(path, annotator="who", format="doccano")


@pytest.mark.parametrize("role", ["text", "label"])
def test_flags_that_name_nothing(tmp_path: Path, role: str) -> None:
    path = pack(tmp_path / "export", {"ada.jsonl": lines(ADA), "bob.jsonl": lines(BOB)})
    with pytest.raises(RealmError, match=rf'`{role}="nosuch"`: there is no such field. There are: .*text'):
        Annotations.read(path, **{role: "nosuch"})
