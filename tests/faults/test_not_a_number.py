"""Numbers that stop being finite end a training in words, and nothing with a NaN in it is written as a success."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from realm.errors import RealmError
from realm.runs import Run
from realm.training.checkpoints import checkpoints
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

SETTINGS = {"write_run": True, "save_strategy": "steps", "save_steps": 2, "max_steps": 6, "cross_fit": 0}
NAN = float("nan")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("nan") / "model", "causal", layers=1, width=16)


def failing(made, at: int, how: str):
    """Make one step of a trainer go wrong: its loss, its gradient, or the parameters after it."""
    step, clip = made.training_step, made._clip_grad_norm
    parameters = [parameter for parameter in made.scorer.parameters() if parameter.requires_grad]

    def training_step(*args, **more):
        if made.state.global_step + 1 == at and how == "parameters":
            with torch.no_grad():
                parameters[0].view(-1)[0] = NAN
        loss = step(*args, **more)
        return loss

    def compute_loss(*args, **more):
        loss = compute(*args, **more)
        return loss * NAN if made.state.global_step + 1 == at else loss

    def clip_grad_norm(*args):
        if made.state.global_step + 1 == at:
            parameters[0].grad.view(-1)[0] = NAN
        return clip(*args)

    if how == "loss":
        compute, made.compute_loss = made.compute_loss, compute_loss
    elif how == "gradient":
        made._clip_grad_norm = clip_grad_norm
    made.training_step = training_step
    return made


@pytest.mark.parametrize(
    ("how", "what"), [("loss", "5: the loss"), ("gradient", "6: the loss"), ("parameters", "5: the ")]
)
def test_training_ends_where_a_number_is_none_and_resume_goes_on(how, what, model, tmp_path) -> None:
    run, table = tmp_path / "run", crowd(20)
    with pytest.raises(RealmError, match=rf"step {what}.*diverged.*goes on from .*checkpoint-4"):
        failing(trainer(model, table, run, **SETTINGS), 5, how).train()
    assert not (run / "manifest.json").exists() and not (run / "model").exists()
    with pytest.raises(RealmError, match="did not finish"):
        Run.open(run)
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["checkpoint-4", "checkpoint-2"]
    trainer(model, table, run, **SETTINGS).train(resume_from_checkpoint=True)
    whole = tmp_path / "whole"
    trainer(model, table, whole, **SETTINGS).train()
    for name in ("model/model.safetensors", "metrics.json", "labels.csv"):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name


def test_parameters_that_the_last_step_spoils_are_seen(model, tmp_path) -> None:
    """No loss is computed after the last step: the parameters themselves are looked at."""
    made = trainer(model, crowd(20), tmp_path / "run", **{**SETTINGS, "save_strategy": "no"})
    step = made.create_optimizer().step

    def spoiled(*args, **more):
        result = step(*args, **more)
        if made.state.global_step + 1 == SETTINGS["max_steps"]:
            with torch.no_grad():
                next(made.scorer.parameters()).fill_(NAN)
        return result

    made.optimizer.step = spoiled
    with pytest.raises(RealmError, match=r"step 6: the parameter .* diverged"):
        made.train()
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_checkpoint_with_a_nan_is_not_written(model, tmp_path) -> None:
    made = trainer(model, crowd(20), tmp_path / "run", **{**SETTINGS, "save_steps": 1})
    made.train()
    with torch.no_grad():
        next(made.scorer.parameters()).view(-1)[0] = float("inf")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(RealmError, match="diverged"):
        made._save_checkpoint(made.model, None)
    assert not (tmp_path / "run" / "checkpoints").exists()
    with pytest.raises(RealmError, match="diverged"):
        made.save_model(str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()


# ---------------------------------------------------------------- what is written


@pytest.mark.parametrize("field", ["log_probs", "posterior", "accuracy"])
def test_results_with_a_nan_are_not_written(field, model, tmp_path, monkeypatch) -> None:
    from realm.runs import writer

    write = writer.write_results

    def spoiled(folder, results):
        array = results.log_probs if field == "log_probs" else getattr(results.estimate, field)
        array[0, 0] = np.nan
        write(folder, results)

    monkeypatch.setattr(writer, "write_results", spoiled)
    with pytest.raises(RealmError, match=rf"{field} holds values that are not a number"):
        trainer(model, crowd(20), tmp_path / "run", **SETTINGS).train()
    assert not (tmp_path / "run" / "manifest.json").exists() and not (tmp_path / "run" / "model").exists()


def test_a_gradient_that_fp16_left_out_is_null_in_the_log(model, tmp_path) -> None:
    """It is no reason to lose the run: the log has no number for it, and the run is read back."""
    made = trainer(model, crowd(20), tmp_path / "run", **SETTINGS)
    made.state.log_history.append({"step": 1, "grad_norm": float("inf")})
    log = made.log
    made.log = lambda logs, *more: log({**logs, "grad_norm": float("inf")} if "loss" in logs else logs, *more)
    made.train()
    history = Run.open(tmp_path / "run").metrics["history"]
    assert [entry["grad_norm"] for entry in history if "loss" in entry] == [None] * 6


# ---------------------------------------------------------------- the check itself


def test_json_without_numbers_is_refused(tmp_path: Path) -> None:
    from realm.files import read_json

    for text in ("NaN", '{"a": [Infinity]}', "[-Infinity]"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(RealmError, match=r"x\.json.*which is no number"):
            read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(json.dumps({"a": [1.5, None]}))
    assert read_json(tmp_path / "x.json") == {"a": [1.5, None]}
