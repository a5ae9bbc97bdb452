"""Mutated machine files of runs, by the hundred: read as they are or refused in words, whole under their manifest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from realm.errors import RealmError
from realm.files import write_manifest
from tests.faults.machine_files import (
    Subject,
    commands,
    complaint_of,
    make_subjects,
    resumed,
    try_checkpoints,
    try_machine_files,
)
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


def test_checkpoints(subjects: list[Subject], tmp_path: Path) -> None:
    tally = try_checkpoints(range(12), tmp_path, subjects)
    assert passed(tally) and tally.counts["refused"] > 4


@pytest.mark.slow
def test_many_checkpoints(subjects: list[Subject], tmp_path: Path) -> None:
    assert passed(try_checkpoints(range(12, 300), tmp_path, subjects))


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


# ---------------------------------------------------------------- checkpoints, file by file


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("trainer_state.json", lambda path: path.write_text(path.read_text().replace(": 2,", ": 3,")), "of step 3"),
        ("trainer_state.json", lambda path: path.write_text("[]"), "cannot be read safely"),
        ("progress.pt", lambda path: torch.save({"trained": {}}, path), "read safely .it belongs to another model"),
        ("progress.pt", lambda path: torch.save([3], path), "cannot be read safely"),
        ("progress.pt", lambda path: path.write_bytes(b"x"), "cannot be read safely"),
        ("rng_state.pth", lambda path: torch.save({"cpu": 7}, path), "cannot be read safely"),
    ],
)
def test_a_checkpoint_that_a_manifest_fits(name, change, message, subjects, tmp_path) -> None:
    """What was made by hand is refused in words, whoever wrote its manifest."""
    run = Path(shutil.copytree(subjects[0].run, tmp_path / "run"))
    (run / "manifest.json").unlink()
    shutil.rmtree(run / "checkpoints" / "checkpoint-4")
    checkpoint = run / "checkpoints" / "checkpoint-2"
    change(checkpoint / name)
    write_manifest(checkpoint)
    with pytest.raises(RealmError, match=message) as error:
        resumed(subjects[0], run)
    assert "checkpoint-2" in str(error.value)
    assert not (run / "manifest.json").exists()
