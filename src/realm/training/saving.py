"""What `RealmTrainer` keeps of a run in progress and how it goes on from it: checkpoints that are whole or absent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers import Trainer
from transformers.trainer_callback import ExportableState, TrainerState

from realm.channels import Channel, IdentityChannel
from realm.errors import RealmError
from realm.files import parse_json, read_json, read_tensors, write_manifest, write_tensors, writing
from realm.schema import Array, check, check_arrays
from realm.scorers.finite import first_not_finite
from realm.training import checkpoints, sharding
from realm.training.channel import ClosedFormUpdate
from realm.training.distributed import gather, on_first
from realm.training.running_loss import RunningLoss

Trajectory = list[tuple[int, dict[str, npt.NDArray[np.float64]]]]
"""(step, what the channel's `summary` returned) at every logging step."""


class SavingTrainer(Trainer):
    """`Trainer` with checkpoints of its own: written beside, verified, by the first process alone.

    A checkpoint holds the parameters that train, the channel's state and trajectory, the running loss, and the state of
    optimiser, schedule and random numbers in `Trainer`'s own files, which are read back with `weights_only=True` after
    the manifest verifies. `Trainer`'s own checkpoints would pickle its arguments and may be left half-written.
    """

    control: Any
    optimizer: Any
    notes: list[str]
    _closed_form: ClosedFormUpdate | None
    _running_loss: RunningLoss
    _trajectory: Trajectory

    @property
    def run(self) -> Path:
        return Path(self.args.output_dir)

    @property
    def channel(self) -> Channel | None:
        """The learned channel; None for methods that learn nothing of annotators."""
        channel: Channel = self.model.channel
        return None if isinstance(channel, IdentityChannel) else channel

    # ---------------------------------------------------------------- writing

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write a checkpoint in place of `Trainer`'s. Every process takes part; the first one writes.

        Under DeepSpeed none is written: its optimiser state is pickled, process by process.
        """
        if self.is_deepspeed_enabled:
            return
        self.store_flos()
        states = self._states()
        self.check_finite({**states["trained"], **dict(self.model.channel.named_parameters())})
        on_first(self.args, lambda: self._write_checkpoint(states))

    def _states(self) -> dict[str, Any]:
        """Everything a checkpoint holds that the processes must gather."""
        optimizer = sharding.optimizer_state(self.model, self.optimizer) if self.is_fsdp_enabled else None
        return {
            "trained": checkpoints.trained_state(self.model.scorer),
            "optimizer": self.optimizer.state_dict() if optimizer is None else optimizer,
            "random": gather(self.args, checkpoints.random_state(distributed=self.args.world_size > 1)),
            "losses": self._running_loss.state(),
        }

    def _write_checkpoint(self, states: dict[str, Any]) -> None:
        """Write a checkpoint beside its place, add the manifest, and put it there."""
        folder = self.run / "checkpoints"
        final, partial = folder / f"checkpoint-{self.state.global_step}", folder / checkpoints.PARTIAL
        try:
            with writing(folder):
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                self._write_states(partial, states)
                write_manifest(partial)
                shutil.rmtree(final, ignore_errors=True)
                partial.rename(final)
                checkpoints.rotate(final, self.args.save_total_limit)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _write_states(self, folder: Path, states: dict[str, Any]) -> None:
        checkpoints.save_trained(states["trained"], folder / checkpoints.TRAINED)
        optimizer = checkpoints.SHARDED_OPTIMIZER if self.is_fsdp_enabled else checkpoints.OPTIMIZER
        torch.save(states["optimizer"], folder / optimizer)
        torch.save(self.lr_scheduler.state_dict(), folder / checkpoints.SCHEDULER)
        if (scaler := getattr(self.accelerator, "scaler", None)) is not None:
            torch.save(scaler.state_dict(), folder / checkpoints.SCALER)
        for rank, state in enumerate(states["random"]):
            name = "rng_state.pth" if self.args.world_size == 1 else f"rng_state_{rank}.pth"
            (folder / name).write_bytes(state)
        self._running_loss.save(folder, states["losses"])
        if channel := channel_state(self.model.channel):
            write_tensors(folder / checkpoints.CHANNEL, **channel)
        if self._trajectory:
            write_tensors(folder / checkpoints.TRAJECTORY, **trajectory_arrays(self._trajectory))
        if self._closed_form is not None:
            self._closed_form.save(folder)
        if self.notes:
            (folder / checkpoints.NOTES).write_text(json.dumps(self.notes))
        for stateful in (*self.callback_handler.callbacks, self.control):
            if isinstance(stateful, ExportableState):
                self.state.stateful_callbacks[type(stateful).__name__] = stateful.state()
        self.state.save_to_json(str(folder / checkpoints.STATE))

    # ---------------------------------------------------------------- numbers that are none

    def diverged(self, what: str, step: int) -> RealmError:
        """The error that ends a training whose numbers are no longer finite."""
        last = next(iter(checkpoints.checkpoints(self.run / "checkpoints")), None)
        where = (
            "No checkpoint was written before it."
            if last is None
            else f"{last} is the last checkpoint, and all its numbers are finite: `resume` goes on from it, with the "
            "same settings."
        )
        return RealmError(
            f"step {step}: {what} is infinite or not a number: training diverged, and nothing of it was written as a "
            f"result. Lower `learning_rate` ({self.args.learning_rate:g}) and begin again with `overwrite`. {where}"
        )

    def check_finite(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """End the training where one of these is not finite."""
        if (name := first_not_finite(parameters.items())) is not None:
            raise self.diverged(f"the parameter {name}", self.state.global_step)

    # ---------------------------------------------------------------- reading

    def checkpoint_state(self, checkpoint: Path) -> TrainerState:
        """Steps taken and the log of a checkpoint."""
        path = checkpoint / checkpoints.STATE
        with checkpoints.reading(checkpoint):
            content = parse_json(path.read_bytes())
            check(path, content, checkpoints.STATE_SCHEMA)
            state = TrainerState(**content)
        if checkpoint.name != f"checkpoint-{state.global_step}":
            raise RealmError(f"{path}: it is of step {state.global_step}, not of {checkpoint.name}. It is damaged.")
        return state

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        with checkpoints.reading(folder):
            self._load_rng_state(str(folder))  # read again after skipped batches, too late for a clear message
            checkpoints.load_trained(self.model.scorer, folder / checkpoints.TRAINED)
            if self._closed_form is not None:
                self._closed_form.load(folder)  # which channel it is
            if (folder / checkpoints.CHANNEL).exists():
                load_channel(self.model.channel, folder / checkpoints.CHANNEL)
            self.notes = _read_notes(folder / checkpoints.NOTES)
            self._running_loss.load(folder)
            self._trajectory = self._read_trajectory(folder / checkpoints.TRAJECTORY)

    def _read_trajectory(self, path: Path) -> Trajectory:
        if not path.exists():
            return []
        columns = read_tensors(path)
        pairs = tuple(self.model.channel.touched.shape)
        sizes = {"annotators": pairs[0], "tasks": pairs[1]}
        wanted = {name: Array("float", ("steps", *sizes), nan=True) for name in columns if name != "steps"}
        check_arrays(path, columns, {"steps": Array("int", ("steps",), low=0), **wanted}, sizes)
        steps = columns.pop("steps").tolist()
        return [(step, {name: values[index] for name, values in columns.items()}) for index, step in enumerate(steps)]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with checkpoints.reading(checkpoint):
            if checkpoint is not None:
                checkpoints.check_schedule(Path(checkpoint) / checkpoints.SCHEDULER, self.lr_scheduler)
            if checkpoint is None or not self.is_fsdp_enabled:
                super()._load_optimizer_and_scheduler(checkpoint)
                if checkpoint is not None:
                    checkpoints.check_optimizer(Path(checkpoint) / checkpoints.OPTIMIZER, self.optimizer)
                return
            state, schedule = (
                torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
                for name in (checkpoints.SHARDED_OPTIMIZER, checkpoints.SCHEDULER)
            )
            sharding.load_optimizer_state(self.model, self.optimizer, state)
            self.lr_scheduler.load_state_dict(schedule)


def channel_state(channel: Channel) -> dict[str, npt.NDArray[Any]]:
    """What the channel learned, by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in channel.state_dict().items()}


