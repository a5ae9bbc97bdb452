"""Prodigy JSONL: choices, binary labels, ignored and rejected answers, sessions that are no people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm.data import Annotations, Items
from realm.data.long_table import NO_ANSWER
from realm.data.readers.prodigy import IGNORED, NEITHER, NOT_THIS, REJECTED
from realm.errors import RealmError

OPTIONS = [{"id": "POS", "text": "Positive"}, {"id": "NEG", "text": "Negative"}, {"id": "NEU", "text": "Neutral"}]


def record(text: str, who: str | None = "reviews-ada", answer: str = "accept", **more: Any) -> dict[str, Any]:
    hashes = {"_input_hash": sum(map(ord, text)), "_task_hash": 1, "_view_id": "choice", "_timestamp": 1690289421}
    return {"text": text, "meta": {"source": "web"}, **hashes, "answer": answer, "_annotator_id": who, **more}


def chosen(text: str, *ids: str, **more: Any) -> dict[str, Any]:
    return record(text, options=OPTIONS, accept=list(ids), **more)


def read(tmp_path: Path, records: list[dict[str, Any]], **more: Any) -> Annotations:
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return Annotations.read(path, **more)


def test_choices(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        [
            chosen("a", "POS"),
            chosen("a", "NEG", who="reviews-bob"),
            chosen("b", "NEG"),
            chosen("b", answer="ignore"),
            chosen("c", "POS", answer="reject"),
            chosen("c"),
            record("d"),
        ],
    )
    assert table.ledger.counts == {IGNORED: 1, REJECTED: 1, NO_ANSWER: 1, NEITHER: 1}
    assert table.tasks[0].labels == ("POS", "NEG", "NEU")
    assert table.annotators == ("reviews-ada", "reviews-bob")
    assert table.n_annotations == 3


def test_items_are_those_of_one_input_hash(tmp_path: Path) -> None:
    table = read(tmp_path, [chosen("a", "POS"), chosen("a", "NEG", who="reviews-bob")])
    assert table.item_ids.to_pylist() == ["97"]


def test_several_accepted(tmp_path: Path) -> None:
    records = [chosen("a", "POS", "NEU"), chosen("b", "NEG")]
    with pytest.raises(RealmError, match="row 1: an annotation has several answers"):
        read(tmp_path, records)
    assert read(tmp_path, records, multi="first").n_annotations == 2


def test_options_of_each_item(tmp_path: Path) -> None:
    two = [{"id": 1, "text": "Paris"}, {"id": 2, "text": "Rome"}]
    other = [{"id": 1, "text": "1"}, {"id": 2, "text": "0"}, {"id": 3, "text": "2"}]
    table = read(tmp_path, [record("q", options=two, accept=[2]), record("r", options=other, accept=[1])])
    assert table.tasks[0].labels is None
    assert table.label.tolist() == [1, 0]
    assert table.options_of(0) == ["Paris", "Rome"]


def test_binary_with_one_label(tmp_path: Path) -> None:
    table = read(tmp_path, [record("a", label="SPAM"), record("b", label="SPAM", answer="reject")])
    assert table.tasks[0].labels == ("SPAM", "not SPAM")
    assert table.label.tolist() == [0, 1]


def test_binary_with_two_labels(tmp_path: Path) -> None:
    records = [record("a", label="HAM"), record("b", label="SPAM", answer="reject"), record("c", label="SPAM")]
    table = read(tmp_path, records)
    assert [table.label_name(i, k) for i, k in zip(table.item, table.label, strict=True)] == ["HAM", "HAM", "SPAM"]


def test_binary_with_three_labels_drops_rejections(tmp_path: Path) -> None:
    records = [record(text, label=label) for text, label in zip("abc", "xyz", strict=True)]
    table = read(tmp_path, [*records, record("d", label="x", answer="reject")])
    assert table.n_annotations == 3
    assert table.ledger.counts == {NOT_THIS: 1}


def test_a_timestamp_is_a_sitting(tmp_path: Path) -> None:
    records = [chosen("a", "POS", who="2023-07-25_14-50-21"), chosen("b", "NEG", who=None, _session_id="reviews-bob")]
    table = read(tmp_path, records)
    assert "2023-07-25_14-50-21" in table.ledger.warnings[0]
    assert table.annotators == ("2023-07-25_14-50-21", "reviews-bob")
    assert not read(tmp_path, [chosen("a", "POS"), chosen("b", "NEG")]).ledger.warnings


def test_no_annotator_at_all(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="row 2: no annotator"):
        read(tmp_path, [chosen("a", "POS"), chosen("b", "NEG", who=None)])


def test_an_unknown_answer(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="row 1: the answer must be accept, reject or ignore, not 'maybe'"):
        read(tmp_path, [chosen("a", "POS", answer="maybe")])


def test_the_same_options_in_another_order_are_one_question(tmp_path: Path) -> None:
    records = [chosen("a", "POS"), record("b", options=OPTIONS[::-1], accept=["NEG"])]
    table = read(tmp_path, records)
    assert table.tasks[0].labels == ("POS", "NEG", "NEU")
    assert table.label.tolist() == [0, 1]
    with_fewer = read(tmp_path, [*records, record("c", options=OPTIONS[:2], accept=["NEG"])])
    assert with_fewer.tasks[0].labels is None


def test_flags_that_name_nothing(tmp_path: Path) -> None:
    records = [chosen("a", "POS"), chosen("b", "NEG")]
    with pytest.raises(RealmError, match=r'`annotator="nosuch"`: there is no such field. There are: .*_annotator_id'):
        read(tmp_path, records, annotator="nosuch")
    with pytest.raises(RealmError, match=r'`label="nosuch"`: not for this format: the label is in accept or label'):
        read(tmp_path, records, label="nosuch")
    assert read(tmp_path, records, annotator="_annotator_id").n_annotations == 2
    assert read(tmp_path, records, annotator="source").annotators == ("web",)
    read(tmp_path, records)
    flags = {"annotator": "nosuch", "label": "nosuch", "gold": "nosuch"}
    assert len(Items.read(tmp_path / "reviews.jsonl", **flags)) == 2
