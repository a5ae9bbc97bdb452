"""Disks that are full or read-only, and files that were damaged: an error that says so, or the last good checkpoint."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from transformers import TrainerCallback

from realm import files
from realm.errors import RealmError
from realm.runs import Run
from realm.runs import writer as run_writer
from realm.runs.spreadsheet import write_csv
from realm.training import checkpoints
from tests.invariant.test_resume import StopAt
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

SETTINGS = {
    "write_run": True, "save_strategy": "steps", "save_steps": 2, "max_steps": 7, "logging_steps": 3,
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("disk") / "model", "bert", layers=1, width=16, dropout=0.2)


def made(model: str, folder: Path, **settings):
    return trainer(model, crowd(30, per_item=2), folder, **{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    made(model, folder).train()
    return folder


@pytest.fixture(scope="module")
def stopped(model, tmp_path_factory) -> Path:
    """A run that was interrupted after step 5, with checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    begun = made(model, folder)
    begun.add_callback(StopAt(5))
    with pytest.raises(KeyboardInterrupt):
        begun.train()
    return folder


def same(one: Path, other: Path) -> None:
    assert (one / "manifest.json").read_bytes() == (other / "manifest.json").read_bytes()


class FullAfter(TrainerCallback):
    """From this step on the disk takes no file beyond a few kilobytes."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))


@contextmanager
def room_again():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("step", [1, 4, 6, 7])
def test_a_disk_that_fills_up_is_an_error_and_the_run_goes_on_later(step, model, whole, tmp_path) -> None:
    """At the first checkpoint, at a later one, at the last, and when the results are written."""
    begun = made(model, tmp_path / "run")
    begun.add_callback(FullAfter(step))
    with room_again(), pytest.raises(RealmError, match=r"cannot be written: .*`resume`"):
        begun.train()
    assert not (tmp_path / "run" / "manifest.json").exists()
    for path in checkpoints.checkpoints(tmp_path / "run" / "checkpoints"):
        files.verify_manifest(path)
    assert not list((tmp_path / "run").rglob(".*"))
    made(model, tmp_path / "run").train(resume_from_checkpoint=True)
    same(tmp_path / "run", whole)


def test_a_finished_run_whose_results_cannot_be_written_counts_as_unfinished(model, tmp_path, monkeypatch) -> None:
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(RealmError, match="No space left on device"):
        patch.setattr(run_writer, "write_annotations", refuse)
        made(model, tmp_path / "run").train()
    with pytest.raises(RealmError, match="did not finish"):
        Run.open(tmp_path / "run")


@pytest.mark.parametrize("kind", ["device", "link"])
def test_a_device_is_not_replaced_and_a_link_is_written_through(kind, tmp_path) -> None:
    if kind == "device":
        os.mkfifo(tmp_path / "pipe")
        for write in (lambda path: files.write_text(path, "x"), lambda path: write_csv(pd.DataFrame({"a": [1]}), path)):
            with pytest.raises(RealmError, match="it is a folder or a device"):
                write(tmp_path / "pipe")
        assert (tmp_path / "pipe").is_fifo()
        return
    (tmp_path / "there").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "there" / "real.csv")
    write_csv(pd.DataFrame({"a": [1]}), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "there" / "real.csv").read_text() == "a\n1\n"


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def damaged(stopped: Path, folder: Path, seed: int) -> tuple[Path, str]:
    """A copy of an interrupted run with one file of its newest checkpoint changed, cut or gone."""
    chance = random.Random(seed)
    shutil.copytree(stopped, folder)
    path = chance.choice(sorted((folder / "checkpoints" / "checkpoint-4").iterdir()))
    how = chance.choice(["flipped", "cut", "gone", "empty"])
    if how == "flipped":
        flip(path, chance)
    elif how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    return path, how


def test_any_damage_to_a_checkpoint_is_found(stopped, tmp_path) -> None:
    for seed in range(60):
        path, how = damaged(stopped, tmp_path / "run", seed)
        assert checkpoints.newest_whole(tmp_path / "run" / "checkpoints").name == "checkpoint-2", (path, how)
        shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("seed", range(3))
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(seed, model, stopped, whole, tmp_path, caplog) -> None:
    damaged(stopped, tmp_path / "run", seed)
    made(model, tmp_path / "run", save_total_limit=1).train(resume_from_checkpoint=True)
    assert "skipping a damaged checkpoint" in caplog.text
    same(tmp_path / "run", whole)
    assert [path.name for path in checkpoints.checkpoints(tmp_path / "run" / "checkpoints")] == ["checkpoint-7"]


def test_any_damage_to_a_run_is_found(whole, tmp_path) -> None:
    chance = random.Random(0)
    listed = list(json.loads((whole / "manifest.json").read_text())["sha256"])
    listed = [name for name in listed if not name.endswith(".csv")]  # written for people, never read
    assert {"model/model.safetensors", "channel.safetensors", "metrics.json", "config.yaml"} <= set(listed)
    for name in listed:
        shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
        flip(tmp_path / "run" / name, chance)
        with pytest.raises(RealmError, match="changed or damaged"):
            Run.open(tmp_path / "run")
        (tmp_path / "run" / name).unlink()
        with pytest.raises(RealmError, match="is missing"):
            Run.open(tmp_path / "run")
        shutil.rmtree(tmp_path / "run")
