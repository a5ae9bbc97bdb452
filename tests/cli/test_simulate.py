from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from realm.cli.main import app
from realm.data import Annotations
from realm.errors import RealmError


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.csv"
    lines = [f"question {i},{['no', 'yes', 'maybe'][i % 3]},{'ab'[i % 2]}" for i in range(120)]
    path.write_text("\n".join(["text,gold,task", *lines]))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_written_table_is_read_back(questions: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    shown = json.loads(run(questions, "--pool", "D3", "--seed", 1, "--output", output, "--json"))
    assert [entry["accuracy"] for entry in shown["annotators"]] == [0.9, 0.5, 0.1] * 2
    assert shown["annotators"][0]["implied expertise"] == pytest.approx(0.85)
    table = Annotations.read(output)
    assert table.n_annotations == table.n_items == shown["annotations"] == 120
    assert set(table.annotators) == {"a1", "a2", "a3"}
    assert table.gold is not None


def test_an_existing_file_is_not_replaced_unasked(questions: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    output.write_text("mine")
    with pytest.raises(RealmError, match="--overwrite"):
        run(questions, "--output", output)
    assert output.read_text() == "mine"
    run(questions, "--output", output, "--overwrite")
    assert output.read_text() != "mine"


def test_a_seed_below_zero(questions: Path, tmp_path: Path) -> None:
    words = ["simulate", str(questions), "--output", str(tmp_path / "labels.csv"), "--seed", "-1"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 2


def test_items_without_gold_are_counted(tmp_path: Path, realm_cli) -> None:
    (tmp_path / "q.csv").write_text("text,gold\na,x\nb,\nc,y\nd,\ne,x\n")
    code, out, error = realm_cli("simulate", tmp_path / "q.csv", "--output", tmp_path / "o.csv", "--json")
    assert code == 0 and "2 x no gold label to simulate from" in error
    assert json.loads(out)["dropped"] == {"no gold label to simulate from": 2}
    (tmp_path / "all.csv").write_text("text,gold\na,x\nc,y\n")
    code, out, error = realm_cli("simulate", tmp_path / "all.csv", "--output", tmp_path / "p.csv", "--json")
    assert code == 0 and "no gold label" not in error and json.loads(out)["dropped"] == {}


@pytest.mark.parametrize("pool", ["graded:100000", "one-reliable:1000000000", "graded:" + "9" * 30])
def test_pools_that_nobody_means_are_refused(questions: Path, tmp_path: Path, realm_cli, pool: str) -> None:
    code, _, error = realm_cli("simulate", questions, "--output", tmp_path / "o.csv", "--pool", pool)
    assert code == 2 and "N from 2 to 10,000" in " ".join(error.split())
    assert not (tmp_path / "o.csv").exists()


def test_the_table_of_a_large_pool_is_cut(questions: Path, tmp_path: Path, realm_cli) -> None:
    code, out, error = realm_cli("simulate", questions, "--pool", "graded:10000", "--output", tmp_path / "o.csv")
    assert code == 0 and "the first 100 of 20,000" in out and len(out.splitlines()) < 120, error
