from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm.errors import RealmError
from realm.runs.spreadsheet import guarded, write_csv

HOSTILE = ["=1+1", "+SUM(A1)", "-2+3", "@cmd", "\tx", "\r=x", "\n=x", "'=x", "=cmd|' /C calc'!A0", "-x"]
TAME = ["plain", "", "a=b", "x-1", "-1", "+1.5", "-2e-3", "日本", "'quoted'", 'a "b", c', "two\nlines"]


def cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_what_a_spreadsheet_would_run_is_marked_and_the_rest_is_not(tmp_path: Path) -> None:
    frame = pd.DataFrame({"=name": HOSTILE + TAME, "value": -np.arange(float(len(HOSTILE + TAME)))})
    write_csv(frame, tmp_path / "a.csv")
    header, *rows = cells(tmp_path / "a.csv")
    assert header == ["'=name", "value"]
    assert [row[0] for row in rows] == [f"'{cell}" for cell in HOSTILE] + TAME
    assert rows[2][1] == "-2.0"


def test_raw_leaves_cells_alone(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"a": HOSTILE}), tmp_path / "a.csv", raw=True)
    assert [row[0] for row in cells(tmp_path / "a.csv")] == ["a", *HOSTILE]


def test_a_carriage_return_inside_a_cell_starts_no_row(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"a": ["x\r=1+1", "y"]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b'"a"\n"x\r=1+1"\n"y"\n'


def test_missing_values_are_empty_and_the_table_given_is_not_changed(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["=x", None], "b": [np.nan, 1.5], "c": pd.Categorical(["@u", "v"])})
    write_csv(frame, tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[1:] == [["'=x", "", "'@u"], ["", "1.5", "v"]]
    assert frame["a"][0] == "=x"


def test_whole_numbers_beside_missing_ones_stay_whole(tmp_path: Path) -> None:
    column = pd.Series([9007199254740993, None], dtype=object)
    write_csv(pd.DataFrame({"id": column, "text": ["=a", "b"]}), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[1:] == [["9007199254740993", "'=a"], ["", "b"]]


@given(st.lists(st.text(alphabet="'=+-@\t\r\n1a.e"), min_size=1))
def test_taking_the_mark_off_gives_back_what_was_there(texts: list[str]) -> None:
    frame = pd.DataFrame({"a": texts})
    marked = guarded(frame)["a"].tolist()
    for before, text in zip(texts, marked, strict=True):
        # A ' before a sign was put there, or stands before one that was: either way one ' less is what there was.
        assert (text[1:] if re.match(r"'+[=+\-@\t\r\n]", text) else text) == before
        assert not text.startswith(("=", "@", "\t", "\r", "\n"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    write_csv(pd.DataFrame({"a": [1]}), path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(RealmError, match=r"a\.csv: cannot be written: No space left"):
        write_csv(pd.DataFrame({"a": [2]}), path)
    assert path.read_text() == "a\n1\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="cannot be written"):
        write_csv(pd.DataFrame({"a": [1]}), tmp_path)
