"""Two processes (gloo, on the processor) follow the trajectory of one, and only the first of them writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from realm.runs import Run
from tests.forked import run_together
from tests.invariant.two_processes import (
    CASES,
    MORE,
    Case,
    fail_to_write,
    run_case,
    run_cases,
    run_command,
    write_runs,
    writing_trainer,
)
from tests.tiny import crowd, save_tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("seq2seq", "causal", "bert"):
        save_tiny(folder / kind, kind, layers=2, width=16)
    return folder


def compare(name: str, case: Case, models: Path, folder: Path) -> dict[str, float]:
    """The largest difference of either process from the run of one process."""
    one = run_case(case, models, folder / "run")
    two = [np.load(folder / f"{name}.{rank}.npz") for rank in range(2)]
    assert len(one["losses"]) == 20 and np.ptp(one["losses"]) > 0.001
    if case.settings.get("method") != "noisy":
        assert np.abs(one["omegas"][-1] - one["omegas"][0]).max() > 0.01
    differences = {"losses": np.abs((two[0]["losses"] + two[1]["losses"]) / 2 - one["losses"]).max()}
    for part in set(two[0]) - {"losses"}:
        differences[part] = max(np.abs(found[part] - one[part]).max(initial=0.0) for found in two)
    assert max(differences.values()) < (1e-8 if case.double else 1e-4), (name, differences)
    return differences


@pytest.fixture(scope="module")
def ran_together(models, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    run_together(run_cases, list(CASES), models, folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_follow_the_trajectory_of_one(name, models, ran_together) -> None:
    compare(name, CASES[name], models, ran_together)


@pytest.mark.slow
def test_two_processes_follow_the_trajectory_of_one_in_every_other_configuration(models, tmp_path) -> None:
    run_together(run_cases, list(MORE), models, tmp_path, timeout=900)
    for name in MORE:
        print(name, compare(name, MORE[name], models, tmp_path))


def test_only_the_first_process_writes(models, tmp_path) -> None:
    model = str(models / "causal")
    run_together(write_runs, model, tmp_path)
    first, second = (json.loads((tmp_path / f"found.{rank}.json").read_text()) for rank in range(2))
    assert not list(tmp_path.glob("elsewhere-*"))
    assert any("one annotation" in message for message in first["told"]) and second["told"] == []
    assert "already holds a run" in first["refused"] and second["refused"] == first["refused"]

    whole, stopped = Run.open(tmp_path / "whole"), Run.open(tmp_path / "stopped")
    assert whole.metrics == stopped.metrics
    for name in ("channel", "trajectory", "predictions"):
        for key, value in load_file(whole.folder / f"{name}.safetensors").items():
            np.testing.assert_array_equal(value, load_file(stopped.folder / f"{name}.safetensors")[key])
    names = {path.name for path in (whole.folder / "checkpoints" / "checkpoint-7").iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= names

    # One process ends where two end, and goes on from where two were stopped.
    writing_trainer(model, tmp_path / "alone").train()
    writing_trainer(model, tmp_path / "left").train(resume_from_checkpoint=True)
    for name in ("alone", "left"):
        other = Run.open(tmp_path / name)
        trained = [opened.channel_summary["expertise_trained"] for opened in (other, whole)]
        np.testing.assert_allclose(*trained, rtol=1e-5, atol=1e-5)
        for here, there in zip(other.metrics["history"], whole.metrics["history"], strict=True):
            assert here == pytest.approx(there, rel=1e-5, abs=1e-5)


def test_all_end_with_the_error_of_the_one_that_cannot_write(models, tmp_path) -> None:
    run_together(fail_to_write, str(models / "causal"), tmp_path, timeout=120)
    first, second = ((tmp_path / f"said.{rank}").read_text() for rank in range(2))
    assert "cannot be written: No space left on device" in first and second == first
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["checkpoint-2"]
    writing_trainer(str(models / "causal"), tmp_path / "run").train(resume_from_checkpoint=True)
    Run.open(tmp_path / "run")


LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "accelerate": [
        *("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
    ],
}


@pytest.mark.parametrize("launcher", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in LAUNCHERS)])
def test_the_command_runs_unchanged_under_a_launcher(launcher, models, realm_cli, tmp_path) -> None:
    """Without one, the processes are given what `torchrun` would give them."""
    crowd(40, per_item=1).to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "c.yaml").write_text("logging_steps: 1\n")
    flags = ["train", tmp_path / "labels.csv", "--model", models / "bert", "--steps", 5, "--batch-size", 8]
    words = [str(word) for word in [*flags, "--micro-batch-size", 4, "--config", tmp_path / "c.yaml", "--output"]]
    if launcher is None:
        run_together(run_command, [*words, str(tmp_path / "two")], tmp_path / "said")
        said = "".join((tmp_path / f"said.{rank}").read_text() for rank in range(2))
    else:
        command = [sys.executable, "-m", *LAUNCHERS[launcher], "-m", "realm", *words, str(tmp_path / "two")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
    for once in ("every item has one annotation", "The run is in", "How reliable each annotator"):
        assert said.count(once) == 1, said
    states = {path.name for path in (tmp_path / "two" / "checkpoints").glob("*/rng_state_*.pth")}
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= states, "two processes took part"
    code, _, error = realm_cli(*words, tmp_path / "one")
    assert code == 0, error
    one, two = (load_file(tmp_path / run / "trajectory.safetensors")["expertise_trained"] for run in ("one", "two"))
    assert len(one) == 5
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)
    tables = [pd.read_csv(tmp_path / run / "expertise.csv") for run in ("one", "two")]
    pd.testing.assert_frame_equal(*tables, atol=1e-4)
