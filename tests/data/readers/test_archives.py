"""A zip or a folder: doccano's files, one file of any kind, or several that are one table."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from realm.data import Annotations, Items, Task
from realm.data.readers.streaming import stream_rows
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"
TABLE = "text,annotator,label\n" + "".join(
    f"{text},{person},{label}\n" for text in "abc" for person, label in (("ada", "x"), ("bob", "y"), ("cyd", "x"))
)
DOCCANO = '{"id": 1, "text": "a", "label": ["%s"]}\n{"id": 2, "text": "b", "label": ["x"]}\n'


def pack(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_", "."), text)
    return path


def sizes(table: Annotations) -> tuple[int, int, int]:
    return table.n_items, table.n_annotators, table.n_annotations


@pytest.mark.parametrize("flags", [{}, {"format": "table"}, {"format": "csv"}, {"annotator": "annotator"}])
def test_a_table_alone_in_a_zip_or_a_folder_is_that_table(tmp_path: Path, flags: dict[str, str]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ok.csv").write_text(TABLE)
    for path in (pack(tmp_path / "ok.zip", ok_csv=TABLE), tmp_path / "folder"):
        table = Annotations.read(path, **flags)
        assert sizes(table) == (3, 3, 9)
        assert table.ledger.format == flags.get("format", "table")


def test_own_column_names_and_wide_tables_in_a_zip(tmp_path: Path) -> None:
    path = pack(tmp_path / "ok.zip", ok_csv=TABLE.replace("annotator", "who"))
    assert sizes(Annotations.read(path, annotator="who")) == (3, 3, 9)
    path = pack(tmp_path / "wide.zip", wide_csv="text,ada,bob\na,x,y\nb,y,y\n")
    assert sizes(Annotations.read(path, wide=["ada", "bob"])) == (2, 2, 4)


def test_another_tools_export_in_a_zip(tmp_path: Path) -> None:
    path = pack(tmp_path / "export.zip", export_json=(EXPORTS / "label_studio.json").read_text())
    table = Annotations.read(path, multi="drop")
    assert sizes(table) == sizes(Annotations.read(EXPORTS / "label_studio.json", multi="drop"))
    assert table.ledger.format == "label-studio"


def test_several_tables_are_one(tmp_path: Path) -> None:
    other = TABLE.replace("a,ada,x", "d,ada,y")
    packed = pack(tmp_path / "two.zip", one_csv=TABLE, two_csv=other)
    (tmp_path / "folder").mkdir()
    for name, text in (("one.csv", TABLE), ("two.csv", other)):
        (tmp_path / "folder" / name).write_text(text)
    for path in (packed, tmp_path / "folder"):
        table = Annotations.read(path, repeats="last")
        assert sizes(table) == (4, 3, 10) and table.ledger.source.files
    named = pack(tmp_path / "doccano.zip", ada_jsonl=DOCCANO % "x", bob_jsonl=DOCCANO % "y")
    assert sizes(Annotations.read(named)) == (2, 2, 4)
    with pytest.raises(RealmError, match=r'ada\.jsonl: there is no column \'annotator\'.*`format="doccano"`'):
        Annotations.read(named, format="table")


def test_several_tables_cannot_be_answered_at_once(tmp_path: Path) -> None:
    packed = pack(tmp_path / "two.zip", one_csv="text\na\n", two_csv="text\nb\n")
    assert len(Items.read(packed)) == 2
    with pytest.raises(RealmError, match=r"2 tables \(one.csv, two.csv\). Unpack them"):
        list(stream_rows(packed, tasks=[Task("default", ("x", "y"))]))


def test_doccano_is_taken_at_its_word(tmp_path: Path) -> None:
    text = "".join(json.dumps({"id": k, "text": k, "label": ["x"], "user": "meta"}) + "\n" for k in "ab")
    path = pack(tmp_path / "export.zip", ada_jsonl=text, bob_jsonl=text.replace('"x"', '"y"'))
    table = Annotations.read(path, format="doccano")
    assert (table.annotators, table.ledger.format) == (("ada", "bob"), "doccano")


@pytest.mark.parametrize("empty", ["", " \n", "\ufeff"])
def test_an_empty_member_is_passed_over(tmp_path: Path, empty: str) -> None:
    packed = pack(tmp_path / "doccano.zip", ada_jsonl=DOCCANO % "y", bob_jsonl=empty)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ada.jsonl").write_text(DOCCANO % "y")
    (tmp_path / "folder" / "bob.jsonl").write_text(empty, encoding="utf-8")
    for path in (packed, tmp_path / "folder"):
        assert sizes(Annotations.read(path)) == (2, 1, 2)


def test_items_in_a_zip_keep_their_own_columns(tmp_path: Path) -> None:
    path = pack(tmp_path / "new.zip", new_csv="text,context\na,b\n")
    assert Items.read(path).contexts.to_pylist() == ["b"]
