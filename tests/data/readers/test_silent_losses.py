"""Files that were once read wrong without a word: each is read right now, or is an error that says what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations, Items
from realm.errors import RealmError


def pack(path: Path, files: list[tuple[str, str | bytes]]) -> Path:
    for name, content in files:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(*labels: str | None, **more: Any) -> str:
    """doccano's file of one annotator: items 1, 2, ... with these labels."""
    records = [{"id": n, "text": f"t{n}", "label": [x] if x else [], **more} for n, x in enumerate(labels, 1)]
    return "".join(json.dumps(record) + "\n" for record in records)


def said(table: Annotations) -> set[tuple[str, str, str]]:
    frame = table.to_pandas()
    return set(zip(frame["text"], frame["annotator"], frame["label"], strict=True))


# ---------------------------------------------------------------- doccano


def test_doccano_csv_label_with_a_hash(tmp_path: Path) -> None:
    (tmp_path / "ada.csv").write_text("id,text,label\n1,a,C#\n2,b,C\n3,c,#tag\n")
    table = Annotations.read(tmp_path / "ada.csv", format="doccano")
    assert said(table) == {("a", "ada", "C#"), ("b", "ada", "C"), ("c", "ada", "#tag")}


def test_doccano_csv_labels_with_hashes_that_cannot_be_told_apart(tmp_path: Path) -> None:
    (tmp_path / "ada.csv").write_text("id,text,label\n1,a,C\n2,b,C##Java\n")
    for multi in (None, "first", "drop"):
        with pytest.raises(RealmError, match=r"row 2: .*'C##Java'.*cannot be told apart.*JSONL"):
            Annotations.read(tmp_path / "ada.csv", format="doccano", multi=multi)


def test_doccano_json_label_with_a_hash_is_one_label(tmp_path: Path) -> None:
    (tmp_path / "ada.json").write_text(
        json.dumps([{"id": n, "text": n, "label": x} for n, x in ((1, "a#b"), (2, "c"))])
    )
    assert {label for *_, label in said(Annotations.read(tmp_path / "ada.json", format="doccano"))} == {"a#b", "c"}


@pytest.mark.parametrize("names", [("ada.jsonl", "ada.json"), ("first/ada.jsonl", "second/ada.jsonl")])
def test_doccano_two_files_of_one_annotator(tmp_path: Path, names: tuple[str, str]) -> None:
    path = pack(tmp_path / "export", [(names[0], lines("x", "y")), (names[1], lines("y", "x"))])
    with pytest.raises(RealmError, match=r"two files of one annotator, ada"):
        Annotations.read(path)


@pytest.mark.parametrize("name", ["bob.JSONL", "bob.jsonl.gz", "bob.json", "bob.tsv", "deep/bob.csv"])
def test_doccano_files_of_any_ending_are_read_alike(tmp_path: Path, name: str) -> None:
    content: str | bytes = lines("y", "y")
    if name.endswith("sv"):
        content = "id,text,label\n1,t1,y\n2,t2,y\n".replace(",", "\t" if name.endswith("tsv") else ",")
    if name.endswith("gz"):
        content = gzip.compress(str(content).encode())
    junk = [(".hidden.jsonl", "{"), ("._ada.jsonl", "{"), ("readme.txt", "hello")]
    table = Annotations.read(pack(tmp_path / "export", [("ada.jsonl", lines("x", "y")), (name, content), *junk]))
    assert (table.annotators, table.n_annotations) == (("ada", "bob"), 4)


# ---------------------------------------------------------------- several tables

WHO = "text,who,label\na,ada,x\na,bob,y\nb,ada,y\nb,bob,y\n"


def test_fields_beside_doccanos_own_are_named(tmp_path: Path) -> None:
    """They may be an annotator by another name: what was not read is said."""
    files = [("one.jsonl", lines("x", "y", who="ada")), ("two.jsonl", lines("y", "y", who="bob"))]
    table = Annotations.read(pack(tmp_path / "t", files))
    assert any("who" in warning and "name of the file" in warning for warning in table.ledger.warnings)
    table = Annotations.read(pack(tmp_path / "u", [("one.jsonl", lines("x")), ("two.jsonl", lines("y", "y"))]))
    assert not any("name of the file" in warning for warning in table.ledger.warnings)


# ---------------------------------------------------------------- a wrong item key


def pairs(**columns: Any) -> pd.DataFrame:
    """Hypotheses that stand under several premises: one text, several items."""
    rows = [
        {"pair": f"p{pair}", "text": f"h{pair % 4}", "annotator": who, "label": "yes" if pair < 6 else "no",
         "gold": "yes" if pair < 6 else "no"}
        for pair in range(12)
        for who in ("ada", "bob")
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


def test_items_merged_by_text_whose_gold_differs_beside_a_column_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    pairs(note="same").to_csv(path, index=False)
    for read in (Annotations.read, Annotations.read_test):
        with pytest.raises(RealmError, match=r"rows 5 and 13: .*text is the same.*gold.*'yes'.*'no'.*`item=\"pair\"`"):
            read(path)
        assert read(path, item="pair").n_items == 12
        assert read(path, item="text").n_items == 4  # on purpose: what a text is labelled decides
    with pytest.raises(RealmError, match='`item="pair"`'):
        Annotations.from_pandas(pairs())
    assert len(Items.read(path)) == 4  # without gold nothing contradicts


def test_gold_that_differs_beside_no_column_of_ids_is_counted(tmp_path: Path) -> None:
    """A number of every row tells annotations apart, not items; neither does a column that does not settle gold."""
    frame = pairs().drop(columns="pair")
    for column in ({}, {"row": range(24)}, {"batch": [f"b{n % 2}" for n in range(24)]}):
        table = Annotations.from_pandas(frame.assign(**column))
        assert table.n_items == 4
        assert sum(table.ledger.counts.values()) > 0


# ---------------------------------------------------------------- annotator and label swapped


def crowd(n: int = 60, annotators: int = 30, per_item: int = 5) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = [
        {"text": f"t{item}", "worker": f"w{who}", "vote": "yes" if generator.random() < 0.7 else "no"}
        for item in range(n)
        for who in generator.choice(annotators, per_item, replace=False)
    ]
    return pd.DataFrame(rows)


def test_annotator_and_label_swapped(tmp_path: Path) -> None:
    with pytest.raises(
        RealmError, match=r"30 labels by 2 annotators.*swapped.*`annotator=\"worker\"` and `label=\"vote\"`"
    ):
        Annotations.from_pandas(crowd(), annotator="vote", label="worker")
    assert Annotations.from_pandas(crowd(), annotator="worker", label="vote").n_annotators == 30


def test_annotator_and_label_swapped_with_one_annotation_per_item() -> None:
    """Nothing contradicts: that there are far more labels than annotators is said, and not more."""
    frame = crowd(per_item=1)
    swapped = Annotations.from_pandas(frame, annotator="vote", label="worker")
    assert any("swapped" in warning for warning in swapped.ledger.warnings)
    right = Annotations.from_pandas(frame, annotator="worker", label="vote")
    assert not any("swapped" in warning for warning in right.ledger.warnings)


def test_a_table_of_many_labels_by_few_annotators_is_read() -> None:
    rows = [{"text": f"t{n}", "annotator": who, "label": f"l{n % 25}"} for n in range(50) for who in ("ada", "bob")]
    table = Annotations.from_pandas(pd.DataFrame(rows))
    assert (table.n_annotations, table.n_annotators) == (100, 2)
    assert not any("swapped" in warning for warning in table.ledger.warnings)


# ---------------------------------------------------------------- gold of its own file
