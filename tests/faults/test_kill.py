"""`kill -9` at any moment: the run that is resumed ends, byte for byte, as the one that was left alone."""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from realm.runs import Run
from tests.faults.victim import realm
from tests.forked import start
from tests.tiny import crowd, save_tiny

FLAGS = ["--steps", "11", "--save-steps", "2", "--batch-size", "8", "--micro-batch-size", "4"]
HOW = {
    "full": [],
    "frozen": ["--train-layers", "1"],
    "lora": ["--lora-rank", "2"],
}


@dataclass
class Whole:
    """The run that was left alone: how long it took, and how often it changed a file of its folder."""

    command: list[str]
    folder: Path
    seconds: float
    changes: int


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """`whole(how)` trains without interruption, once for each way of training. Dropout makes random numbers matter."""
    root = tmp_path_factory.mktemp("kill")
    crowd(30, per_item=2).to_pandas().to_csv(root / "labels.csv", index=False)
    model = save_tiny(root / "model", "causal", layers=2, width=16, dropout=0.2)
    made: dict[str, Whole] = {}

    def of(how: str) -> Whole:
        if how not in made:
            command = ["train", str(root / "labels.csv"), "--model", model, *FLAGS, *HOW[how], "--output"]
            count = root / f"{how}.count"
            for name in ("warm", "run"):  # the first run also warms the server that forks
                folder = root / how / name
                began = time.monotonic()
                finish([*command, str(folder)], folder, 0, str(count))
                seconds = time.monotonic() - began
            made[how] = Whole(command, folder, seconds, int(count.read_text()))
        return made[how]

    return of


def finish(words: list[str], folder: Path, *more: object) -> None:
    process = start(realm, words, str(folder), *more)
    process.join(120)
    assert process.exitcode == 0


def killed(words: list[str], folder: Path, whole: Whole, chance: random.Random) -> str | None:
    """Start the command and kill it: at some time, or when it is about to change some file. Says when that was.

    None where it ended before its time: machines are not always equally fast, and a resumed run is shorter.
    """
    if chance.random() < 0.5:
        moment = chance.uniform(0, whole.seconds)
        process = start(realm, words, str(folder))
        process.join(moment)
        process.kill()
        what = f"after {moment:.2f} s"
    else:
        moment = chance.randint(1, whole.changes)
        process = start(realm, words, str(folder), moment)
        what = f"at change {moment} of {whole.changes}"
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return None if process.exitcode == 0 else what


def trial(whole: Whole, folder: Path, seed: int) -> str:
    """Kill, perhaps kill the resumed run too, then let it finish and compare every byte."""
    chance = random.Random(seed)
    words = [*whole.command, str(folder), "--resume"]
    while (first := killed(words, folder, whole, chance)) is None:
        shutil.rmtree(folder)
    story = [first]
    while chance.random() < 0.4:
        story += [again] if (again := killed(words, folder, whole, chance)) else []
    finish(words, folder)
    Run.open(folder)
    for name in ("manifest.json", "report.html"):
        assert (folder / name).read_bytes() == (whole.folder / name).read_bytes(), (name, story)
    left = {path.name for path in folder.iterdir()} ^ {path.name for path in whole.folder.iterdir()}
    assert not left, (left, story)
    return ", then ".join(story)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_ends_as_the_whole_one(seed, whole, tmp_path) -> None:
    trial(whole("full"), tmp_path / "run", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 23))
def test_twenty_killed_runs_end_as_the_whole_one(seed, whole, tmp_path) -> None:
    how = list(HOW)[seed % len(HOW)]
    print(how, trial(whole(how), tmp_path / "run", seed))


@pytest.mark.slow
def test_a_run_may_be_killed_before_any_of_its_changes(whole, tmp_path) -> None:
    found = whole("full")
    for moment in sorted({*range(1, 11), *range(1, found.changes + 1, 7)}):
        folder = tmp_path / f"run-{moment}"
        words = [*found.command, str(folder), "--resume"]
        process = start(realm, words, str(folder), moment)
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        finish(words, folder)
        assert (folder / "manifest.json").read_bytes() == (found.folder / "manifest.json").read_bytes(), moment
