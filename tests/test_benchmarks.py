"""How the benchmarks are run and what is kept of them."""

from __future__ import annotations

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
