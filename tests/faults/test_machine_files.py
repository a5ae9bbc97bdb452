"""Checkpoints that were made by hand, under a manifest that fits: refused in words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from realm.errors import RealmError
from realm.files import write_manifest
from tests.faults.machine_files import Subject, make_subjects, resumed


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return make_subjects(tmp_path_factory.mktemp("subjects"))


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
