"""Checkpoints of a run in progress: whole or absent, verified before they are read."""

from __future__ import annotations

import io
import logging
import math
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from realm.errors import RealmError
from realm.files import MANIFEST, manifest_hashes, verify_manifest
from realm.schema import Number, Whole
from realm.scorers.finite import first_not_finite
from realm.training.sharding import full, like

logger = logging.getLogger(__name__)

PARTIAL = ".partial"
TRAINED = "trained.safetensors"
CHANNEL = "channel.safetensors"
TRAJECTORY = "trajectory.safetensors"
NOTES = "notes.json"
OPTIMIZER, SHARDED_OPTIMIZER = "optimizer.pt", "sharded_optimizer.pt"
SCHEDULER, SCALER, STATE = "scheduler.pt", "scaler.pt", "trainer_state.json"
STATE_SCHEMA = {
    "global_step": Whole(1),
    "max_steps": Whole(1),
    "epoch?": (Number(0), None),
    **dict.fromkeys(("num_train_epochs", "train_batch_size", "logging_steps", "save_steps"), Number(0)),
    **dict.fromkeys(("eval_steps?", "best_metric?", "best_global_step?"), (Number(), None)),
    "num_input_tokens_seen?": Whole(),
    **dict.fromkeys(("is_local_process_zero?", "is_world_process_zero?", "is_hyper_param_search?"), bool),
    "total_flos?": Number(),
    "log_history": [{"step": Whole()}],
    "stateful_callbacks?": {str: {"args?": {}, "attributes?": {}}},
}
"""What is used of `trainer_state.json`; its log may hold infinite gradients, under fp16."""
KNOWN = re.compile(
    r"(trained|channel|trajectory|record)\.safetensors|(losses|notes|trainer_state|manifest)\.json|"
    r"(optimizer|sharded_optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth"
)
"""What a checkpoint of ours consists of; `Trainer`'s pickled arguments are never written, so never expected."""


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that train, by name, whole; a tensor that is shared appears once."""
    trained = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
    return {name: full(parameter).contiguous() for name, parameter in trained.items()}


def save_trained(state: dict[str, Tensor], path: Path) -> None:
    save_file({name: value.cpu() for name, value in state.items()}, path)


def load_trained(module: nn.Module, path: Path) -> None:
    """Put saved parameters back; anything missing or left over means another model or other flags."""
    saved = load_file(path)
    if (broken := first_not_finite(saved.items())) is not None:
        raise RealmError(f"{path}: {broken} holds a value that is infinite or not a number.")
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if difference := sorted(set(saved) ^ set(parameters)):
        raise RealmError(f"{path} belongs to another model or other flags: {difference[0]} is in only one of them.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != saved[name].shape:
                raise RealmError(f"{path} belongs to another table or model: {name} has another shape.")
            parameter.copy_(like(saved[name], parameter))


def random_state(distributed: bool) -> bytes:
    """The state of this process's random number generators, in the form that `Trainer` reads back."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "cpu": torch.random.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all() if distributed else torch.cuda.get_rng_state()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, the newest first."""
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(paths, key=lambda path: -int(path.name.split("-")[1]))


def newest_whole(folder: Path, sharded: bool = False) -> Path | None:
    """The newest checkpoint whose manifest verifies; damaged ones are passed over, saying so.

    `sharded` says whether the run goes on under FSDP, whose optimiser state is laid out in another way.
    """
    paths = checkpoints(folder)
    for path in paths:
        try:
            verify(path)
        except RealmError as error:
            logger.warning("skipping a damaged checkpoint: %s", error)
            continue
        if (path / SHARDED_OPTIMIZER).exists() != sharded:
            with_or_without = "without" if sharded else "with"
            raise RealmError(
                f"`resume`: {path} was written {with_or_without} FSDP; go on with the run {with_or_without} it."
            )
        return path
    if paths:
        raise RealmError(f"{folder}: there is no complete checkpoint; start again with `overwrite`.")
    return None


def verify(checkpoint: Path) -> None:
    """Refuse a checkpoint that is damaged, or that holds anything besides what a checkpoint consists of."""
    listed = manifest_hashes(checkpoint)
    for path in sorted(checkpoint.rglob("*")):
        name = path.relative_to(checkpoint).as_posix()
        if path.is_file() and not (KNOWN.fullmatch(name) and (name in listed or name == MANIFEST)):
            raise RealmError(f"{path} does not belong in a checkpoint and is not read.")
    verify_manifest(checkpoint)


def check_schedule(path: Path, schedule: Any) -> None:
    """Refuse the state of a schedule that is not of the form of this one's."""
    saved = torch.load(path, map_location="cpu", weights_only=True)
    if not _same_form(saved, schedule.state_dict()):
        raise RealmError(f"{path} is not the state of this run's schedule.")


def _same_form(one: Any, other: Any) -> bool:
    if isinstance(other, dict):
        return isinstance(one, dict) and one.keys() == other.keys() and all(_same_form(one[k], other[k]) for k in other)
    if isinstance(other, list | tuple):
        return isinstance(one, list | tuple) and len(one) == len(other) and all(map(_same_form, one, other))
    if isinstance(other, int | float) and not isinstance(other, bool):
        return isinstance(one, int | float) and math.isfinite(one)
    return type(one) is type(other)


def check_optimizer(path: Path, optimizer: Any) -> None:
    """Refuse averages of gradients that have another shape than their parameter."""
    optimizer = getattr(optimizer, "optimizer", optimizer)  # what accelerate has wrapped
    for parameter, averages in optimizer.state.items():
        for name, value in averages.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise RealmError(f"{path}: {name} has the shape {tuple(value.shape)}, not {tuple(parameter.shape)}.")


def rotate(newest: Path, keep: int | None) -> None:
    """Remove the checkpoints beyond the newest `keep`. Ones of later steps are of a past that was not resumed."""
    paths = checkpoints(newest.parent)
    place = paths.index(newest)
    for path in [*paths[:place], *(paths[place + keep :] if keep else [])]:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def reading(checkpoint: str | Path | None) -> Iterator[None]:
    """Turn whatever a file says that is not as we wrote it into an error that names the checkpoint."""
    try:
        yield
    except RealmError:
        raise
    except Exception as error:  # a state that nobody but `Trainer` knows the form of can be wrong in any way
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RealmError(
            f"{checkpoint}: its state cannot be read safely ({first}). If the run is your own, remove this checkpoint "
            "and use `resume` again; it continues from the one before."
        ) from None
