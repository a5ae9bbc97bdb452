"""Text in other encodings than UTF-8: marks are recognised, names are taken at their word, nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations, Task
from realm.data.readers.streaming import stream_rows
from realm.errors import RealmError

TABLE = "text,annotator,label\ncafé,ada,x\nnaïve,bob,ÿ\n"
RECORDS = '[{"text": "café", "annotator": "ada", "label": "x"}, {"text": "naïve", "annotator": "bob", "label": "ÿ"}]'


@pytest.fixture
def expected(tmp_path: Path) -> str:
    (tmp_path / "utf8.csv").write_text(TABLE, encoding="utf-8")
    return Annotations.read(tmp_path / "utf8.csv").fingerprint()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize(("name", "text"), [("t.csv", TABLE), ("t.json", RECORDS), ("t", TABLE), ("u", RECORDS)])
def test_a_byte_order_mark_is_enough(tmp_path: Path, expected: str, encoding: str, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    assert Annotations.read(tmp_path / name).fingerprint() == expected


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "utf-16-be", "utf-8", "mac-roman", "utf-7"])
@pytest.mark.parametrize(("name", "text"), [("t.csv", TABLE), ("t.json", RECORDS)])
def test_a_named_encoding(tmp_path: Path, expected: str, encoding: str, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    assert Annotations.read(tmp_path / name, encoding=encoding).fingerprint() == expected


def test_bytes_that_are_not_utf8_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TABLE.encode("cp1252"))
    with pytest.raises(
        RealmError, match=r"line 2: byte 24 \(0xe9\) is not UTF-8 text. Name its encoding with `encoding`"
    ):
        Annotations.read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(TABLE.encode("utf-16-be"))
    with pytest.raises(RealmError, match="is not UTF-8"):
        Annotations.read(tmp_path / "t.csv")


def test_a_wrong_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    for encoding in ("cp1252", "latin-1", "koi8-r"):
        with pytest.raises(RealmError, match=f"the text is UTF-8, and would be garbled if it were read as {encoding}"):
            Annotations.read(tmp_path / "t.csv", encoding=encoding)
    with pytest.raises(RealmError, match="is not utf-16 text"):
        Annotations.read(tmp_path / "t.csv", encoding="utf-16")
    for encoding in ("rot13", "hex", "klingon", "a\0b"):
        with pytest.raises(RealmError, match="there is no such encoding"):
            Annotations.read(tmp_path / "t.csv", encoding=encoding)
    (tmp_path / "t.csv").write_text(TABLE.replace("é", "e").replace("ï", "i").replace("ÿ", "y"))  # plain ASCII
    assert Annotations.read(tmp_path / "t.csv", encoding="cp1252").n_annotations == 2
    pd.DataFrame({"text": ["a"], "annotator": ["w"], "label": ["x"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(RealmError, match="not for Parquet"):
        Annotations.read(tmp_path / "t.parquet", encoding="cp1252")


def test_rows_are_answered_in_any_encoding(tmp_path: Path) -> None:
    tasks = [Task("default", ("x", "y"))]
    for encoding, flags in (("cp1252", {"encoding": "cp1252"}), ("utf-16", {}), ("utf-8", {})):
        (tmp_path / "t.csv").write_bytes("text\ncafé\nb\nc\n".encode(encoding))
        chunks = list(stream_rows(tmp_path / "t.csv", tasks=tasks, chunk_rows=2, **flags))
        assert [text for chunk in chunks for text in chunk.items.texts.to_pylist()] == ["café", "b", "c"]
    (tmp_path / "t.csv").write_bytes("text\ncafé\n".encode("cp1252"))
    with pytest.raises(RealmError, match="is not UTF-8 text"):
        list(stream_rows(tmp_path / "t.csv", tasks=tasks))
