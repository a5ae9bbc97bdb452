"""Checkpoints of a run in progress: whole or absent, verified before they are read, never a pickle that runs code.

A checkpoint holds the parameters that train, the channel's state and trajectory, the record of P, the running loss, and
optimiser, schedule and random numbers in `Trainer`'s own files, which are read with `weights_only=True` after the
manifest verifies. `Trainer`'s own checkpoints would pickle its arguments and may be left half-written.
"""

from __future__ import annotations

import io
import json
import logging
import math
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.trainer_callback import TrainerState

from realm.channels import Channel
from realm.errors import RealmError
from realm.files import (
    MANIFEST,
    manifest_hashes,
    parse_json,
    read_json,
    read_tensors,
    verify_manifest,
    write_manifest,
    write_tensors,
    writing,
)
from realm.schema import check_arrays, parse
from realm.scorers.finite import first_not_finite
from realm.training.channel import RECORD, ItemRecord
from realm.training.processes import full, like
from realm.training.running_loss import LOSSES, RunningLoss

logger = logging.getLogger(__name__)

PARTIAL = ".partial"
TRAINED, CHANNEL, TRAJECTORY = "trained.safetensors", "channel.safetensors", "trajectory.safetensors"
NOTES, STATE = "notes.json", "trainer_state.json"
OPTIMIZER, SHARDED_OPTIMIZER, SCHEDULER, SCALER = "optimizer.pt", "sharded_optimizer.pt", "scheduler.pt", "scaler.pt"
FILES = {TRAINED, CHANNEL, TRAJECTORY, RECORD, LOSSES, NOTES, STATE, OPTIMIZER, SHARDED_OPTIMIZER, SCHEDULER, SCALER}
"""What a checkpoint of ours consists of, beside the random numbers and the manifest."""
Trajectory = list[tuple[int, dict[str, npt.NDArray[np.float64]]]]
"""(step, what the channel's `summary` returned) at logging steps."""


def diverged(run: Path, what: str, step: int, learning_rate: float) -> RealmError:
    """The error that ends a training whose numbers are no longer finite."""
    last = next(iter(checkpoints(run / "checkpoints")), None)
    where = (
        "No checkpoint was written before it."
        if last is None
        else f"{last} is the last checkpoint, and all its numbers are finite: `resume` goes on from it, with the same "
        "settings."
    )
    return RealmError(
        f"step {step}: {what} is infinite or not a number: training diverged, and nothing of it was written as a "
        f"result. Lower `learning_rate` ({learning_rate:g}) and begin again with `overwrite`. {where}"
    )


# -------------------------------------------------------------------- the folder


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


def rotate(newest: Path, keep: int | None) -> None:
    """Remove the checkpoints beyond the newest `keep`. Ones of later steps are of a past that was not resumed."""
    paths = checkpoints(newest.parent)
    place = paths.index(newest)
    for path in [*paths[:place], *(paths[place + keep :] if keep else [])]:
        shutil.rmtree(path, ignore_errors=True)


def write_trainer_files(folder: Path, states: dict[str, Any], random: list[bytes], state: TrainerState) -> None:
    """`Trainer`'s own part of a checkpoint: tensors by file name, the processes' random numbers, and the log."""
    for name, content in states.items():
        torch.save(content, folder / name)
    for rank, numbers in enumerate(random):
        (folder / ("rng_state.pth" if len(random) == 1 else f"rng_state_{rank}.pth")).write_bytes(numbers)
    state.save_to_json(str(folder / STATE))


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
        ours = name in FILES or re.fullmatch(r"rng_state(_\d+)?\.pth", name)
        if path.is_file() and name != MANIFEST and not (ours and name in listed):
            raise RealmError(f"{path} does not belong in a checkpoint and is not read.")
    verify_manifest(checkpoint)


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


# -------------------------------------------------------------------- what a run in progress is made of


