"""CrowdFlower's full report: who judged what; test questions are gold, tainted judgments are dropped and counted."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from realm.data import Annotations, Items
from realm.data.readers.crowdflower import MISSED_REASON, NOT_A_TEST, SEVERAL_RIGHT, TAINTED_REASON
from realm.data.readers.long_table import NO_ANSWER, SEVERAL_DROPPED, SEVERAL_FIRST
from realm.errors import RealmError

REPORT = Path(__file__).parents[2] / "fixtures" / "exports" / "crowdflower.csv"
PLATFORM = """
    _unit_id _created_at _golden _id _missed _started_at _tainted _channel _trust _worker_id _country _region _city _ip
"""
HEADER = [*re.findall(r"\w+", PLATFORM), "mood", "mood_gold", "text"]


def annotations_of(table: Annotations) -> set[tuple[str, str, str]]:
    ids = table.item_ids.to_pylist()
    rows = zip(table.item.tolist(), table.annotator.tolist(), table.label.tolist(), strict=True)
    return {(ids[item], table.annotators[who], table.label_name(item, label)) for item, who, label in rows}


def gold_of(table: Annotations) -> dict[str, str]:
    assert table.gold is not None
    gold = enumerate(table.gold.tolist())
    return {table.item_ids[item].as_py(): table.label_name(item, label) for item, label in gold if label >= 0}


def test_the_report(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="`label`: sentiment, topic"):
        Annotations.read(REPORT)
    table = Annotations.read(REPORT, label="sentiment", keep_rows=True)
    assert table.ledger.format == "crowdflower" and table.tasks[0].labels == ("negative", "neutral", "positive")
    assert annotations_of(table) == {
        ("101", "501", "positive"),
        ("101", "502", "negative"),
        ("102", "501", "positive"),
        ("102", "502", "negative"),
        ("103", "502", "neutral"),
        ("104", "502", "neutral"),
    }
    assert gold_of(table) == {"102": "negative"}
    rows = {TAINTED_REASON: [3], MISSED_REASON: [4], SEVERAL_RIGHT: [6], NOT_A_TEST: [7], NO_ANSWER: [8]}
    assert table.ledger.rows == rows and table.ledger.counts == dict.fromkeys(rows, 1)
    assert table.texts[0].as_py() == 'The soup, it was "superb".'
    assert table.created_at is not None
    assert table.created_at[0] == datetime(2016, 1, 28, 19, 2, 18, tzinfo=UTC).timestamp()
    kept = Annotations.read(REPORT, label="sentiment", rejected="keep")
    assert ("101", "503", "negative") in annotations_of(kept) and TAINTED_REASON not in kept.ledger.counts


def test_checkbox_answers(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="row 1: 1 annotations have several answers"):
        Annotations.read(REPORT, label="topic")
    first = Annotations.read(REPORT, label="topic", multi="first")
    assert ("101", "501", "food") in annotations_of(first) and first.ledger.counts[SEVERAL_FIRST] == 1
    dropped = Annotations.read(REPORT, label="topic", multi="drop")
    assert len(dropped) == len(first) - 1 and dropped.ledger.counts[SEVERAL_DROPPED] == 1
    assert gold_of(first) == {"102": "service", "103": "food"}


def test_items_and_tests() -> None:
    assert len(Items.read(REPORT)) == 4
    assert gold_of(Annotations.read_test(REPORT, label="sentiment")) == {"102": "negative"}


def test_the_aggregated_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agg.csv"
    path.write_text(
        "_unit_id,_golden,_unit_state,_trusted_judgments,_last_judgment_at,mood,mood:confidence,mood_gold,text\n"
        "1,false,finalized,3,1/28/2016 19:02:18,good,0.67,,a\n2,true,golden,9,1/28/2016 19:02:18,bad,1.0,bad,b\n"
    )
    with pytest.raises(RealmError, match=r"aggregated report.*Download the full report"):
        Annotations.read(path)
    assert len(Items.read(path)) == 2 and gold_of(Annotations.read_test(path)) == {"2": "bad"}


def test_other_tables_are_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("_unit_id,text,annotator,label\n1,a,ada,x\n2,b,bob,y\n")
    assert Annotations.read(path).ledger.format == "table"


@pytest.mark.parametrize("seed", range(8))
def test_drawn_reports(tmp_path: Path, seed: int) -> None:
    """Against what was drawn: every judgment that is neither tainted nor empty, and gold of test questions alone."""
    draw = random.Random(seed)
    golden = {unit: draw.random() < 0.3 for unit in range(20)}
    gold = {unit: draw.choice(["good", "bad", ""]) for unit in golden}
    judgments, expected, missed = [], set(), 0
    for unit in golden:
        for worker in draw.sample(range(30), 3):
            answer, tainted = draw.choice(["good", "bad", "so, so", ""]), draw.random() < 0.2
            wrong = golden[unit] and gold[unit] != "" and answer != gold[unit]
            values = {
                "_unit_id": unit, "_worker_id": worker, "mood": answer, "mood_gold": gold[unit], "text": f"t {unit}",
                "_golden": str(golden[unit]).lower(), "_tainted": str(tainted).lower(), "_trust": draw.random(),
                "_missed": "true" if wrong else "",
                "_created_at": f"{draw.randint(1, 12)}/28/2016 1{worker % 10}:02:18",
            }  # fmt: skip
            judgments.append(values)
            if answer and not tainted:
                expected.add((str(unit), str(worker), answer))
                missed += wrong
    with (tmp_path / "r.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER, restval="")
        writer.writeheader()
        writer.writerows(judgments)
    table = Annotations.read(tmp_path / "r.csv")
    assert annotations_of(table) == expected
    labelled = {item for item, _, _ in expected}
    tests = {str(unit): gold[unit] for unit in golden if golden[unit] and gold[unit] and str(unit) in labelled}
    assert gold_of(table) == tests
    counts = Counter({MISSED_REASON: missed, TAINTED_REASON: sum(j["_tainted"] == "true" for j in judgments)})
    counts[NOT_A_TEST] = sum(bool(gold[unit]) and not golden[unit] for unit in golden)
    counts[NO_ANSWER] = sum(j["_tainted"] == "false" and j["mood"] == "" for j in judgments)
    assert table.ledger.counts == {reason: count for reason, count in counts.items() if count}
