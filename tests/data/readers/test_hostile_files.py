"""Files nobody meant to write: an error that says what and where, or the whole table; never a traceback or a loss."""

from __future__ import annotations

import copy
import gzip
import json
import os
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realm.check import examine
from realm.data import Annotations, Items, Task
from realm.data.readers import read_items
from realm.data.readers.streaming import stream_rows
from realm.data.write import write_table
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"
NAMES = ["t.csv", "t.tsv", "t.json", "t.jsonl", "t.parquet", "t.csv.gz", "t", "all.jsonl"]
SEEDS = [path.read_bytes() for path in sorted(EXPORTS.glob("*.[jc]s*"))]
SEEDS.append(b'text,annotator,label,gold\na,w1,x,x\nb,w2,"y\nz",y\n"c ""q""",w1,1.0,\n')
PER_TEST = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def attempt(path: Path, read: Callable[..., Annotations] = Annotations.read, **flags: Any) -> Annotations | None:
    try:
        table = read(path, **flags)
    except RealmError as error:
        assert str(error)
        return None
    if table.n_annotations:
        json.dumps(examine(table).as_dict())
    return table


@PER_TEST
@given(name=st.sampled_from(NAMES), data=st.binary(max_size=200))
def test_random_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    attempt(tmp_path / name)


@PER_TEST
@given(
    seed=st.sampled_from(SEEDS),
    name=st.sampled_from(NAMES),
    cut=st.floats(0, 1),
    at=st.floats(0, 1),
    put=st.sampled_from(
        [b"", b'"', b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b",", b"}", b"]", b"\t", b"\n\n", b"\\ud800"]
    ),
)
def test_cut_and_broken_files(tmp_path: Path, seed: bytes, name: str, cut: float, at: float, put: bytes) -> None:
    place = int(at * len(seed))
    broken = seed[:place] + put + seed[place:]
    (tmp_path / name).write_bytes(broken[: int(cut * len(broken)) + 1])
    attempt(tmp_path / name, multi="first", missing="drop")


NODES: list[Any] = [
    None, True, 0, -1, 1.5, float("nan"), 10**30, "", "x", "nan", "\ud800", "\x00", [], {}, [1, 2], ["a", None],
    {"a": 1}, [{}], [[]], {"label": [1]}, {"choices": ["a"]},
]  # fmt: skip
DOCUMENTS = [json.loads(path.read_text()) for path in sorted(EXPORTS.glob("*.json"))]
DOCUMENTS += [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(EXPORTS.glob("*.jsonl"))]
DOCUMENTS += [
    [{"text": "a", "_input_hash": 1, "answer": "accept", "_annotator_id": "d", "options": [{"id": 1}], "accept": [1]}],
    [{"id": "1", "text": "t", "annotators": [{"label": 0, "annotator_id": 7}, {"label": 1, "annotator_id": 8}]}],
    [{"id": "2", "text": "u", "annotators": {"label": [1, 0], "annotator_id": [7, 8]}}],
    [{"text": "q", "annotators": "A1,A2", "annotations": {"A1": "0", "A2": "1"}}],
    [{"id": 1, "text": "a", "label": ["x"]}, {"id": 2, "text": "b", "label": ["y"]}],
    [{"id": 1, "text": "a", "annotations": [{"label": 7, "user": 1}, {"label": 8, "user": 2}]}],
    [{"text": "a", "rater_id": 3, "example_very_unclear": False, "joy": 1, "anger": 0}],
    [{"text": text, "options": ["x", "y"], "annotator": 1, "label": place} for place, text in enumerate("ab")],
    [{"HITId": "h", "WorkerId": "w", "Input.text": "a", "Answer.x": "p", "AssignmentStatus": "Approved"}],
    [{"INPUT:t": "a", "OUTPUT:r": "p", "GOLDEN:r": "", "ASSIGNMENT:worker_id": "w", "ASSIGNMENT:status": "APPROVED"}],
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in inside for place in [(*path, key), *places(value, (*path, key))]]


