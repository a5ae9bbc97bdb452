"""How the benchmarks are run and what is kept of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import __main__ as benchmarks


def test_every_benchmark_belongs_to_one_group() -> None:
    files = [path.stem for path in benchmarks.FOLDER.glob("[a-z]*.py")]
    assert sorted(name for names in benchmarks.GROUPS.values() for name in names) == sorted(files)


def test_a_benchmark_that_is_run_replaces_its_own_section_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "RESULTS", tmp_path / "results.md")
    monkeypatch.setattr("sys.argv", ["benchmarks", "read"])
    benchmarks.write_results({"read": "old", "report": "kept\n\n| a |\n|---|"})
    monkeypatch.setattr(benchmarks, "run", lambda name, flags: (f"{name} took no time", False))
    assert benchmarks.main() == 1
    found = benchmarks.read_results()
    assert found["report"] == "kept\n\n| a |\n|---|"
    assert "```text\nread took no time\n```" in found["read"] and "a target was missed" in found["read"]


@pytest.mark.parametrize("words", [["no-such"], []])
def test_a_name_that_is_none_is_said_with_those_there_are(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    assert benchmarks.main() == 2
    said = capsys.readouterr().err
    assert "speed, quality" in said and "training" in said and all(word in said for word in words)


SECONDS = ("devices", "drift", "worlds", "crowdlab")
MINUTES = ("crowds_from_labels", "many_annotators", "where_time_goes", "frozen_layers", "predict", "training_t5",
           "training_smollm2", "demo_seeds")  # fmt: skip


@pytest.mark.parametrize("name", [*SECONDS, *(pytest.param(name, marks=pytest.mark.slow) for name in MINUTES)])
def test_the_quick_form_of_a_benchmark_runs(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick"]
    ended = subprocess.run(command, cwd=benchmarks.FOLDER.parent, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
