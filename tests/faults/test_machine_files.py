"""Mutated machine files of runs, by the hundred: read as they are or refused in words, whole under their manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.machine_files import Subject, commands, complaint_of, make_subjects, try_machine_files
from tests.faults.outcomes import Tally, run_command

FAST = 150


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return make_subjects(tmp_path_factory.mktemp("subjects"))


def passed(tally: Tally) -> bool:
    print(tally)
    assert not tally.failures, f"{tally}\n" + "\n".join(tally.failures[:20])
    return True


def test_machine_files(subjects: list[Subject], tmp_path: Path) -> None:
    tally = try_machine_files(range(FAST), tmp_path, subjects)
    assert passed(tally) and tally.counts["read"] > 10 and tally.counts["refused"] > 60


@pytest.mark.slow
def test_many_machine_files(subjects: list[Subject], tmp_path: Path) -> None:
    assert passed(try_machine_files(range(FAST, 2000), tmp_path, subjects))


def test_an_untouched_run_is_read(subjects: list[Subject], tmp_path: Path) -> None:
    """The harness would prove nothing if it refused everything."""
    for subject in subjects:
        for words in commands(subject, tmp_path / subject.run.parent.name / "run"):
            words[1] = str(subject.run)
            code, _, error = run_command([*words, "--overwrite"] if "--output" in words else words)
            assert code == 0, (words, error)


def test_the_harness_sees_a_wrong_confidence() -> None:
    import pandas as pd

    assert complaint_of(pd.DataFrame({"confidence": [0.5, 1.0]})) is None
    for value in (float("nan"), 1.5, -0.1):
        assert complaint_of(pd.DataFrame({"confidence": [0.5, value]})) is not None


def test_every_machine_file_is_tried(subjects: list[Subject]) -> None:
    """A file that a run gains is mutated without being named anywhere."""
    for subject in subjects:
        listed = json.loads((subject.run / "manifest.json").read_text())["sha256"]
        assert {name for name in listed if not name.endswith((".csv", ".md"))} <= set(subject.files)