@dataclass(eq=False)
class Progress:
    """What a checkpoint holds of a run beside `Trainer`'s own state: everything that training changes.

    | field | meaning |
    |---|---|
    | scorer, channel | what is trained |
    | record | P of every item as forwards gave it |
    | running_loss | of which each process has a part |
    | trajectory, notes | what the channel said at logging steps, and what the user should know |
    """

    scorer: nn.Module
    channel: Channel
    record: ItemRecord
    running_loss: RunningLoss
    trajectory: Trajectory = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def writer(self) -> Callable[[Path], None]:
        """What writes it to a folder. Every process must ask, since each holds a part; one of them may write."""
        trained, losses = trained_state(self.scorer), self.running_loss.state()

        def write(folder: Path) -> None:
            save_trained(trained, folder / TRAINED)
            if state := self.channel.state():
                write_tensors(folder / CHANNEL, **state)
            if self.trajectory:
                write_tensors(folder / TRAJECTORY, **trajectory_arrays(self.trajectory))
            self.record.save(folder)
            self.running_loss.save(folder, losses)
            (folder / NOTES).write_text(json.dumps(self.notes))

        return write

    def read(self, folder: Path) -> None:
        """Put back what a checkpoint holds."""
        load_trained(self.scorer, folder / TRAINED)
        if (folder / CHANNEL).exists():
            load_channel(self.channel, folder / CHANNEL)
        self.record.load(folder)
        self.running_loss.load(folder)
        self.trajectory = read_trajectory(folder / TRAJECTORY, len(self.channel.touched), self.channel.tasks)
        self.notes = parse(folder / NOTES, read_json(folder / NOTES), list[str])


# -------------------------------------------------------------------- its parts


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that train, by name, whole; a tensor that is shared appears once."""
    trained = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
    return {name: full(parameter).contiguous() for name, parameter in trained.items()}


def save_trained(state: dict[str, Tensor], path: Path) -> None:
    save_file({name: value.cpu() for name, value in state.items()}, path)


def load_trained(module: nn.Module, path: Path) -> None:
    """Put saved parameters back; anything missing or left over means another model or other flags."""
    saved = load_file(path)
    refuse_not_finite(path, saved)
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if difference := sorted(set(saved) ^ set(parameters)):
        raise RealmError(f"{path} belongs to another model or other flags: {difference[0]} is in only one of them.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != saved[name].shape:
                raise RealmError(f"{path} belongs to another table or model: {name} has another shape.")
            parameter.copy_(like(saved[name], parameter))


def load_channel(channel: Channel, path: Path) -> None:
    """Put a saved channel back; another shape or name means another table or channel."""
    state = read_tensors(path)
    learned = {name: torch.from_numpy(state[name]) for name, _ in channel.named_parameters() if name in state}
    refuse_not_finite(path, learned)  # a buffer may mark what is not known with NaN
    try:
        channel.load_state(state)
    except (RuntimeError, ValueError, KeyError) as error:
        raise RealmError(f"{path} belongs to another table or channel: {str(error).splitlines()[-1].strip()}") from None


def refuse_not_finite(path: Path, tensors: dict[str, Tensor]) -> None:
    if (name := first_not_finite(tensors.items())) is not None:
        raise RealmError(f"{path}: {name} holds a value that is infinite or not a number.")


def read_state(checkpoint: Path) -> TrainerState:
    """Steps taken and the log of a checkpoint."""
    path = checkpoint / STATE
    with reading(checkpoint):
        state = TrainerState(**parse(path, parse_json(path.read_bytes()), dict[str, Any]))
    if checkpoint.name != f"checkpoint-{state.global_step}":
        raise RealmError(f"{path}: it is of step {state.global_step}, not of {checkpoint.name}. It is damaged.")
    return state


def trajectory_arrays(trajectory: Trajectory) -> dict[str, npt.NDArray[Any]]:
    """The steps (steps,), and each column of the summaries (steps, annotators, tasks)."""
    steps, summaries = zip(*trajectory, strict=True)
    columns = {name: np.stack([summary[name] for summary in summaries]) for name in summaries[-1]}
    return {"steps": np.array(steps, dtype=np.int64), **columns}


def read_trajectory(path: Path, annotators: int, tasks: int) -> Trajectory:
    if not path.exists():
        return []
    columns, sizes = read_tensors(path), {"annotators": annotators, "tasks": tasks}
    wanted = {name: ("float", "steps", *sizes) for name in columns if name != "steps"}
    check_arrays(path, columns, {"steps": ("int", "steps"), **wanted}, sizes)
    steps = columns.pop("steps").tolist()
    return [(step, {name: values[index] for name, values in columns.items()}) for index, step in enumerate(steps)]


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


def check_schedule(path: Path, schedule: Any) -> None:
    """Refuse the state of a schedule that is not of the form of this one's."""
    if not _same_form(torch.load(path, map_location="cpu", weights_only=True), schedule.state_dict()):
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
    for parameter, averages in getattr(optimizer, "optimizer", optimizer).state.items():  # accelerate wraps it
        for name, value in averages.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise RealmError(f"{path}: {name} has the shape {tuple(value.shape)}, not {tuple(parameter.shape)}.")
