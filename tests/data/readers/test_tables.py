"""Plain tables: containers, separators, wide form, lists of labels, and which format a file is taken for."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm.data import Annotations, Items
from realm.data.answers import SEVERAL_DROPPED
from realm.data.build import NO_ANNOTATION
from realm.data.long_table import NO_ANNOTATIONS
from realm.errors import RealmError

ROWS = pd.DataFrame(
    {
        "item": ["1", "1", "2"],
        "text": ['a "b", c\nd', 'a "b", c\nd', "é ☃"],
        "annotator": ["w1", "w2", "w1"],
        "label": ["x", "y", "y"],
        "gold": ["x", "x", None],
    }
)


def expected() -> pd.DataFrame:
    return Annotations.from_pandas(ROWS).to_pandas()


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet", "t.csv.gz", "t.jsonl.gz", "t"])
def test_every_container_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if "parquet" in name:
        ROWS.to_parquet(path)
    elif "jsonl" in name:
        ROWS.to_json(path, orient="records", lines=True)
    elif "json" in name:
        ROWS.to_json(path, orient="records")
    else:
        ROWS.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    assert Annotations.read(path).to_pandas().equals(expected())


def test_bom_and_crlf(tmp_path: Path) -> None:
    text = ROWS.to_csv(index=False, lineterminator="\r\n").replace("c\nd", "c\r\nd")
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    table = Annotations.read(tmp_path / "t.csv")
    assert table.texts.to_pylist() == ['a "b", c\r\nd', "é ☃"]


def test_json_lines_in_a_json_file_and_the_other_way_round(tmp_path: Path) -> None:
    ROWS.to_json(tmp_path / "t.json", orient="records", lines=True)
    ROWS.to_json(tmp_path / "t.jsonl", orient="records")
    for name in ("t.json", "t.jsonl"):
        assert Annotations.read(tmp_path / name).to_pandas().equals(expected())


def test_wide(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("text,ada,bob,cyd,note\nt1,x,,y,\nt2,y,y,,z\nt3,,,,\n")
    table = Annotations.read(path, wide=["ada", "bob", "cyd"])
    frame = table.to_pandas()
    assert list(zip(frame["text"], frame["annotator"], frame["label"], strict=True)) == [
        ("t1", "ada", "x"),
        ("t1", "cyd", "y"),
        ("t2", "ada", "y"),
        ("t2", "bob", "y"),
    ]
    assert table.ledger.counts == {NO_ANNOTATIONS: 1}
    assert table.ledger.rows == {NO_ANNOTATIONS: [3]}
    with pytest.raises(RealmError, match="`wide=dan`: there is no such column"):
        Annotations.read(path, wide=["ada", "dan"])
    with pytest.raises(RealmError, match="twice"):
        Annotations.read(path, wide=["ada", "ada"])


def test_labels_that_are_lists(tmp_path: Path) -> None:
    rows = [{"text": "a", "annotator": "w", "label": ["x"]}, {"text": "b", "annotator": "w", "label": ["y", "x"]}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "text": "c", "label": ["y"]}]))
    with pytest.raises(RealmError, match="row 2: an annotation has several answers"):
        Annotations.read(path)
    assert Annotations.read(path, multi="first").n_annotations == 3
    table = Annotations.read(path, multi="drop")
    assert table.n_annotations == 2
    assert table.ledger.counts == {SEVERAL_DROPPED: 1}


def test_two_signatures_are_an_error_that_lists_them(tmp_path: Path) -> None:
    record = {"id": 1, "data": {"text": "x"}, "annotations": [], "_input_hash": 1, "text": "x"}
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    with pytest.raises(RealmError, match=r"more than one tool: label-studio, prodigy.*`format`"):
        Annotations.read(tmp_path / "t.jsonl")
    assert len(Items.read(tmp_path / "t.jsonl", format="label-studio")) == 1


def test_missing_file_empty_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"nowhere\.csv: there is no such file"):
        Annotations.read(tmp_path / "nowhere.csv")
    with pytest.raises(RealmError, match="is a folder"):
        Annotations.read(tmp_path)
    for content in (b"", b"\n \n", b"\xef\xbb\xbf"):
        (tmp_path / "empty.csv").write_bytes(content)
        with pytest.raises(RealmError, match="the file is empty"):
            Annotations.read(tmp_path / "empty.csv")
    (tmp_path / "header.csv").write_text("text,annotator,label\n")
    with pytest.raises(RealmError, match="no rows"):
        Annotations.read(tmp_path / "header.csv")


def test_wide_keeps_a_row_with_gold_and_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("text,ada,bob,gold\na,,,y\nb,x,y,\nc,,,\n")
    table = Annotations.read(path, wide=["ada", "bob"])
    assert table.texts.to_pylist() == ["a", "b"]
    assert table.gold is not None and table.gold.tolist() == [1, -1]
    assert (table.item.tolist(), table.label.tolist()) == ([1, 1], [0, 1])
    assert table.ledger.rows == {NO_ANNOTATIONS: [3], NO_ANNOTATION: [1]}


@pytest.mark.parametrize("kind", [pa.binary(16), *([pa.uuid()] if hasattr(pa, "uuid") else [])])
def test_annotators_by_uuid(tmp_path: Path, kind: pa.DataType) -> None:
    people = [uuid.UUID(int=k) for k in (7, 8)]
    ids = pa.array([person.bytes for person in people], pa.binary(16)).cast(kind)
    pq.write_table(pa.table({"text": ["a", "b"], "annotator": ids, "label": ["x", "y"]}), tmp_path / "t.parquet")
    assert Annotations.read(tmp_path / "t.parquet").annotators == tuple(map(str, people))


def test_a_column_of_another_width_or_type(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {"text": ["a", "b"], "annotator": pa.array([b"abc", b"xyz"], pa.binary(3)), "label": ["x", "y"]}
    pq.write_table(pa.table(columns), path)
    assert Annotations.read(path).annotators == ("abc", "xyz")
    half = pa.array([b"\x00\xff", None], pa.binary(2))
    pq.write_table(pa.table({**columns, "annotator": half}), path)
    with pytest.raises(RealmError, match=r"column 'annotator' holds .*cannot be read as text"):
        Annotations.read(path)
    spans = pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval())
    with pytest.raises(RealmError, match="column 'annotator' holds month_day_nano_interval"):
        Annotations.from_pandas(pa.table({**columns, "annotator": spans}))


@pytest.mark.parametrize("name", ["test.csv", "test.jsonl"])
def test_a_test_table_need_not_have_the_columns_of_annotations(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"review": ["a", "b"], "gold": ["x", "y"]})
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_json(path, orient="records", lines=True)
    flags = {"text": "review", "annotator": "worker", "label": "sentiment"}
    assert Annotations.read_test(path, **flags).n_items == 2
    assert len(Items.read(path, gold="truth", **flags)) == 2
    with pytest.raises(RealmError, match='`gold="truth"`: there is no such column'):
        Annotations.read_test(path, gold="truth", **flags)


@pytest.mark.parametrize("form", ["file", "stream", "feather"])
def test_files_of_arrow(form: str, tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "annotator": ["w", "w"], "label": ["x", "y"]})
    path = tmp_path / ("t.feather" if form == "feather" else "t.arrow")
    with (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(path, table.schema) as file:
        file.write_table(table)
    assert Annotations.read(path).n_annotations == 2
    assert Annotations.read(path.rename(tmp_path / "t")).n_annotations == 2
    (tmp_path / "u.arrow").write_bytes((tmp_path / "t").read_bytes()[:40])
    with pytest.raises(RealmError, match=r"u\.arrow: cannot be read"):
        Annotations.read(tmp_path / "u.arrow")


@pytest.mark.parametrize("head", [b"PK\3\4", b"BZh91AY", b"\xfd7zXZ\0", b"SQLite format 3\0", b"\xd0\xcf\x11\xe0"])
def test_spreadsheets_archives_and_databases_are_refused(head: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(head + b"\0" * 600)
    with pytest.raises(RealmError, match=r"a spreadsheet, an archive or a database.*unpack"):
        Annotations.read(tmp_path / "t.csv")


def test_an_export_has_no_column_of_groups(tmp_path: Path) -> None:
    record = {"text": "a", "_input_hash": 1, "_annotator_id": "x", "accept": ["yes"], "answer": "accept"}
    (tmp_path / "prodigy.jsonl").write_text(json.dumps(record))
    with pytest.raises(RealmError, match='`group="kind"`: not for this format: the group is not in it'):
        Annotations.read(tmp_path / "prodigy.jsonl", group="kind")
