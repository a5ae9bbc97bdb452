"""Times of annotations: read from tables and exports, kept through every operation, and no part of what was before."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from realm import Annotations
from realm.data.times import read_times, written
from realm.data.write import write_table
from realm.runs.annotations_file import read_annotations, write_annotations

PLAIN_FINGERPRINT = "8c06a1a690e03c3c48aa99c89a42514c"
"""Of `frame()`, as it was before annotations could have times."""
NOON = 1_772_712_000.0  # 2026-03-05T12:00:00Z


@pytest.mark.parametrize(
    "cell",
    [
        "2026-03-05T12:00:00Z",
        "2026-03-05T12:00:00.000000Z",
        "2026-03-05T13:00:00+01:00",
        "2026-03-05 12:00:00",
        "Thu Mar 05 04:00:00 PST 2026",
        "1772712000",
        "1772712000000",
        1_772_712_000,
        1_772_712_000.0,
        1_772_712_000_000,
        1_772_712_000_000_000_000,
        pd.Timestamp("2026-03-05T12:00:00"),
    ],
)
def test_a_time_however_it_is_written(cell) -> None:
    assert read_times(pa.array([cell, None])).tolist() == pytest.approx([NOON, np.nan], nan_ok=True)


@pytest.mark.parametrize("cell", ["yesterday", "", "nan", "Thu Mar 05 04:00:00 XYZ 2026", -5.0, 1e30, "20261399"])
def test_what_is_no_time_is_none(cell) -> None:
    assert np.isnan(read_times(pa.array([cell]))).all()


def test_what_is_written_is_read_back_to_the_microsecond() -> None:
    times = np.array([NOON + 0.123456, np.nan, NOON])
    assert read_times(written(times)).tolist() == pytest.approx(times.tolist(), nan_ok=True, abs=1e-6)


def frame(**more) -> pd.DataFrame:
    rows = {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "no"]}
    return pd.DataFrame({**rows, **more})


def test_a_table_keeps_its_times_and_another_is_what_it_was(tmp_path) -> None:
    times = ["2026-03-05T12:00:00Z", "", "2026-03-05T12:01:00Z", "2026-03-05T12:02:00Z"]
    table = Annotations.from_pandas(frame(created_at=times, lead_time=[1.5, 2, np.nan, 4]))
    assert table.created_at.tolist() == pytest.approx([NOON, np.nan, NOON + 60, NOON + 120], nan_ok=True)
    assert table.lead_time.tolist() == pytest.approx([1.5, 2, np.nan, 4], nan_ok=True)
    part = table.take_items(np.array([1]))
    assert part.created_at.tolist() == [NOON + 60, NOON + 120] and len(part.lead_time) == 2
    assert table.keep_annotations(np.array([0])).lead_time.tolist() == [1.5]
    plain = Annotations.from_pandas(frame())
    assert plain.created_at is None and plain.lead_time is None
    assert plain.fingerprint() == PLAIN_FINGERPRINT and table.fingerprint() != PLAIN_FINGERPRINT
    for name in ("t.csv", "t.parquet"):
        write_table(table, tmp_path / name)
        again = Annotations.read(tmp_path / name)
        assert again.created_at.tolist() == pytest.approx(table.created_at.tolist(), nan_ok=True)
        assert again.fingerprint() == table.fingerprint()
    write_annotations(table, tmp_path / "annotations.parquet")
    again = read_annotations(tmp_path / "annotations.parquet", table.tasks, table.annotators)
    assert again.fingerprint() == table.fingerprint()
    write_annotations(plain, tmp_path / "annotations.parquet")
    assert read_annotations(tmp_path / "annotations.parquet", plain.tasks, plain.annotators).created_at is None


def test_times_that_cannot_be_read_are_counted_and_never_an_error() -> None:
    table = Annotations.from_pandas(frame(created_at=["soon", "2026-03-05", "", "2026-03-06"]))
    assert any("1 times cannot be read" in text for text in table.ledger.warnings)
    assert not Annotations.from_pandas(frame(created_at=["2026-03-05"] * 4)).ledger.warnings
    assert Annotations.from_pandas(frame(created_at=["soon"] * 4)).created_at is None


def test_exports_keep_theirs(tmp_path) -> None:
    def annotation(who: int, choice: str, minute: int) -> dict:
        result = [{"from_name": "s", "to_name": "t", "type": "choices", "value": {"choices": [choice]}}]
        time = f"2026-03-05T12:{minute:02d}:00.000000Z"
        return {"completed_by": who, "result": result, "created_at": time, "lead_time": 2.5 + who}

    tasks = [
        {"id": i, "data": {"text": f"t{i}"}, "annotations": [annotation(1, "a", i), annotation(2, "b", i + 10)]}
        for i in range(3)
    ]
    (tmp_path / "ls.json").write_text(json.dumps(tasks))
    table = Annotations.read(tmp_path / "ls.json")
    assert sorted((table.created_at - NOON) / 60) == [0, 1, 2, 10, 11, 12] and set(table.lead_time) == {3.5, 4.5}

    records = [
        {"id": i, "text": f"t{i}", "s": "ab"[who - 1], "annotator": who, "annotation_id": 10 * i + who,
         "created_at": f"2026-03-05T12:{i:02d}:00Z", "updated_at": "2026-03-06T12:00:00Z", "lead_time": 4.0}
        for i in range(3) for who in (1, 2)
    ]  # fmt: skip
    (tmp_path / "min.json").write_text(json.dumps(records))
    table = Annotations.read(tmp_path / "min.json", label="s")
    assert sorted(set((table.created_at - NOON) / 60)) == [0, 1, 2] and set(table.lead_time) == {4.0}

    lines = [
        {"text": f"t{i}", "_input_hash": i, "_annotator_id": f"d-{who}", "label": "A", "answer": answer,
         "_timestamp": int(NOON) + i}
        for i in range(3) for who, answer in (("x", "accept"), ("y", "reject"))
    ]  # fmt: skip
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = Annotations.read(tmp_path / "p.jsonl")
    assert sorted(set(table.created_at - NOON)) == [0, 1, 2] and table.lead_time is None

    turk = pd.DataFrame(
        {"HITId": ["h1", "h1", "h2", "h2"], "WorkerId": ["x", "y", "x", "y"], "AssignmentStatus": "Approved",
         "SubmitTime": "Thu Mar 05 04:00:00 PST 2026", "WorkTimeInSeconds": [5, 6, 7, 8],
         "Input.text": ["a", "a", "b", "b"], "Answer.sentiment": ["no", "no", "yes", "no"]}
    )  # fmt: skip
    turk.to_csv(tmp_path / "turk.csv", index=False)
    table = Annotations.read(tmp_path / "turk.csv")
    assert table.created_at.tolist() == [NOON] * 4 and sorted(table.lead_time) == [5, 6, 7, 8]


def test_check_tells_of_drift(tmp_path, realm_cli) -> None:
    from tests.crowd.test_drift import crowd

    write_table(crowd(12, 120, slack=1, seed=4), tmp_path / "drift.csv")
    code, output, error = realm_cli("check", tmp_path / "drift.csv")
    assert code == 0, error
    assert "accuracy fell from" in output and "'a0'" in output and "labels per hour" in output
    code, output, _ = realm_cli("check", tmp_path / "drift.csv", "--json")
    rows = json.loads(output)["over_time"]
    assert [row["annotator"] for row in rows if row["changed"]] == ["a0"]
    write_table(crowd(12, 60, seed=4), tmp_path / "steady.csv")
    code, output, _ = realm_cli("check", tmp_path / "steady.csv")
    assert code == 0 and "accuracy fell" not in output