@PER_TEST
@given(data=st.data())
def test_records_of_another_shape(tmp_path: Path, data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        all_places = places(document)
        if not all_places:
            break
        *path, last = data.draw(st.sampled_from(all_places))
        node = document
        for key in path:
            node = node[key]
        node[last] = copy.deepcopy(data.draw(st.sampled_from(NODES)))
    (tmp_path / "ada.json").write_text(json.dumps(document))
    multi = data.draw(st.sampled_from([None, "first", "drop"]))
    attempt(tmp_path / "ada.json", multi=multi)
    attempt(tmp_path / "ada.json", Annotations.read_test, multi=multi)
    with suppress(RealmError):
        Items.read(tmp_path / "ada.json", multi=multi)


# ---------------------------------------------------------------- one by one, with what must be said


def refused(path: Path, data: bytes, match: str, **flags: Any) -> None:
    path.write_bytes(data)
    with pytest.raises(RealmError, match=match):
        Annotations.read(path, **flags)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    latin = "text,annotator,label\na,w,x\ncafé,w,y\n".encode("latin-1")
    refused(tmp_path / "t.csv", latin, r"t\.csv, line 3: byte 30 \(0xe9\) is not UTF-8")
    refused(tmp_path / "t.jsonl", b'{"text": "a"}\n{"text": "\xe9"}\n', r"line 2: byte 24 \(0xe9\) is not UTF-8")
    refused(tmp_path / "t.csv", "text,annotator,label\na,w,x\n".encode("utf-16-le"), "cells where")


def test_an_unclosed_quote_does_not_swallow_rows(tmp_path: Path) -> None:
    refused(tmp_path / "t.csv", b'text,annotator,label\na,w,x\n"b,w,y\nc,w,x\n', "row 2: a quote that begins a cell")
    refused(tmp_path / "t.csv", b'text,annotator,label\n"b,w,y\n"c,w,x\nd,w,x\n', "row 1: a quote that begins a cell")


def test_quotes_inside_cells_are_plain_characters(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'text,annotator,label\na 5" disk,w,x\nb,w,y\n')
    assert Annotations.read(tmp_path / "t.csv").texts.to_pylist() == ['a 5" disk', "b"]


def test_ragged_rows(tmp_path: Path) -> None:
    refused(tmp_path / "t.csv", b"text,annotator,label\na,w,x\nb,w\nc\n", "row 2: 2 cells where the header has 3")
    refused(tmp_path / "t.csv", b"text,annotator,label\na, b,w,x\n", "row 1: 4 cells where the header has 3")


def test_nuls_and_newlines_stay(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'text,annotator,label\n"a\x00\nb",w,x\n"c\rd",w,y\n')
    assert Annotations.read(tmp_path / "t.csv").texts.to_pylist() == ["a\x00\nb", "c\rd"]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_line_of_ten_megabytes(tmp_path: Path, name: str) -> None:
    long = "word " * 2_100_000
    if name == "t.csv":
        (tmp_path / name).write_text(f"text,annotator,label\n{long},w,x\nb,w,y\n")
    else:
        rows = [{"text": long, "annotator": "w", "label": "x"}, {"text": "b", "annotator": "w", "label": "y"}]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = Annotations.read(tmp_path / name)
    assert len(table.texts[0].as_py()) == len(long)
    assert table.n_annotations == 2


def test_a_header_of_megabytes(tmp_path: Path) -> None:
    refused(tmp_path / "t.csv", b"x" * 3_000_000, "no rows|no column 'text'|cannot be read")


def test_json_nested_too_deeply(tmp_path: Path) -> None:
    refused(tmp_path / "t.json", b"[" * 100_000 + b"]" * 100_000, "nested too deeply")
    refused(tmp_path / "t.jsonl", b'{"text":' * 100_000, "line 1: not readable JSON")


def test_truncated_json(tmp_path: Path) -> None:
    whole = (EXPORTS / "label_studio.json").read_bytes()
    refused(tmp_path / "t.json", whole[: len(whole) // 2], "not readable JSON.*cut short")
    lines = (EXPORTS / "argilla_flat.jsonl").read_bytes()
    refused(tmp_path / "t.jsonl", lines[:-20], "line 4: not readable JSON")


def test_records_that_are_none(tmp_path: Path) -> None:
    refused(tmp_path / "t.json", b'[{"text": "a"}, 7]', "row 2: not a record with named fields but int")
    refused(tmp_path / "t.json", b'"hello"', "row 1: not a record with named fields but str")
    refused(tmp_path / "t.json", b"{}", "no rows|a JSON object|no column")
    refused(
        tmp_path / "t.jsonl",
        b'{"text": "\\ud800", "annotator": "w", "label": "x"}\n',
        "field 'text' cannot be read",
    )


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    refused(tmp_path / "t.parquet", b"PAR1 but no more", "cannot be read.*parquet")
    refused(tmp_path / "t.json", b"text,annotator,label\n", "not readable JSON")


def test_look_alike_labels_stay_apart_and_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,w,pos\nb,w,ｐos\nc,v,Pos \nd,v,neg\n")
    table = Annotations.read(tmp_path / "t.csv")
    assert table.tasks[0].labels is not None
    assert len(table.tasks[0].labels) == 3
    told = [finding for finding in examine(table).findings if finding.code == "look-alike labels"]
    assert len(told) == 1
    assert set(told[0].about) == {"pos", "ｐos"}


TABLE = b"text,annotator,label\na,w,x\nb,w,y\n"


@pytest.mark.parametrize("suffix", [b".csv", b".csv.gz", b".parquet"])
def test_a_name_that_is_not_utf8(tmp_path: Path, suffix: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9" + suffix))
    (tmp_path / "t.csv").write_bytes(TABLE)
    written = gzip.compress(TABLE) if suffix.endswith(b"gz") else TABLE
    if suffix == b".parquet":
        write_table(Annotations.read(tmp_path / "t.csv"), path)
    else:
        path.write_bytes(written)
    assert Annotations.read(path).n_annotations == 2
    assert sum(len(chunk) for chunk in stream_rows(path, tasks=(Task("default", ("x", "y")),))) == 2
    with pytest.raises(RealmError, match='`text="nosuch"`: there is no such column'):
        Annotations.read(path, text="nosuch")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300 + ".csv")
    for read in (Annotations.read, lambda path: list(stream_rows(path, tasks=(Task("default", ("x", "y")),)))):
        with pytest.raises(RealmError, match="cannot be read"):
            read(path)


def test_a_pipe(tmp_path: Path) -> None:
    for content in (TABLE, gzip.compress(TABLE)):
        for read in (read_items, lambda path: next(stream_rows(path, tasks=(Task("default", ("x", "y")),)))):
            path = tmp_path / "pipe"
            os.mkfifo(path)
            writer = threading.Thread(target=path.write_bytes, args=(content,))
            writer.start()
            assert len(read(path)) == 2
            writer.join()
            path.unlink()


def test_a_spreadsheet_is_called_one(tmp_path: Path) -> None:
    for name in ("book.xlsx", "book.csv", "book"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
        with pytest.raises(RealmError, match=r"a spreadsheet.*CSV"):
            Annotations.read(tmp_path / name)
