"""Annotators that are left out and labels that are renamed: as if the table had been so, and counted."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations
from realm.data.corrections import read_map
from realm.errors import RealmError


def frame_of(seed: int = 0, n: int = 60) -> pd.DataFrame:
    draw = random.Random(seed)
    rows = [
        (f"t{draw.randrange(15)}", draw.choice(["ada", "bob", "cyd", "dan"]), draw.choice(["good", "Good", "bad"]))
        for _ in range(n)
    ]
    return pd.DataFrame(rows, columns=["text", "annotator", "label"])


# ---------------------------------------------------------------- annotators


@pytest.mark.parametrize("seed", range(2))
def test_without_an_annotator_it_is_the_table_without_their_rows(seed: int) -> None:
    frame = frame_of(seed)
    for names in (["bob"], ["bob", "dan"], "ada"):
        left = frame[~frame["annotator"].isin([names] if isinstance(names, str) else names)]
        table = Annotations.from_pandas(frame, exclude=names)
        assert table.fingerprint() == Annotations.from_pandas(left).fingerprint()
        dropped = sum(n for reason, n in table.ledger.counts.items() if reason.startswith("annotator excluded: "))
        assert dropped == len(frame) - len(left)
    assert "excluded" not in str(Annotations.from_pandas(frame).ledger.counts)


def test_gold_is_the_items_and_stays() -> None:
    frame = pd.DataFrame(
        [
            ("a", "ada", "x", "x"),
            ("b", "bob", "y", ""),
            ("c", "bob", "y", "y"),
            ("d", "cyd", "y", ""),
            ("a", "bob", "x", ""),
        ],
        columns=["text", "annotator", "label", "gold"],
    )
    table = Annotations.from_pandas(frame, exclude=["bob"])
    assert table.texts.to_pylist() == ["a", "c", "d"] and table.gold.tolist() == [0, 1, -1]
    assert table.annotators == ("ada", "cyd") and table.ledger.counts == {"annotator excluded: bob": 3}


def test_names_that_are_not_there(tmp_path: Path) -> None:
    frame = frame_of()
    with pytest.raises(RealmError, match=r"`exclude=\"bobb\"`: there is no such annotator\. Did you mean `bob`"):
        Annotations.from_pandas(frame, exclude=["bobb"])
    with pytest.raises(RealmError, match="There are: "):
        Annotations.from_pandas(frame, exclude=["zzz"])
    with pytest.raises(RealmError, match="leaves nobody"):
        Annotations.from_pandas(frame, exclude=["ada", "bob", "cyd", "dan"])


def test_a_file_of_names(tmp_path: Path) -> None:
    frame = frame_of()
    (tmp_path / "blocked.txt").write_text("bob\n\n dan \nzed\n")
    (tmp_path / "blocked.csv").write_text("annotator,accuracy\nbob,0.4\ndan,0.5\n")
    expected = Annotations.from_pandas(frame, exclude=["bob", "dan"])
    for path in (tmp_path / "blocked.txt", str(tmp_path / "blocked.csv")):
        assert Annotations.from_pandas(frame, exclude=path).fingerprint() == expected.fingerprint()
    table = Annotations.from_pandas(frame, exclude=[tmp_path / "blocked.txt"])
    assert any("names 1 who are not among the annotators: zed" in warning for warning in table.ledger.warnings)
    (tmp_path / "names.csv").write_text("who\nbob\n")
    with pytest.raises(RealmError, match=r"`exclude`: .*names\.csv must have the column annotator; it has: who"):
        Annotations.from_pandas(frame, exclude=tmp_path / "names.csv")
    with pytest.raises(RealmError, match="cannot be read"):
        Annotations.from_pandas(frame, exclude=tmp_path / "absent.txt")


@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_column_of_an_annotator_is_left_out(seed: int, gold: bool) -> None:
    """One row per item: it is the table without that column, and keeps the gold of items that nobody else labelled."""
    draw = random.Random(seed)
    columns = {name: [draw.choice(["x", "y", "", ""]) for _ in range(30)] for name in ("ada", "bob", "cyd")}
    frame = pd.DataFrame({"text": [f"t{n}" for n in range(30)], **columns})
    if gold:
        frame["gold"] = [draw.choice(["x", "y", ""]) for _ in range(30)]
    table = Annotations.from_pandas(frame, wide=["ada", "bob", "cyd"], exclude="bob")
    expected = Annotations.from_pandas(frame.drop(columns="bob"), wide=["ada", "cyd"])
    assert table.fingerprint(gold=True) == expected.fingerprint(gold=True)


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize("seed", range(2))
def test_renamed_it_is_the_table_with_the_other_names(seed: int) -> None:
    frame = frame_of(seed).assign(gold=["Good", "bad", ""] * 20)
    renamed = frame.replace({"label": {"Good": "good"}, "gold": {"Good": "good"}}).assign()
    columns = {"item": "row"}
    frame["row"] = renamed["row"] = frame.index.astype(str)
    renamed["text"] = frame["text"] = frame["text"] + frame["row"]
    table = Annotations.from_pandas(frame, map_labels={"Good": "good"}, **columns)
    assert table.fingerprint(gold=True) == Annotations.from_pandas(renamed, **columns).fingerprint(gold=True)
    counts = {f"{role} 'Good' read as 'good'": int((frame[role] == "Good").sum()) for role in ("label", "gold")}
    assert {reason: table.ledger.counts[reason] for reason in counts} == counts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "from,to\nGood,good\nno,NO\n1,one\n"),
        ("m.tsv", "from\tto\nGood\tgood\nno\tNO\n1\tone\n"),
        ("m.yaml", "Good: good\nno: NO\n1: one\n"),
        ("m.json", '{"Good": "good", "no": "NO", "1": "one"}'),
    ],
)
def test_files_of_labels(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    expected = {"Good": "good", "no": "NO", "1": "one"}
    assert read_map(tmp_path / name, "map_labels") == read_map(str(tmp_path / name), "map_labels") == expected


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("m.csv", "Good,good\nbad,Bad\n", "must have the columns from and to; it has: Good, good"),
        ("m.csv", "from,to\nGood,\n", "'Good' has no label to become"),
        ("m.csv", "from,to\na,b\na,c\n", "'a' is to become 'b' and 'c'"),
        ("m.csv", "from,to\na,b\nb,c\n", "'a' becomes 'b', which is renamed too"),
        ("m.yaml", "- a\n", "must hold `spelling: label` entries"),
        ("m.yaml", "a: b\na: c\n", "stands there several times"),
        ("m.yaml", "a: [b, c]\n", "'a' has no label to become"),
        ("m.yaml", "a: b: c\n", "m.yaml"),
    ],
)
def test_files_of_labels_that_are_refused(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RealmError, match=match):
        read_map(tmp_path / name, "map_labels")
    with pytest.raises(RealmError, match="there is no such file"):
        read_map(tmp_path / "absent.csv", "map_labels")


def test_labels_that_do_not_occur_are_said() -> None:
    table = Annotations.from_pandas(frame_of(), map_labels={"Good": "good", "goood": "good"})
    (warning,) = (text for text in table.ledger.warnings if "again" not in text)
    assert "names labels that do not occur: 'goood'. Did you mean `good`" in warning
    assert not Annotations.from_pandas(frame_of(), map_labels={"Good": "good"}, repeats="last").ledger.warnings


def test_numbers_are_named_as_they_are_read() -> None:
    frame = pd.DataFrame({"text": list("abab"), "annotator": list("vvww"), "label": ["1.0", "2.0", "1", "2"]})
    table = Annotations.from_pandas(frame, map_labels={1: "no", "2": "yes"})
    assert table.tasks[0].labels == ("no", "yes") and table.n_annotations == 4


def test_gold_of_a_test_table_is_renamed_too(tmp_path: Path) -> None:
    train = Annotations.from_pandas(frame_of(), map_labels={"Good": "good"})
    (tmp_path / "t.csv").write_text("text,gold\na,Good\nb,bad\n")
    test = Annotations.read_test(tmp_path / "t.csv", tasks=train.tasks, map_labels={"Good": "good"})
    assert test.gold.tolist() == [1, 0] and not test.ledger.warnings
    assert Annotations.read_test(tmp_path / "t.csv", tasks=train.tasks).gold.tolist() == [1, 0]
    with pytest.raises(RealmError, match="the gold 'Good' is not among the labels"):
        Annotations.read_test(tmp_path / "t.csv", tasks=train.tasks, exact_labels=True)
