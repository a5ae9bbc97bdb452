"""Checkpoints that were made by hand, under a manifest that fits: refused in words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from realm.errors import RealmError
from realm.files import write_manifest
from tests.faults.machine_files import Subject, make_subjects, resumed


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return make_subjects(tmp_path_factory.mktemp("subjects"))


def _state(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _averages(path: Path) -> None:
    state = torch.load(path, weights_only=True)
    first = next(iter(state["state"].values()))
    first["exp_avg"] = first["exp_avg"].reshape(-1)[:1]
    torch.save(state, path)


def _not_a_number(path: Path) -> None:
    tensors = load_file(path)
    tensors[min(tensors)].view(-1)[0] = float("nan")
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("trainer_state.json", lambda path: _state(path, global_step=3), "it is of step 3, not of checkpoint-2"),
        ("trainer_state.json", lambda path: _state(path, unheard_of=1), "cannot be read safely"),
        ("scheduler.pt", lambda path: torch.save({"x": 1}, path), "is not the state of this run's schedule"),
        ("scheduler.pt", lambda path: torch.save([], path), "is not the state of this run's schedule"),
        ("optimizer.pt", _averages, r"exp_avg has the shape \(1,\), not"),
        ("optimizer.pt", lambda path: torch.save({"state": 3}, path), "cannot be read safely"),
        ("rng_state.pth", lambda path: torch.save({"cpu": 7}, path), "cannot be read safely"),
        ("trained.safetensors", _not_a_number, "infinite or not a number"),
        ("channel.safetensors", _not_a_number, "omega holds a value that is infinite or not a number"),
        ("trained.safetensors", lambda path: path.write_bytes(b"x"), "cannot be read safely"),
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
