"""A run that was stopped and resumed ends where an uninterrupted one ends."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import TrainerCallback

from realm.errors import RealmError
from realm.runs import Run
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer


class StopAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


SETTINGS = {
    "write_run": True,
    "save_strategy": "steps",
    "save_steps": 2,
    "max_steps": 8,
    "per_device_train_batch_size": 8,
}


@pytest.mark.parametrize("how", [{}, {"train_layers": 1}, {"train_layers": "head"}, {"lora_rank": 2}])
def test_a_resumed_run_equals_an_uninterrupted_one(how, tmp_path) -> None:
    model = save_tiny(tmp_path / "model", "causal", dropout=0.1)
    table = crowd(60, per_item=2)
    whole = trainer(model, table, tmp_path / "whole", **SETTINGS, **how)
    whole.train()
    stopped = trainer(model, table, tmp_path / "resumed", **SETTINGS, **how)
    stopped.add_callback(StopAt(5))
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    with pytest.raises(RealmError, match="did not finish"):
        Run.open(tmp_path / "resumed")
    again = trainer(model, table, tmp_path / "resumed", **SETTINGS, **how)
    again.train(resume_from_checkpoint=True)
    for name in ("channel.safetensors", "trajectory.safetensors", "predictions.safetensors", "model/model.safetensors"):
        one, other = load_file(tmp_path / "whole" / name), load_file(tmp_path / "resumed" / name)
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=f"{name} {key}")
    histories = [json.loads((tmp_path / f / "metrics.json").read_text())["history"] for f in ("whole", "resumed")]
    assert [h["loss"] for h in histories[0] if "loss" in h] == [h["loss"] for h in histories[1] if "loss" in h]
    Run.open(tmp_path / "resumed")


def test_a_damaged_checkpoint_is_passed_over(tiny_model, tmp_path, caplog) -> None:
    table = crowd(40, per_item=1)
    stopped = trainer(tiny_model("bert"), table, tmp_path / "run", **SETTINGS)
    stopped.add_callback(StopAt(5))
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    newest = tmp_path / "run" / "checkpoints" / "checkpoint-4" / "progress.pt"
    damaged = bytearray(newest.read_bytes())
    damaged[-10] ^= 0xFF
    newest.write_bytes(damaged)
    again = trainer(tiny_model("bert"), table, tmp_path / "run", **SETTINGS)
    again.train(resume_from_checkpoint=True)
    assert "skipping a damaged checkpoint" in caplog.text
    whole = trainer(tiny_model("bert"), table, tmp_path / "whole", **SETTINGS)
    whole.train()
    omegas = [load_file(tmp_path / f / "channel.safetensors")["omega"] for f in ("run", "whole")]
    np.testing.assert_array_equal(*omegas)


def test_no_whole_checkpoint_is_an_error(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **{**SETTINGS, "max_steps": 2})
    made.train()
    (tmp_path / "run" / "checkpoints" / "checkpoint-2" / "progress.pt").unlink()
    with pytest.raises(RealmError, match="no complete checkpoint"):
        trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **{**SETTINGS, "max_steps": 2}).train(True)


def test_another_table_or_other_settings_are_not_resumed(tiny_model, tmp_path) -> None:
    settings = {**SETTINGS, "max_steps": 2}
    trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **settings).train()
    with pytest.raises(RealmError, match=r"fingerprint|items"):
        trainer(tiny_model("bert"), crowd(21), tmp_path / "run", **settings).train(resume_from_checkpoint=True)
    with pytest.raises(RealmError, match=r"learning_rate = 0\.001, not 0\.01"):
        other = trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **{**settings, "learning_rate": 0.01})
        other.train(resume_from_checkpoint=True)


def test_a_folder_that_holds_a_run_is_not_written_over(tiny_model, tmp_path) -> None:
    settings = {**SETTINGS, "max_steps": 1}
    trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **settings).train()
    with pytest.raises(RealmError, match="`resume` to go on with it or `overwrite`"):
        trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **settings).train()
    trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **settings, overwrite=True).train()
    Run.open(tmp_path / "run")


def test_no_pickled_arguments_are_written_or_read(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path / "run", **{**SETTINGS, "max_steps": 2})
    made.train()
    names = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert "training_args.bin" not in names and not any(name.endswith((".bin", ".pkl")) for name in names)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    _ = Run.open(tmp_path / "run").scorer
