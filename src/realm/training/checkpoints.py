"""Checkpoints of a run in progress: whole or absent, verified before they are read, never a pickle that runs code.

A checkpoint is a folder of everything that training changes, in one file of tensors and plain values that is read with
`weights_only=True`, the random numbers and the log in `Trainer`'s own files, and a manifest. `Trainer`'s own
checkpoints would pickle its arguments and may be left half-written.
"""

from __future__ import annotations

import io
import logging
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers.trainer_callback import TrainerState

from realm.errors import RealmError
from realm.files import verify_manifest, write_manifest, writing
from realm.training.processes import full, like

logger = logging.getLogger(__name__)

PARTIAL = ".partial"
PROGRESS, SHARDED_PROGRESS, STATE = "progress.pt", "sharded_progress.pt", "trainer_state.json"

Trajectory = list[tuple[int, dict[str, npt.NDArray[np.float64]]]]
"""(step, what the channel's `summary` returned) at logging steps."""


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, the newest first."""
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(paths, key=lambda path: -step_of(path))


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


# -------------------------------------------------------------------- writing


def write_checkpoint(folder: Path, step: int, keep: int | None, write_files: Callable[[Path], None]) -> None:
    """Write a checkpoint beside its place, add the manifest, put it there, and remove all but the newest `keep`."""
    final, partial = folder / f"checkpoint-{step}", folder / PARTIAL
    try:
        with writing(folder):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            write_files(partial)
            write_manifest(partial)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            rotate(final, keep)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_files(
    folder: Path, progress: dict[str, Any], random_states: list[bytes], state: TrainerState, sharded: bool
) -> None:
    """The files of a checkpoint; `random_states` are those of all processes."""
    torch.save(_canonical(progress), folder / (SHARDED_PROGRESS if sharded else PROGRESS))
    for rank, numbers in enumerate(random_states):
        (folder / ("rng_state.pth" if len(random_states) == 1 else f"rng_state_{rank}.pth")).write_bytes(numbers)
    state.save_to_json(str(folder / STATE))


def _canonical(value: Any) -> Any:
    """The same plain values, equal texts as one object: so that a resumed run writes the bytes of one never stopped."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {_canonical(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(part) for part in value]
    return value


def rotate(newest: Path, keep: int | None) -> None:
    """Remove the checkpoints beyond the newest `keep`. Ones of later steps are of a past that was not resumed."""
    paths = checkpoints(newest.parent)
    place = paths.index(newest)
    for path in [*paths[:place], *(paths[place + keep :] if keep else [])]:
        shutil.rmtree(path, ignore_errors=True)


def random_state(distributed: bool) -> bytes:
    """The state of this process's random number generators, in the form that `Trainer` reads back."""
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state()}
    state["cpu"] = torch.random.get_rng_state()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all() if distributed else torch.cuda.get_rng_state()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that train, by name, whole; every process must ask, since each may hold a part."""
    trained = {name: value.detach() for name, value in module.named_parameters() if value.requires_grad}
    return {name: full(value).cpu() for name, value in trained.items()}


def tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    """Arrays as tensors, which alone are read back with `weights_only=True`."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


# -------------------------------------------------------------------- reading


def newest_whole(folder: Path, sharded: bool = False) -> Path | None:
    """The newest checkpoint whose manifest verifies; damaged ones are passed over, saying so.

    `sharded` says whether the run goes on under FSDP, whose optimiser state is laid out in another way.
    """
    paths = checkpoints(folder)
    for path in paths:
        try:
            verify_manifest(path)
        except RealmError as error:
            logger.warning("skipping a damaged checkpoint: %s", error)
            continue
        if (path / SHARDED_PROGRESS).exists() != sharded:
            with_or_without = "without" if sharded else "with"
            raise RealmError(
                f"`resume`: {path} was written {with_or_without} FSDP; go on with the run {with_or_without} it."
            )
        return path
    if paths:
        raise RealmError(f"{folder}: there is no complete checkpoint; start again with `overwrite`.")
    return None


@contextmanager
def reading(checkpoint: str | Path) -> Iterator[None]:
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


def read_state(checkpoint: Path) -> TrainerState:
    """Steps taken and the log of a checkpoint."""
    with reading(checkpoint):
        state = TrainerState.load_from_json(str(checkpoint / STATE))
        if state.global_step != step_of(checkpoint):
            raise ValueError(f"it is of step {state.global_step}")
    return state


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """What `write_files` was given as `progress`."""
    path = checkpoint / PROGRESS
    path = path if path.exists() else checkpoint / SHARDED_PROGRESS
    progress: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return progress


@torch.no_grad()
def load_trained(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Put saved parameters back; anything missing, left over or of another shape means another model."""
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    for name in sorted(state.keys() | parameters.keys()):
        if name not in state or name not in parameters or parameters[name].shape != state[name].shape:
            raise ValueError(f"it belongs to another model: {name} differs")
        parameters[name].copy_(like(state[name], parameters[name]))
