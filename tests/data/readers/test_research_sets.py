"""Disaggregated research sets: lists of structs, one column per label, LeWiDi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm.data import Annotations, Items
from realm.data.answers import SEVERAL_DROPPED
from realm.data.long_table import NO_ANNOTATIONS, NO_ANSWER
from realm.data.readers.hugging_face import UNCLEAR
from realm.errors import RealmError


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


HATEXPLAIN = [
    {"id": "1", "post_tokens": ["so", "what"], "annotators": [{"label": 0, "annotator_id": 7, "target": ["None"]}]},
    {
        "id": "2",
        "post_tokens": ["oh", "no"],
        "annotators": [{"label": 2, "annotator_id": 7, "target": []}, {"label": 1, "annotator_id": 9, "target": []}],
    },
    {"id": "3", "post_tokens": ["well"], "annotators": []},
]


def test_list_of_structs(tmp_path: Path) -> None:
    table = Annotations.read(write(tmp_path / "hatexplain.json", HATEXPLAIN))
    assert table.texts.to_pylist() == ["so what", "oh no"]
    assert table.annotators == ("7", "9")
    assert table.tasks[0].labels == ("0", "1", "2")
    assert table.ledger.counts == {NO_ANNOTATIONS: 1}


def test_struct_of_lists_as_arrow_has_it(tmp_path: Path) -> None:
    flat = [
        {**record, "annotators": {key: [one[key] for one in record["annotators"]] for key in ("label", "annotator_id")}}
        for record in HATEXPLAIN
    ]
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "hatexplain.parquet")
    read = Annotations.read(tmp_path / "hatexplain.parquet")
    assert read.to_pandas().equals(Annotations.read(write(tmp_path / "hatexplain.json", HATEXPLAIN)).to_pandas())


def test_uneven_lists(tmp_path: Path) -> None:
    bad = [{"id": "1", "text": "x", "annotators": {"label": [1, 2], "annotator_id": [7]}}]
    with pytest.raises(RealmError, match="row 1: 1 annotators and 2 labels"):
        Annotations.read(write(tmp_path / "bad.json", bad))


GO_EMOTIONS = """text,id,author,subreddit,link_id,parent_id,created_utc,rater_id,example_very_unclear,anger,joy,neutral
That game hurt.,e1,a,nfl,l,p,1548381039.0,1,False,0,1,0
That game hurt.,e1,a,nfl,l,p,1548381039.0,37,False,1,1,0
"Wait, what?",e2,b,x,l,p,1548381039.0,37,True,0,0,0
Fine.,e3,b,x,l,p,1548381039.0,1,False,0,0,1
Fine.,e3,b,x,l,p,1548381039.0,37,False,0,0,0
"""


def test_go_emotions(tmp_path: Path) -> None:
    path = write(tmp_path / "goemotions_1.csv", GO_EMOTIONS)
    with pytest.raises(RealmError, match="row 2: an annotation has several answers"):
        Annotations.read(path)
    table = Annotations.read(path, multi="drop")
    assert table.ledger.counts == {UNCLEAR: 1, NO_ANSWER: 1, SEVERAL_DROPPED: 1}
    assert table.tasks[0].labels == ("anger", "joy", "neutral")
    assert table.item_ids.to_pylist() == ["e1", "e3"]
    assert Annotations.read(path, multi="first").n_annotations == 3
    assert Annotations.read(path, multi="first", label="joy,neutral").tasks[0].labels == ("joy", "neutral")
    assert len(Items.read(path)) == 3
    with pytest.raises(RealmError, match="`label` must list two columns of 0 and 1"):
        Annotations.read(path, label="joy,author")


LEWIDI = {
    "1": {
        "text": "x",
        "annotation task": "hate",
        "annotators": "Ann1,Ann2",
        "annotations": "0,1",
        "soft_label": {"0": 0.5, "1": 0.5},
        "split": "train",
        "lang": "en",
    },
    "2": {"text": "y", "annotators": "Ann1,Ann3", "annotations": "1,1", "soft_label": {}, "split": "train"},
}


def test_lewidi_edition_2(tmp_path: Path) -> None:
    table = Annotations.read(write(tmp_path / "train.json", LEWIDI))
    assert table.annotators == ("Ann1", "Ann2", "Ann3")
    assert table.item_ids.to_pylist() == ["1", "2"]
    assert table.gold is None
    bad = {"1": {**LEWIDI["1"], "annotations": "0"}}
    with pytest.raises(RealmError, match="row 1: 2 annotators and 1 annotations"):
        Annotations.read(write(tmp_path / "bad.json", bad))


def test_lewidi_edition_3(tmp_path: Path) -> None:
    third = {
        "7": {
            "text": {"context": "It rains.", "statement": "It is wet."},
            "annotators": "Ann1,Ann2",
            "annotations": {"Ann1": "entailment", "Ann2": "entailment,neutral"},
            "soft_label": {},
        },
        "8": {"text": "z", "annotators": "Ann1", "annotations": {"Ann1": "-5"}, "soft_label": {}},
    }
    path = write(tmp_path / "varierr.json", third)
    with pytest.raises(RealmError, match="row 1: an annotation has several answers"):
        Annotations.read(path)
    table = Annotations.read(path, multi="drop")
    assert table.texts.to_pylist() == ["context: It rains.\nstatement: It is wet.", "z"]


def test_lewidi_flags_that_name_nothing(tmp_path: Path) -> None:
    item = {"text": "a", "annotators": "A1,A2", "annotations": "0,1"}
    path = write(tmp_path / "lewidi.json", {"1": item})
    with pytest.raises(RealmError, match=r'`text="nosuch"`: there is no such column. The columns are: .*text'):
        Annotations.read(path, text="nosuch")