def load_channel(channel: Channel, path: Path) -> None:
    """Put a saved channel back; another shape or name means another table or channel."""
    state = read_tensors(path)
    learned = {name: torch.from_numpy(state[name]) for name, _ in channel.named_parameters() if name in state}
    if (name := first_not_finite(learned.items())) is not None:  # a buffer may mark what is not known with NaN
        raise RealmError(f"{path}: {name} holds a value that is infinite or not a number.")
    try:
        channel.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    except RuntimeError as error:
        raise RealmError(f"{path} belongs to another table or channel: {str(error).splitlines()[-1].strip()}") from None


def _read_notes(path: Path) -> list[str]:
    if not path.exists():
        return []
    notes: list[str] = read_json(path)
    check(path, notes, [str])
    return notes


def trajectory_arrays(trajectory: Trajectory) -> dict[str, npt.NDArray[Any]]:
    """The steps (steps,), and each column of the summaries (steps, annotators, tasks)."""
    steps, summaries = zip(*trajectory, strict=True)
    # Those that all have: `auto` may take another channel after the first epoch.
    common = [name for name in summaries[-1] if all(name in summary for summary in summaries)]
    columns = {name: np.stack([summary[name] for summary in summaries]) for name in common}
    return {"steps": np.array(steps, dtype=np.int64), **columns}
