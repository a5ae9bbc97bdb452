"""Argilla 2 records as argilla's own export code writes them (see fixtures/exports/README.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm.data import Annotations
from realm.data.answers import SEVERAL_DROPPED
from realm.data.long_table import NO_ANNOTATIONS
from realm.data.readers.argilla import NESTED
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"


def test_only_submitted_responses_count() -> None:
    table = Annotations.read(EXPORTS / "argilla_flat.jsonl", text="review")
    assert table.ledger.counts == {
        "response not submitted (draft)": 1,
        "response not submitted (discarded)": 1,
        NO_ANNOTATIONS: 1,
    }
    assert (table.n_items, table.n_annotators, table.n_annotations) == (3, 3, 5)
    assert not table.ledger.warnings


def test_metadata_beside_the_text_is_asked_about() -> None:
    with pytest.raises(RealmError, match="`text`: review, source"):
        Annotations.read(EXPORTS / "argilla_flat.jsonl")


def test_the_nested_form_warns_that_drafts_are_among_them() -> None:
    table = Annotations.read(EXPORTS / "argilla_nested.json")
    assert table.n_annotations == 7
    assert table.ledger.warnings == [NESTED]
    assert table.texts.to_pylist() == ["A joy.", "It drags.", "Fine."]


def test_several_labels_in_one_response() -> None:
    with pytest.raises(RealmError, match="an annotation has several answers"):
        Annotations.read(EXPORTS / "argilla_multi.jsonl")
    table = Annotations.read(EXPORTS / "argilla_multi.jsonl", multi="drop")
    assert table.ledger.counts == {SEVERAL_DROPPED: 1}


def record(value: object, users: list[str]) -> str:
    fields = {"text": "x", "q.responses": value, "q.responses.users": users, "q.responses.status": ["submitted"] * 2}
    return json.dumps(fields)


def test_ratings_rankings_and_uneven_lists(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(record([1, 5], ["a", "b"]))
    assert Annotations.read(path).tasks[0].labels == ("1", "5")
    path.write_text(record([[{"value": "x", "rank": 1}], 5], ["a", "b"]))
    with pytest.raises(RealmError, match="row 1: the question 'q' is not answered by labels"):
        Annotations.read(path)
    path.write_text(record([1, 5], ["a"]))
    with pytest.raises(RealmError, match="row 1: 'q' has 2 responses, 1 users and 2 statuses"):
        Annotations.read(path)


def test_parquet_of_the_flattened_records(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = (EXPORTS / "argilla_flat.jsonl").read_text().splitlines()
    pq.write_table(pa.Table.from_pylist([json.loads(line) for line in lines]), tmp_path / "records.parquet")
    table = Annotations.read(tmp_path / "records.parquet", text="review")
    assert table.to_pandas().equals(Annotations.read(EXPORTS / "argilla_flat.jsonl", text="review").to_pandas())
