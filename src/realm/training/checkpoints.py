"""Checkpoints of a run in progress: whole or absent, verified before they are read."""

from __future__ import annotations

import io
import logging
import pickle
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
from realm.training.sharding import full, like

logger = logging.getLogger(__name__)

PARTIAL = ".partial"
TRAINED = "trained.safetensors"
CHANNEL = "channel.safetensors"
TRAJECTORY = "trajectory.safetensors"
NOTES = "notes.json"
OPTIMIZER, SHARDED_OPTIMIZER = "optimizer.pt", "sharded_optimizer.pt"
SCHEDULER, SCALER, STATE = "scheduler.pt", "scaler.pt", "trainer_state.json"
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
            logger.warning("passing over a damaged checkpoint: %s", error)
            continue
        if (path / SHARDED_OPTIMIZER).exists() != sharded:
            with_or_without = "without" if sharded else "with"
            raise RealmError(
                f"`resume`: {path} was written {with_or_without} FSDP; go on with the run {with_or_without} it."
            )
        return path
    if paths:
        raise RealmError(f"{folder}: no checkpoint is whole; start again with `overwrite`.")
    return None


def verify(checkpoint: Path) -> None:
    """Refuse a checkpoint that is damaged, or that holds anything besides what a checkpoint consists of."""
    listed = manifest_hashes(checkpoint)
    for path in sorted(checkpoint.rglob("*")):
        name = path.relative_to(checkpoint).as_posix()
        if path.is_file() and not (KNOWN.fullmatch(name) and (name in listed or name == MANIFEST)):
            raise RealmError(f"{path} has no place in a checkpoint and is not read.")
    verify_manifest(checkpoint)


def rotate(newest: Path, keep: int | None) -> None:
    """Remove the checkpoints beyond the newest `keep`. Ones of later steps are of a past that was not resumed."""
    paths = checkpoints(newest.parent)
    place = paths.index(newest)
    for path in [*paths[:place], *(paths[place + keep :] if keep else [])]:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def reading(checkpoint: str | Path | None) -> Iterator[None]:
    """Turn what PyTorch says of a file that it will not unpickle into an error that names the checkpoint."""
    try:
        yield
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RealmError(
            f"{checkpoint}: its state cannot be read safely ({first}). If the run is your own, remove this checkpoint "
            "and use `resume` again; it goes on from the one before."
        ) from None
