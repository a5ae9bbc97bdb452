"""Label Studio: JSON, JSON-MIN and CSV as its own converter writes them (see fixtures/exports/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm.data import Annotations, Items
from realm.data.answers import SEVERAL_DROPPED, SEVERAL_FIRST
from realm.data.build import CONTRADICTED, NO_ANNOTATION
from realm.data.long_table import NO_ANNOTATIONS, NO_ANSWER
from realm.data.readers.label_studio import CANCELLED, GROUND_TRUTH
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"


def triples(table: Annotations) -> set[tuple[str, str, str]]:
    frame = table.to_pandas()
    return set(zip(frame["item"], frame["annotator"], frame["label"], strict=True))


def test_json_counts_every_reason() -> None:
    table = Annotations.read(EXPORTS / "label_studio.json", multi="drop")
    assert table.ledger.counts == {
        CANCELLED: 1,
        GROUND_TRUTH: 1,
        NO_ANNOTATIONS: 1,
        NO_ANSWER: 1,
        SEVERAL_DROPPED: 1,
        CONTRADICTED: 1,
    }
    assert table.ledger.rows[CANCELLED] == [1]
    assert table.ledger.rows[NO_ANNOTATIONS] == [4]
    assert triples(table) == {
        ("11", "1", "Positive"),
        ("11", "person2@example.org", "Positive"),
        ("12", "1", "Negative"),
        ("12", "person2@example.org", "Negative"),
        ("13", "1", "Neutral"),
        ("15", "3", "Negative"),
    }
    frame = table.to_pandas()
    assert frame.loc[frame["item"] == "13", "gold"].tolist() == ["Neutral"]
    assert frame.loc[frame["item"] != "13", "gold"].isna().all()


def test_the_latest_annotation_counts_though_it_is_listed_first() -> None:
    assert ("12", "1", "Negative") in triples(Annotations.read(EXPORTS / "label_studio.json", multi="first"))


def test_several_choices_are_refused_with_a_count_unless_told() -> None:
    with pytest.raises(RealmError, match=r'row 3: an annotation has several answers.*`multi="first"`.*`multi="drop"`'):
        Annotations.read(EXPORTS / "label_studio.json")
    table = Annotations.read(EXPORTS / "label_studio.json", multi="first")
    assert table.ledger.counts[SEVERAL_FIRST] == 1
    assert ("13", "3", "Positive") in triples(table)


@pytest.mark.parametrize("name", ["label_studio_min.json", "label_studio.csv"])
def test_json_min_and_csv(name: str) -> None:
    table = Annotations.read(EXPORTS / name, multi="drop")
    assert table.ledger.counts == {NO_ANNOTATIONS: 1, NO_ANSWER: 1, SEVERAL_DROPPED: 1, CONTRADICTED: 1}
    assert "ground truth" in table.ledger.warnings[0]
    full = Annotations.read(EXPORTS / "label_studio.json", multi="drop")
    # These forms do not say what is ground truth, so that annotation is among them.
    assert triples(table) == triples(full) | {("13", "person9@example.org", "Neutral")}
    assert table.texts.to_pylist() == full.texts.to_pylist()


def write(path: Path, tasks: Any) -> Path:
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def task(number: int, answers: dict[str, list[dict[str, Any]]], **data: Any) -> dict[str, Any]:
    annotations = [{"id": k, "completed_by": who, "result": result} for k, (who, result) in enumerate(answers.items())]
    return {"id": number, "data": data, "annotations": annotations}


def choice(name: str, *choices: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "t", "type": "choices", "value": {"choices": list(choices)}}


def test_several_questions_and_several_fields_are_asked_for(tmp_path: Path) -> None:
    both = [
        choice("mood", "good"),
        choice("topic", "film"),
        {"from_name": "span", "type": "labels", "value": {"start": 1}},
    ]
    other = [choice("mood", "bad"), choice("topic", "food")]
    tasks = [task(1, {"a": both, "b": other}, title="x", body="y"), task(2, {"a": other}, title="z", body="w")]
    path = write(tmp_path / "export.json", tasks)
    with pytest.raises(RealmError, match="`label`: mood, topic"):
        Annotations.read(path, text="title")
    with pytest.raises(RealmError, match="`text`: title, body"):
        Annotations.read(path, label="mood")
    table = Annotations.read(path, text="body", label="topic")
    assert table.tasks[0].labels == ("film", "food")
    assert table.texts.to_pylist() == ["y", "w"]
    with pytest.raises(RealmError, match='`gold="nope"`: there is no such field'):
        Annotations.read(path, text="body", label="topic", gold="nope")


def test_legacy_completions_and_skipped(tmp_path: Path) -> None:
    old = {"id": 1, "data": {"text": "x"}, "completions": [{"completed_by": 1, "skipped": True, "result": []}]}
    old["completions"] += [{"completed_by": k, "result": [choice("m", word)]} for k, word in ((2, "p"), (3, "q"))]
    table = Annotations.read(write(tmp_path / "old.json", [old]))
    assert table.n_annotations == 2
    assert table.ledger.counts == {CANCELLED: 1}


def test_items_alone_keep_tasks_without_annotations() -> None:
    assert len(Items.read(EXPORTS / "label_studio.json")) == 5


def test_a_record_of_another_shape_names_its_row(tmp_path: Path) -> None:
    tasks = [task(1, {"a": [choice("m", "p")]}, text="x"), {"id": 2, "data": {"text": "y"}, "annotations": [7]}]
    with pytest.raises(RealmError, match="row 2: the field 'annotations' should have an object and has int"):
        Annotations.read(write(tmp_path / "bad.json", tasks))


def test_ground_truth_of_a_task_that_nobody_else_labelled_is_kept(tmp_path: Path) -> None:
    def answer(person: int, choice: str, truth: bool = False) -> dict[str, Any]:
        result = [{"from_name": "sentiment", "type": "choices", "value": {"choices": [choice]}}]
        return {"completed_by": person, "ground_truth": truth, "result": result}

    tasks = [
        {"id": 1, "data": {"text": "a"}, "annotations": [answer(9, "pos", truth=True)]},
        {"id": 2, "data": {"text": "b"}, "annotations": [answer(1, "pos"), answer(2, "neg")]},
        {"id": 3, "data": {"text": "c"}, "annotations": []},
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    table = Annotations.read(path)
    assert table.item_ids.to_pylist() == ["1", "2"]
    assert table.gold is not None and table.gold.tolist() == [1, -1]
    assert (table.item.tolist(), table.label.tolist()) == ([1, 1], [1, 0])
    assert table.ledger.counts == {GROUND_TRUTH: 1, NO_ANNOTATIONS: 1, NO_ANNOTATION: 1}
    assert table.ledger.rows[NO_ANNOTATION] == [1]

    path.write_text(json.dumps(tasks[:1]))
    with pytest.raises(RealmError, match=r"not one annotation in it \(1 x ground truth"):
        Annotations.read(path)


def test_a_flag_that_names_nothing_in_json_min() -> None:
    with pytest.raises(RealmError, match=r'`annotator="nosuch"`: there is no such field. There are: .*annotator'):
        Annotations.read(EXPORTS / "label_studio_min.json", annotator="nosuch", multi="drop")
