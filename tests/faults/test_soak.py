"""The soak's own code: a few rounds of it, and that it says so where a result is wrong."""

from __future__ import annotations

import random

import pytest
from benchmarks import soak

pytestmark = pytest.mark.slow


def test_a_few_rounds_are_survived_and_a_wrong_result_is_seen(tmp_path) -> None:
    made = soak.Soak(tmp_path, random.Random(3))
    made.prepare()
    for _ in range(12):
        made.round()
    assert made.wrong == [] and sum(made.met.values()) >= 6
    assert made.table().count("\n") == len(made.wholes) + 2

    made.wholes = {"report": made.wholes["report"]}
    made.wholes["report"].contents["page.html"] = b"another page"
    for _ in range(40):
        made.round()
        if made.wrong:
            break
    assert "another result than the command left alone: page.html" in made.wrong[0]


def test_a_training_whose_only_checkpoint_is_damaged_begins_again(tmp_path) -> None:
    made = soak.Soak(tmp_path, random.Random(3))
    made.prepare()
    whole, folder = made.wholes["train"], tmp_path / "round"
    folder.mkdir()
    for moment in range(1, whole.changes):  # the first at which there is one checkpoint, and no second
        made.run(whole.command.line(folder, "--overwrite"), folder, moment, number=soak.signal.SIGINT)
        if len(soak._checkpoints(folder / "run" / "checkpoints")) == 1:
            break
    made.damage(folder / "run" / "checkpoints")
    line = made.again("damaged checkpoint", whole, folder)
    assert line[-1] == "--overwrite"
    made.go_on(whole, folder, line)
    assert made.again("kill -9", whole, folder)[-1] == "--resume"
