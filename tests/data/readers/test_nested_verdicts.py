"""Verdicts nested in a record per item: by judge, as a list, with rationales; and what is not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm import Annotations, RealmError
from realm.data.long_table import NO_ANNOTATIONS, NO_ANSWER
from realm.data.readers import read_items

BY_JUDGE = [
    {"id": 7, "text": "x", "gold": "A", "verdicts": {"gpt-4": {"label": "A", "rationale": "long"}, "llama": "B"}},
    {"id": 8, "text": "y", "gold": "B", "verdicts": {"gpt-4": {"label": "B", "rationale": ""}}},
]
AS_LIST = [
    {"id": 7, "text": "x", "gold": "A", "verdicts": [{"judge": "gpt-4", "verdict": "A", "rationale": "long"},
                                                     {"judge": "llama", "verdict": "B"}]},
    {"id": 8, "text": "y", "gold": "B", "verdicts": [{"judge": "gpt-4", "verdict": "B"}]},
]  # fmt: skip


def write(path: Path, records: list[dict[str, Any]], lines: bool = True) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records) if lines else json.dumps(records))
    return path


def triples(table: Annotations) -> list[tuple[str, str, str]]:
    frame = table.to_pandas()
    return list(zip(frame["item"], frame["annotator"], frame["label"], strict=True))


@pytest.mark.parametrize("records", [BY_JUDGE, AS_LIST], ids=["by judge", "as a list"])
@pytest.mark.parametrize("lines", [True, False])
def test_verdicts_are_read_as_they_are(records, lines, tmp_path: Path) -> None:
    table = Annotations.read(write(tmp_path / ("v.jsonl" if lines else "v.json"), records, lines))
    assert triples(table) == [("7", "gpt-4", "A"), ("7", "llama", "B"), ("8", "gpt-4", "B")]
    assert table.gold is not None and table.gold.tolist() == [0, 1] and table.ledger.format == "verdicts"
    assert table.ledger.counts == {}


def test_parquet_with_nested_columns_is_read_alike(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(AS_LIST), tmp_path / "v.parquet")
    assert len(triples(Annotations.read(tmp_path / "v.parquet"))) == 3


def test_other_names_are_given(tmp_path: Path) -> None:
    records = [
        {"question": "x", "panel": [{"who": "a", "winner": "1", "kind": "2"}, {"who": "b", "winner": "2", "kind": "1"}]}
    ]
    path = write(tmp_path / "v.jsonl", records)
    with pytest.raises(RealmError, match=r"row 1: a verdict without a judge. Its fields are: kind, who, winner"):
        Annotations.read(path, format="verdicts", text="question", annotator="panel")
    records[0]["verdicts"] = records[0].pop("panel")
    write(path, records)
    named = Annotations.read(path, text="question", annotator="who", label="kind")
    assert [label for _, _, label in triples(named)] == ["2", "1"]
    usual = Annotations.read(path, text="question", annotator="who")
    assert [label for _, _, label in triples(usual)] == ["1", "2"]
    panel = [{"text": "x", "panel": {"a": "yes", "b": {"answer": "no"}}}]
    with pytest.raises(RealmError, match='give `format="verdicts"` and `annotator="panel"`'):
        Annotations.read(write(path, panel))
    table = Annotations.read(path, format="verdicts", annotator="panel")
    assert [each[1:] for each in triples(table)] == [("a", "yes"), ("b", "no")]


def test_verdicts_without_an_answer_and_records_without_verdicts_are_counted(tmp_path: Path) -> None:
    records = [
        *BY_JUDGE,
        {"id": 9, "text": "z", "verdicts": {"gpt-4": {"label": None, "rationale": "cannot say"}, "llama": ""}},
        {"id": 10, "text": "w", "verdicts": {}},
        {"id": 11, "text": "v"},
    ]
    table = Annotations.read(write(tmp_path / "v.jsonl", records))
    assert len(table) == 3 and table.ledger.counts == {NO_ANSWER: 2, NO_ANNOTATIONS: 2}
    ties = [{**each, "verdicts": {**each["verdicts"], "mixtral": {"label": "tie"}}} for each in BY_JUDGE]
    assert len(Annotations.read(write(tmp_path / "t.jsonl", ties), unanswered=["tie"])) == 3


def test_times_of_verdicts_are_kept(tmp_path: Path) -> None:
    timed = {"judge": "a", "verdict": "A", "created_at": "2026-11-02T10:00:00Z", "lead_time": 2.5}
    table = Annotations.read(write(tmp_path / "v.jsonl", [{"text": "x", "verdicts": [timed]}]), labels=["A", "B"])
    assert table.lead_time is not None and table.lead_time.tolist() == [2.5] and table.created_at is not None


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        ({"gpt-4": {"rationale": "long", "tokens": 3}}, r"row 1: gpt-4: no verdict in the fields rationale, tokens"),
        ({"gpt-4": {"label": {"first": "A"}}}, "row 1: gpt-4: no verdict in the fields label"),
        ([{"verdict": "A"}], r"row 1: a verdict without a judge"),
        ([{"judge": "", "verdict": "A"}], r"row 1: a verdict without a judge"),
    ],
)
def test_what_is_not_understood_is_named(verdicts, says, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=says):
        Annotations.read(write(tmp_path / "v.jsonl", [{"text": "x", "verdicts": verdicts}]))


def test_a_record_that_breaks_the_form_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "v.jsonl", [*BY_JUDGE, {"text": "z", "verdicts": "A"}])
    with pytest.raises(RealmError, match="row 3: the field 'verdicts' should have a list and has str"):
        Annotations.read(path)


def test_a_flat_table_with_a_column_of_that_name_is_a_table(tmp_path: Path) -> None:
    rows = [{"text": "x", "annotator": "a", "label": "A", "verdicts": "good"}]
    assert Annotations.read(write(tmp_path / "v.jsonl", rows), labels=["A", "B"]).ledger.format == "table"
    # objects beside annotators and labels are nobody's verdicts
    rows = [{"text": "x", "annotator": "a", "label": "A", "meta": {"k": {"label": "B"}}}]
    flat = Annotations.read(write(tmp_path / "v.jsonl", rows), labels=["A", "B"])
    assert [each[2] for each in triples(flat)] == ["A"]


def test_items_alone_are_read_too(tmp_path: Path) -> None:
    items = read_items(write(tmp_path / "v.jsonl", BY_JUDGE))
    assert items.ids.to_pylist() == ["7", "8"] and items.texts.to_pylist() == ["x", "y"]
