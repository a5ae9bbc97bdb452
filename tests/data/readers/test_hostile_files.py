"""Files nobody meant to write: an error that says what and where, or the whole table; never a traceback or a loss."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from realm.check import examine
from realm.data import Annotations, Task
from realm.data.readers import read_items
from realm.data.readers.streaming import stream_rows
from realm.data.write import write_table
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"


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
