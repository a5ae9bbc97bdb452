"""What `RealmTrainer` keeps of a run in progress and how it goes on from it: checkpoints that are whole or absent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file
from torch import nn
from transformers import Trainer

from realm.channels import Channel, IdentityChannel
from realm.errors import RealmError
from realm.files import write_manifest, write_tensors, writing
from realm.training import checkpoints, sharding
from realm.training.closed_form import ClosedFormUpdate
from realm.training.labels import TrainingLabels
from realm.training.processes import first_writes_all, on_first
from realm.training.running_loss import LossKeeper


class SavingTrainer(Trainer):
    """`Trainer` with checkpoints of its own: written beside, verified, by the first process alone.

    A checkpoint holds the parameters that train, the channel's state and trajectory, the running loss, and `Trainer`'s
    own state of optimiser, schedule and random numbers, which is read back with `weights_only=True` after the manifest
    verifies.
    """

    control: Any
    optimizer: Any
    labels: TrainingLabels
    _closed_form: ClosedFormUpdate | None
    _losses: LossKeeper
    _saving_to: Path | None = None
    _failure: RealmError | None = None
    _trajectory: list[tuple[int, dict[str, npt.NDArray[np.float64]]]]

    @property
    def run(self) -> Path:
        return Path(self.args.output_dir)

    @property
    def channel(self) -> Channel | None:
        """The learned channel; None for methods that learn nothing of annotators."""
        channel: Channel = self.model.channel
        return None if isinstance(channel, IdentityChannel) else channel

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._saving_to or self.run / "checkpoints")

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Let `Trainer` write into a folder beside, add the manifest, then put the checkpoint in its place."""
        final = self.run / "checkpoints" / f"checkpoint-{self.state.global_step}"
        beside = self.run / "checkpoints" / checkpoints.PARTIAL
        self._saving_to, self._failure = beside, None
        self._losses.keep()
        try:
            with self._told_later():
                if self.args.should_save:
                    shutil.rmtree(beside, ignore_errors=True)
                super()._save_checkpoint(model, trial)
            on_first(self.args, lambda: self._put_in_place(beside / final.name, final))
        finally:
            self._saving_to = None
            if self.args.should_save:
                shutil.rmtree(beside, ignore_errors=True)

    @contextmanager
    def _told_later(self) -> Iterator[None]:
        """One of several processes that cannot write goes on, so that no other waits for it, and says so at the end."""
        try:
            with writing(self.run / "checkpoints"):
                yield
        except RealmError as error:
            if self.args.world_size == 1:
                raise
            self._failure = self._failure or error

    def _put_in_place(self, partial: Path, final: Path) -> None:
        if self._failure is not None:
            raise self._failure
        with writing(final):
            write_manifest(partial)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            checkpoints.rotate(final, self.args.save_total_limit)

    def _save_rng_state(self, output_dir: str) -> None:
        if self.args.world_size == 1:
            super()._save_rng_state(output_dir)
            return
        with self._told_later():
            first_writes_all(self.args, Path(output_dir), super()._save_rng_state)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """What a checkpoint needs: the parameters that train. (`Trainer`'s own would pickle its arguments.)"""
        folder = Path(output_dir or self.run)
        state = checkpoints.trained_state(self.model.scorer)  # every process takes part where the model is sharded
        if not self.args.should_save:
            return
        with self._told_later():
            folder.mkdir(parents=True, exist_ok=True)
            checkpoints.save_trained(state, folder / checkpoints.TRAINED)
            self._write_trajectory(folder)
            self._losses.save(folder)
            if channel := channel_state(self.model.channel):
                write_tensors(folder / checkpoints.CHANNEL, **channel)
            if self._closed_form is not None:
                self._closed_form.save(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        checkpoints.load_trained(self.model.scorer, folder / checkpoints.TRAINED)
        if (folder / checkpoints.CHANNEL).exists():
            load_channel(self.model.channel, folder / checkpoints.CHANNEL)
        self._losses.load(folder)
        if self._closed_form is not None:
            self._closed_form.load(folder)
        self._trajectory = []
        if (folder / checkpoints.TRAJECTORY).exists():
            columns = load_file(folder / checkpoints.TRAJECTORY)
            for index, step in enumerate(columns.pop("steps").tolist()):
                self._trajectory.append((step, {name: values[index] for name, values in columns.items()}))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.is_fsdp_enabled:
            with self._told_later():
                super()._save_optimizer_and_scheduler(output_dir)
            return
        state = sharding.optimizer_state(self.model, self.optimizer)
        if not self.args.should_save:
            return
        with self._told_later():
            torch.save(state, Path(output_dir) / checkpoints.SHARDED_OPTIMIZER)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with checkpoints.reading(checkpoint):
            if checkpoint is None or not self.is_fsdp_enabled:
                super()._load_optimizer_and_scheduler(checkpoint)
                return
            state, schedule = (
                torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
                for name in (checkpoints.SHARDED_OPTIMIZER, "scheduler.pt")
            )
            sharding.load_optimizer_state(self.model, self.optimizer, state)
            self.lr_scheduler.load_state_dict(schedule)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with checkpoints.reading(checkpoint):
            super()._load_rng_state(checkpoint)

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """From the last checkpoint of a run that ends in mid-epoch, `Trainer` alone would take one step too many."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def _write_trajectory(self, folder: Path) -> None:
        if self._trajectory:
            steps, summaries = zip(*self._trajectory, strict=True)
            columns = {name: np.stack([summary[name] for summary in summaries]) for name in summaries[0]}
            write_tensors(folder / checkpoints.TRAJECTORY, steps=np.array(steps), **columns)


def channel_state(channel: Channel) -> dict[str, npt.NDArray[Any]]:
    """What the channel learned, by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in channel.state_dict().items()}


def load_channel(channel: Channel, path: Path) -> None:
    """Put a saved channel back; another shape or name means another table or channel."""
    try:
        channel.load_state_dict({name: torch.from_numpy(value) for name, value in load_file(path).items()})
    except RuntimeError as error:
        raise RealmError(f"{path} belongs to another table or channel: {str(error).splitlines()[-1].strip()}") from None
