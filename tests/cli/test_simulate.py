"""`realm simulate`, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm.data import Annotations


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.csv"
    lines = [f"question {i},{['no', 'yes', 'maybe'][i % 3]},{'ab'[i % 2]}" for i in range(120)]
    path.write_text("\n".join(["text,gold,task", *lines]))
    return path


def test_the_written_table_is_read_back(realm_cli, questions: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    words = ("simulate", questions, "--pool", "D3", "--seed", 1, "--output", output, "--json")
    code, out, _ = realm_cli(*words)
    assert code == 0
    shown = json.loads(out)
    assert [entry["accuracy"] for entry in shown["annotators"]] == [0.9, 0.5, 0.1] * 2
    assert shown["annotators"][0]["implied expertise"] == pytest.approx(0.85)
    table = Annotations.read(output)
    assert table.n_annotations == table.n_items == shown["annotations"] == 120
    assert set(table.annotators) == {"a1", "a2", "a3"} and table.gold is not None
    code, _, error = realm_cli(*words)
    assert code == 2 and "--overwrite" in error


def test_items_without_gold_are_counted(tmp_path: Path, realm_cli) -> None:
    (tmp_path / "q.csv").write_text("text,gold\na,x\nb,\nc,y\nd,\ne,x\n")
    code, out, error = realm_cli("simulate", tmp_path / "q.csv", "--output", tmp_path / "o.csv", "--json")
    assert code == 0 and "2 x no gold label to simulate from" in error
    assert json.loads(out)["dropped"] == {"no gold label to simulate from": 2}


@pytest.mark.parametrize(
    ("flags", "message"), [(("--pool", "graded:100000"), "N from 2 to 10,000"), (("--seed", "-1"), "--seed")]
)
def test_what_nobody_means_is_refused(questions: Path, tmp_path: Path, realm_cli, flags, message) -> None:
    code, _, error = realm_cli("simulate", questions, "--output", tmp_path / "o.csv", *flags)
    assert code == 2 and message in " ".join(error.split()) and not (tmp_path / "o.csv").exists()
