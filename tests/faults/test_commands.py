"""Commands that write, killed, refused by the disk or met by another process: what is there is whole, and the same
command given again ends as one that was left alone."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.victim import realm
from tests.forked import start
from tests.tiny import crowd, save_tiny

PATIENCE = 900
"""Seconds after which a process counts as one that hangs: hundreds of times its work, on a busy machine."""


class Stage:
    """Tables, a model and a finished run in a folder, the commands that read them, and each left alone once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        crowd(30, per_item=2).to_pandas().to_csv(root / "labels.csv", index=False)
        crowd(12, seed=5).to_pandas().to_csv(root / "test.csv", index=False)
        model = save_tiny(root / "model", "bert", layers=1, width=16)
        labels, test, run = str(root / "labels.csv"), str(root / "test.csv"), str(root / "run")
        flags = ("--model", model, "--steps", "4", "--batch-size", "8", "--micro-batch-size", "4", "--save-steps", "2")
        self.words: dict[str, tuple[tuple[str, ...], str]] = {
            "simulate": (("simulate", test, "--pool", "0.9,0.5"), "simulated.csv"),
            "aggregate": (("aggregate", labels), "aggregated.csv"),
            "predict": (("predict", run, test), "answers.csv"),
            "relabel": (("relabel", run), "queue.csv"),
            "train": (("train", labels, *flags), "run"),
        }
        assert finish([*self.words["train"][0], "--output", run], root) == 0
        self.wholes: dict[str, tuple[dict[str, bytes], int]] = {}

    def line(self, name: str, folder: Path, *more: str) -> list[str]:
        words, output = self.words[name]
        return [*words, "--output", str(folder / output), *more]

    def whole(self, name: str) -> tuple[dict[str, bytes], int]:
        """What the command writes when it is left alone, and in how many changes of the folder."""
        if name not in self.wholes:
            folder, count = self.root / "whole" / name, self.root / f"{name}.count"
            folder.mkdir(parents=True)
            assert finish(self.line(name, folder), folder, 0, str(count)) == 0
            self.wholes[name] = contents(folder), int(count.read_text())
        return self.wholes[name]

    def check_again(self, name: str, folder: Path) -> None:
        """The same command, given again, ends as the one that was left alone, and leaves nothing else behind."""
        assert finish(self.line(name, folder, "--resume" if name == "train" else "--overwrite"), folder) == 0
        assert contents(folder) == self.whole(name)[0]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for logs of progress, which tell of every attempt with its time."""
    files = [path for path in sorted(folder.rglob("*")) if not path.is_dir() and path.suffix != ".log"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def finish(words: list[str], folder: Path, *more: Any, **how: Any) -> int:
    """Run a command in a process of its own to its end: its exit code, below zero where a signal ended it."""
    process = start(_realm, words, str(folder), more, how)
    process.join(PATIENCE)
    assert process.exitcode is not None, f"hangs: {words}"
    return process.exitcode


def _realm(words: list[str], folder: str, more: tuple[Any, ...], how: dict[str, Any]) -> None:
    if room := how.pop("room", 0):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    realm(words, folder, *more, **how)


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Stage:
    return Stage(tmp_path_factory.mktemp("commands"))


FILES = ("simulate", "aggregate", "predict", "relabel")


@pytest.mark.parametrize("name", FILES)
def test_a_killed_command_may_be_given_again(name: str, stage: Stage, tmp_path: Path) -> None:
    _, changes = stage.whole(name)
    moment = random.Random(name).randint(1, changes)
    assert finish(stage.line(name, tmp_path), tmp_path, moment) == -signal.SIGKILL
    stage.check_again(name, tmp_path)


def test_a_training_killed_while_it_replaces_an_earlier_run(stage: Stage, tmp_path: Path) -> None:
    whole, _ = stage.whole("train")
    assert finish(stage.line("train", tmp_path), tmp_path) == 0
    line = stage.line("train", tmp_path, "--overwrite")
    assert finish(line, tmp_path, 5) == -signal.SIGKILL
    assert finish(line, tmp_path) == 0 and contents(tmp_path) == whole


@pytest.mark.parametrize("name", FILES)
def test_a_disk_that_refuses_is_one_line_and_the_earlier_file_stays(name: str, stage: Stage, tmp_path: Path) -> None:
    whole, changes = stage.whole(name)
    chance, folder, said = random.Random(f"{name} disk"), tmp_path / "x", tmp_path / "said"
    folder.mkdir()
    for each in whole:
        (folder / each).write_bytes(b"earlier")
    error = chance.choice([errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
    moment = chance.randint(1, max(changes - 5, 1))
    assert finish(stage.line(name, folder, "--overwrite"), folder, moment, error=error, said=str(said)) == 2
    text = said.read_text()
    assert len([line for line in text.splitlines() if line.startswith("error: ")]) == 1 and "Traceback" not in text
    there = contents(folder)  # a command with two files may have written the first
    assert set(there) == set(whole) and b"earlier" in there.values()
    assert all(there[each] in (b"earlier", whole[each]) for each in there)
    stage.check_again(name, folder)


@pytest.mark.parametrize("name", ["aggregate", "predict"])
def test_a_disk_that_is_full_in_the_middle_of_a_file(name: str, stage: Stage, tmp_path: Path) -> None:
    """No file may be longer than some bytes: the write fails, not the opening."""
    whole, _ = stage.whole(name)
    room = max(min(map(len, whole.values())) // 2, 150)
    assert finish(stage.line(name, tmp_path), tmp_path, room=room, said=os.devnull) == 2
    there = contents(tmp_path)
    assert there == {each: whole[each] for each in there}
    stage.check_again(name, tmp_path)


def hold(folder: str, told: str) -> None:
    """Hold a folder until killed."""
    from realm.locks import holding

    with holding(Path(folder)):
        Path(told).touch()
        time.sleep(300)


def test_a_second_process_is_refused_until_the_first_is_gone(stage: Stage, tmp_path: Path) -> None:
    told, said = tmp_path / "told", tmp_path / "said"
    first = start(hold, str(tmp_path / "x" / "run"), str(told))
    try:
        while not told.exists():
            assert first.exitcode is None
            first.join(0.02)
        assert finish(stage.line("train", tmp_path / "x", "--resume"), tmp_path, said=str(said)) == 2
        assert "another process is writing" in said.read_text()
    finally:
        first.kill()
    first.join()
    stage.check_again("train", tmp_path / "x")
