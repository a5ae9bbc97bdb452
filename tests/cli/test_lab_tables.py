"""`realm lab table` and `realm lab plot` as they are typed."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from realm.cli.main import app
from realm.errors import RealmError
from realm.lab.spec import load_spec
from tests.lab.small_benchmark import SMALL
from tests.lab.tables.fake_results import fill

RUNNER = CliRunner()
REAL = str(SMALL / "real-small.yaml")
STEPS = str(SMALL / "expertise-steps-small.yaml")


def test_a_table_is_printed_in_every_format(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    fill(results, load_spec(REAL), lambda cell: 0.6)
    for form, mark in (("md", "| --- |"), ("latex", r"\begin{tabular}"), ("csv", "model,benchmark,noise")):
        said = RUNNER.invoke(app, ["lab", "table", REAL, "--results", str(results), "--format", form])
        assert said.exit_code == 0 and mark in said.stdout, said.output


def test_without_results_the_table_says_what_to_run(tmp_path: Path) -> None:
    said = RUNNER.invoke(app, ["lab", "table", REAL, "--results", str(tmp_path / "none.sqlite")])
    assert said.exit_code == 0
    assert "21 of 21 cells are missing. To run them: realm lab run " in said.stdout


def test_plots_name_their_files(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    fill(results, load_spec(STEPS), lambda cell: 0.6)
    words = ["lab", "plot", STEPS, "--results", str(results), "--output", str(tmp_path / "plots")]
    said = RUNNER.invoke(app, words)
    assert said.exit_code == 0, said.output
    assert [Path(line).is_file() for line in said.stdout.split()] == [True] * 4
    first = Path(said.stdout.split()[0])
    first.write_text("drawn by hand")
    refused = RUNNER.invoke(app, words)
    assert isinstance(refused.exception, RealmError) and "Give --overwrite" in str(refused.exception)
    assert first.read_text() == "drawn by hand"
    assert RUNNER.invoke(app, [*words, "--overwrite"]).exit_code == 0 and "<svg" in first.read_text()


def test_mistakes_name_the_flag(tmp_path: Path) -> None:
    wrong = RUNNER.invoke(app, ["lab", "table", REAL, "--format", "pdf"])
    assert isinstance(wrong.exception, RealmError) and "--format pdf" in str(wrong.exception)
    absent = RUNNER.invoke(app, ["lab", "plot", REAL, "--results", str(tmp_path / "x"), "-o", str(tmp_path)])
    assert isinstance(absent.exception, RealmError) and "no such file" in str(absent.exception)
