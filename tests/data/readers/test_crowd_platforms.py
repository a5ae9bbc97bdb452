"""Amazon MTurk batch CSV and Toloka TSV: prefixes, statuses, gold, several answers per row."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from realm.data import Annotations, Items
from realm.data.long_table import NO_ANSWER
from realm.data.readers import crowd_platforms
from realm.errors import RealmError

MTURK_HEADER = """
    HITId HITTypeId Title Description Keywords Reward CreationTime MaxAssignments RequesterAnnotation
    AssignmentDurationInSeconds AutoApprovalDelayInSeconds Expiration NumberOfSimilarHITs LifetimeInSeconds
    AssignmentId WorkerId AssignmentStatus AcceptTime SubmitTime AutoApprovalTime ApprovalTime RejectionTime
    RequesterFeedback WorkTimeInSeconds LifetimeApprovalRate Last30DaysApprovalRate Last7DaysApprovalRate
"""
MTURK = re.findall(r"\w+", MTURK_HEADER)


def write(path: Path, header: list[str], rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, delimiter=delimiter, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def assignment(text: str, worker: str, answer: str, status: str = "Approved", **more: str) -> dict[str, str]:
    return {
        "HITId": f"H{text}",
        "WorkerId": worker,
        "AssignmentStatus": status,
        "Input.review": text,
        "Input.url": "x",
        "Answer.sentiment.label": answer,
        **more,
    }


BATCH = [
    assignment("a, b", "W1", "pos"),
    assignment("a, b", "W2", "neg", "Rejected"),
    assignment("c", "W1", "neg", "Submitted"),
    assignment("c", "W2", ""),
]


def test_mturk(tmp_path: Path) -> None:
    header = [*MTURK, "Input.review", "Input.url", "Answer.sentiment.label", "Approve", "Reject"]
    path = write(tmp_path / "batch.csv", header, BATCH)
    with pytest.raises(RealmError, match=r"`text`: Input\.review, Input\.url"):
        Annotations.read(path)
    table = Annotations.read(path, text="review")
    assert table.ledger.counts == {crowd_platforms.REJECTED: 1, NO_ANSWER: 1}
    assert table.ledger.rows == {crowd_platforms.REJECTED: [2], NO_ANSWER: [4]}
    assert table.annotators == ("W1",)
    kept = Annotations.read(path, text="Input.review", rejected="keep")
    assert kept.ledger.counts == {NO_ANSWER: 1}
    assert kept.annotators == ("W1", "W2")
    assert len(Items.read(path, text="review")) == 2


def test_mturk_with_several_answers_needs_label(tmp_path: Path) -> None:
    header = [*MTURK, "Input.review", "Answer.mood", "Answer.topic"]
    rows = [
        {"HITId": "h", "WorkerId": f"W{k}", "AssignmentStatus": "Approved", "Input.review": "t", "Answer.mood": str(k)}
        for k in range(2)
    ]
    path = write(tmp_path / "batch.csv", header, rows)
    with pytest.raises(RealmError, match=r"`label`: Answer\.mood, Answer\.topic"):
        Annotations.read(path)
    assert Annotations.read(path, label="mood").n_annotations == 2
    with pytest.raises(RealmError, match=r"no row is left \(2 x annotation without an answer\)"):
        Annotations.read(path, label="topic")


TOLOKA = ["INPUT:text", "OUTPUT:result", "GOLDEN:result", "HINT:text"]
TOLOKA += [f"ASSIGNMENT:{name}" for name in ("link", "assignment_id", "task_id", "worker_id", "status", "started")]


def toloka_row(text: str, worker: str, result: str, golden: str = "", status: str = "APPROVED") -> dict[str, str]:
    return {
        "INPUT:text": text,
        "OUTPUT:result": result,
        "GOLDEN:result": golden,
        "ASSIGNMENT:worker_id": worker,
        "ASSIGNMENT:status": status,
    }


def test_toloka(tmp_path: Path) -> None:
    rows = [
        toloka_row('tab\tand "quote"', "t1", "OK"),
        toloka_row('tab\tand "quote"', "t2", "BAD", status="SUBMITTED"),
        toloka_row("control", "t1", "OK", golden="OK"),
        toloka_row("control", "t2", "BAD", golden="OK", status="REJECTED"),
        toloka_row("control", "t3", "", golden="OK", status="SKIPPED"),
        toloka_row("control", "t4", "", golden="OK"),
        toloka_row("control", "t5", "", status="EXPIRED"),
    ]
    path = write(tmp_path / "assignments.tsv", TOLOKA, rows, "\t")
    table = Annotations.read(path)
    assert table.ledger.counts == {
        crowd_platforms.REJECTED: 1,
        "skipped assignment": 1,
        "expired assignment": 1,
        NO_ANSWER: 1,
    }
    assert table.n_annotations == 3
    assert table.gold is not None
    assert [None if k < 0 else table.label_name(i, k) for i, k in enumerate(table.gold)] == [None, "OK"]
    assert Annotations.read(path, rejected="keep").n_annotations == 4
    assert table.texts.to_pylist()[0] == 'tab\tand "quote"'


def test_toloka_with_several_outputs(tmp_path: Path) -> None:
    rows = [{"INPUT:a": "x", "OUTPUT:p": str(k), "OUTPUT:q": "z", "ASSIGNMENT:worker_id": "w"} for k in range(2)]
    path = write(tmp_path / "t.tsv", ["INPUT:a", "OUTPUT:p", "OUTPUT:q", "ASSIGNMENT:worker_id"], rows, "\t")
    with pytest.raises(RealmError, match="`label`: OUTPUT:p, OUTPUT:q"):
        Annotations.read(path)
    assert Annotations.read(path, label="p").tasks[0].labels == ("0", "1")
