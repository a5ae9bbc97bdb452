"""Several files are one table: the same as one file of all their rows, with errors that name file and row."""

from __future__ import annotations

import copy
import json
import pickle
import random
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations, Items
from realm.data.build import REPEATED
from realm.data.source import Source
from realm.errors import RealmError

HEADER = "text,annotator,label\n"


def rows_of(seed: int, n: int = 30) -> list[tuple[str, ...]]:
    draw = random.Random(seed)
    return [
        (
            f"text {draw.randrange(12)}",
            draw.choice(["ada", "bob", "cyd"]),
            draw.choice("xyz"),
            f"2024-01-{k % 27 + 1:02}",
        )
        for k in range(n)
    ]


def write(path: Path, rows: list[tuple[str, ...]], header: str = "text,annotator,label,created_at\n") -> Path:
    path.write_text(header + "".join(",".join(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_files", [2, 7])
def test_cut_into_files_it_is_the_same_table(tmp_path: Path, seed: int, n_files: int) -> None:
    rows = rows_of(seed)
    whole = Annotations.read(write(tmp_path / "whole.csv", rows), keep_rows=True)
    cuts = sorted(random.Random(seed).sample(range(1, len(rows)), n_files - 1))
    starts = [0, *cuts, len(rows)]
    folder = tmp_path / "batches"
    folder.mkdir()
    paths = [write(folder / f"b{k}.csv", rows[starts[k] : starts[k + 1]]) for k in range(n_files)]
    for given in (paths, [str(path) for path in paths], folder):
        parts = Annotations.read(given, keep_rows=True)
        assert parts.fingerprint() == whole.fingerprint() and parts.source_rows.tolist() == whole.source_rows.tolist()
        assert parts.ledger.counts == whole.ledger.counts and parts.ledger.rows == whole.ledger.rows
        assert parts.columns == whole.columns
    assert Items.read(paths).fingerprint() == Items.read(tmp_path / "whole.csv").fingerprint()


def test_rows_are_named_by_file(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", [("a", "ada", "x"), ("b", "ada", "y")], HEADER)
    second = write(tmp_path / "b.csv", [("a", "ada", "x"), ("b", "", "y")], HEADER)
    with pytest.raises(RealmError, match=rf"^{second}, row 2: no annotator"):
        Annotations.read([first, second])
    write(second, [("a", "ada", "x"), ("b", "bob", "y")], HEADER)
    table = Annotations.read([first, second], repeats="last")
    assert table.ledger.counts == {REPEATED: 1} and table.ledger.places(REPEATED) == [f"{first}, row 1"]
    assert table.ledger.as_dict()["rows"] == {REPEATED: [f"{first}, row 1"]}
    assert Annotations.read(first).ledger.as_dict()["rows"] == {}
    write(first, [("1", "a", "ada", "x")], "item,text,annotator,label\n")
    write(second, [("2", "c", "bob", "x"), ("1", "b", "bob", "y")], "item,text,annotator,label\n")
    with pytest.raises(RealmError, match=rf"^{first}, row 1 and {second}, row 2: the item '1' has two different texts"):
        Annotations.read([first, second])
    with pytest.raises(RealmError, match=r'give `item="text"` if each file numbers its items anew'):
        Annotations.read([first, second])
    assert Annotations.read([first, second], item="text").n_items == 3


def test_columns_must_be_the_same(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", [("1", "a", "ada", "x")], "item,text,annotator,label\n")
    second = write(tmp_path / "b.csv", [("b", "ada", "y")], HEADER)
    with pytest.raises(RealmError, match=rf"{second}: there is no column 'item' for the item, which other files have"):
        Annotations.read([first, second])
    with pytest.raises(RealmError, match=rf"{second}: there is no column 'item' for the item, which other files have"):
        Annotations.read([second, first])
    write(first, [("a", "ada", "x")], "sentence,annotator,label\n")
    with pytest.raises(RealmError, match=rf"{first}: there is no column 'text'"):
        Annotations.read([second, first])
    assert (
        Annotations.read([write(first, [("a", "ada", "x", "n")], "text,annotator,label,note\n"), second]).n_items == 2
    )


def test_gold_and_times_may_be_in_some(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", [("a", "ada", "x", "2024-01-01", "x")], "text,annotator,label,created_at,gold\n")
    second = write(tmp_path / "b.csv", [("b", "ada", "y")], HEADER)
    for paths in ([first, second], [second, first]):
        table = Annotations.read(paths)
        gold = dict(zip(table.texts.to_pylist(), table.gold.tolist(), strict=True))
        assert gold == {"a": 0, "b": -1} and table.created_at is not None
        assert any(f"{second}: there is no column 'gold'" in warning for warning in table.ledger.warnings)
        assert any(f"{second}: there is no column 'created_at'" in warning for warning in table.ledger.warnings)
    assert not Annotations.read([second, write(tmp_path / "c.csv", [("c", "bob", "x")], HEADER)]).ledger.warnings


def test_types_may_differ(tmp_path: Path) -> None:
    """Numbers in Parquet and text in CSV are the same labels; lists of options and their JSON are the same options."""
    pd.DataFrame({"text": ["a"], "annotator": [7], "label": [1.0]}).to_parquet(tmp_path / "a.parquet")
    write(tmp_path / "b.csv", [("a", "8", "1"), ("b", "7", "2")], HEADER)
    table = Annotations.read([tmp_path / "a.parquet", tmp_path / "b.csv"])
    assert table.tasks[0].labels == ("1", "2") and table.annotators == ("7", "8") and table.n_items == 2
    records = [{"text": "a", "annotator": "w", "label": "x", "options": ["x", "y"]}]
    (tmp_path / "c.json").write_text(json.dumps(records))
    write(tmp_path / "d.csv", [("a", "w", "x", '"[""x"", ""y""]"')], "text,annotator,label,options\n")
    table = Annotations.read([tmp_path / "c.json", tmp_path / "d.csv"])
    assert table.n_annotations == 2 and table.options_of(0) == ["x", "y"]


def test_formats_must_be_the_same(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv", [("a", "ada", "x")], HEADER)
    mturk = write(
        tmp_path / "b.csv", [("h", "w", "Approved", "t", "x")], "HITId,WorkerId,AssignmentStatus,Input.t,Answer.x\n"
    )
    with pytest.raises(RealmError, match=r"must have one format.*a\.csv as table, .*b\.csv as mturk"):
        Annotations.read([table, mturk])
    other = write(
        tmp_path / "c.csv", [("i", "v", "Rejected", "t", "y")], "HITId,WorkerId,AssignmentStatus,Input.t,Answer.x\n"
    )
    with pytest.raises(RealmError, match="no row is left"):
        Annotations.read([mturk, other])
    both = Annotations.read([mturk, other], rejected="keep")
    assert (both.n_items, both.annotators, both.ledger.format) == (1, ("w", "v"), "mturk")


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    path = write(folder / "a.csv", rows_of(1))
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    for paths in ([path, path], [path, link], [folder, path], [path, str(folder)]):
        with pytest.raises(RealmError, match="given twice"):
            Annotations.read(paths)


def test_wide_files_may_have_other_annotators(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", [("a", "x", "y"), ("b", "y", "x")], "text,ada,bob\n")
    write(tmp_path / "b.csv", [("a", "y", "y"), ("c", "", "x"), ("d", "x", "y")], "text,cyd,bob\n")
    table = Annotations.read([tmp_path / "a.csv", tmp_path / "b.csv"], wide="rest", repeats="last")
    assert table.annotators == ("ada", "bob", "cyd") and table.n_annotations == 8
    assert table.ledger.places(REPEATED) == [f"{tmp_path / 'a.csv'}, row 1"]  # bob's second label of a counts
    with pytest.raises(RealmError, match=r"b\.csv: `wide=ada`: there is no such column"):
        Annotations.read([tmp_path / "a.csv", tmp_path / "b.csv"], wide=["ada", "bob"])


def test_places() -> None:
    files = Source.joined(["a", "b", "c", "d"], [2, 0, 3, 1])
    assert str(files) == "a, b, c and d"
    places = [files.place([row]) for row in range(1, 7)]
    assert places == ["a, row 1", "a, row 2", "c, row 1", "c, row 2", "c, row 3", "d, row 1"]
    assert files.place([1, 2, 4]) == "a, rows 1, 2 (and rows of 1 more file)"
    assert files.place([4]) == "c, row 2"
    # comparisons hand tables to other processes
    again = pickle.loads(pickle.dumps(copy.deepcopy(files)))  # noqa: S301
    assert again == files and again.place([6]) == "d, row 1"
