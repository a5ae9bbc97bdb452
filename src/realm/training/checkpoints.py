"""Checkpoints of a run in progress: whole or absent, verified before they are read, never a pickle that runs code.

A checkpoint is a folder: one file of tensors and plain values with everything that training changes, which is read with
`weights_only=True`; the random numbers and the log in `Trainer`'s own files; a manifest. `Trainer`'s own checkpoints
would pickle its arguments and may be left half-written.
"""

from __future__ import annotations

import io
import logging
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers.trainer_callback import TrainerState

from realm.errors import RealmError
from realm.files import verify_manifest, write_manifest, writing

logger = logging.getLogger(__name__)

PARTIAL, PROGRESS, STATE = ".partial", "progress.pt", "trainer_state.json"

Trajectory = list[tuple[int, dict[str, npt.NDArray[np.float64]]]]
"""(step, what the channel's `summary` returned) at logging steps."""


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, the newest first."""
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(paths, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


# -------------------------------------------------------------------- writing


def write_checkpoint(
    folder: Path,
    keep: int | None,
    progress: dict[str, Any],
    random_states: list[bytes],
    state: TrainerState,
) -> None:
    """Write a checkpoint beside its place, add the manifest, put it there, and remove all but the newest `keep`."""
    final, partial = folder / f"checkpoint-{state.global_step}", folder / PARTIAL
    try:
        with writing(folder):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            write_files(partial, progress, random_states, state)
            write_manifest(partial)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            rotate(final, keep)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_files(folder: Path, progress: dict[str, Any], random_states: list[bytes], state: TrainerState) -> None:
    """The files of a checkpoint; `random_states` are those of all processes, named as `Trainer` looks for them."""
    torch.save(progress, folder / PROGRESS)
    for rank, numbers in enumerate(random_states):
        (folder / ("rng_state.pth" if len(random_states) == 1 else f"rng_state_{rank}.pth")).write_bytes(numbers)
    state.save_to_json(str(folder / STATE))


def random_state(distributed: bool) -> bytes:
    """The state of this process's random number generators, in the form that `Trainer` reads back."""
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state()}
    state["cpu"] = torch.random.get_rng_state()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all() if distributed else torch.cuda.get_rng_state()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def rotate(newest: Path, keep: int | None) -> None:
    """Remove the checkpoints beyond the newest `keep`. Ones of later steps are of a past that was not resumed."""
    paths = checkpoints(newest.parent)
    place = paths.index(newest)
    for path in [*paths[:place], *(paths[place + keep :] if keep else [])]:
        shutil.rmtree(path, ignore_errors=True)


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that train, by name."""
    return {name: value.detach().cpu() for name, value in module.named_parameters() if value.requires_grad}


def tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    """Arrays as tensors, which alone are read back with `weights_only=True`."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, npt.NDArray[Any]]:
    """What `tensors` was given."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# -------------------------------------------------------------------- reading


def newest_whole(folder: Path) -> Path | None:
    """The newest checkpoint whose manifest verifies; damaged ones are passed over, saying so."""
    paths = checkpoints(folder)
    for path in paths:
        try:
            verify_manifest(path)
            return path
        except RealmError as error:
            logger.warning("skipping a damaged checkpoint: %s", error)
    if paths:
        raise RealmError(f"{folder}: there is no complete checkpoint; start again with `overwrite`.")
    return None


def read_state(checkpoint: Path) -> TrainerState:
    """Steps taken and the log of a checkpoint."""
    return TrainerState.load_from_json(str(checkpoint / STATE))


def read_progress(checkpoint: str | Path) -> dict[str, Any]:
    """What `write_files` was given as `progress`."""
    path = Path(checkpoint) / PROGRESS
    try:
        progress: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many types
        raise RealmError(f"{path} cannot be read safely. Remove this checkpoint and use `resume` again.") from error
    return progress


@torch.no_grad()
def load_trained(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    parameters = dict(module.named_parameters())
    for name, value in state.items():
        parameters[name].copy_(value)
