"""Where a training is logged besides its run folder: TensorBoard, Weights & Biases, Trackio, by `Trainer`'s callbacks.

Losses and test figures are logged by these callbacks themselves. `ChannelHistograms` adds what the channel says of
the annotators: one histogram per column of its summary and task, without a name in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers.integrations import TensorBoardCallback, TrackioCallback, WandbCallback, integration_utils
from transformers.trainer_callback import TrainerCallback

from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer

PACKAGES = ("tensorboard", "wandb", "trackio")
"""The integrations that histograms are handed to, each by the name of the package that it needs."""


def check_integrations(names: Sequence[str]) -> None:
    """Refuse a name of `report_to` that `Trainer` does not know, or whose package is not installed."""
    try:
        integration_utils.get_reporting_integration_callbacks(list(names))
    except ValueError as error:
        raise RealmError(f"`report_to`: {error}") from None
    for name in names:
        if name in PACKAGES and not getattr(integration_utils, f"is_{name}_available")():
            raise RealmError(f"`report_to={name}`: the package {name} is not installed. Install it: pip install {name}")


class ChannelHistograms(TrainerCallback):
    """Hands a histogram of what the channel learned to every integration that is active, whenever the loss is logged.

    An annotator without annotations in a task is in none of its histograms.
    """

    def __init__(self, trainer: RealmTrainer) -> None:
        self.trainer = trainer
        table = trainer.annotations
        self._labelled = np.zeros((table.n_annotators, len(table.tasks)), bool)
        self._labelled[table.annotator, table.item_tasks[table.item]] = True
        self._last_step = -1

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        channel, step = self.trainer.channel, state.global_step
        losses = {"loss", "train_loss"} & set(logs or ())
        if channel is None or not losses or step == self._last_step or not state.is_world_process_zero:
            return
        self._last_step = step
        values = {}
        for name, column in channel.summary().items():
            for index, task in enumerate(self.trainer.annotations.tasks):
                labelled = column[self._labelled[:, index], index]
                if len(labelled := labelled[np.isfinite(labelled)]):
                    values[name if self._labelled.shape[1] == 1 else f"{name}/{task.name}"] = labelled
        if values:
            for callback in self.trainer.callback_handler.callbacks:
                _hand_over(callback, {f"annotators/{name}": array for name, array in values.items()}, step)


def _hand_over(callback: Any, values: dict[str, Any], step: int) -> None:
    """Log the values in the way of the integration that the callback is of, if it is one of them and is writing."""
    if isinstance(callback, TensorBoardCallback) and callback.tb_writer is not None:
        for name, array in values.items():
            callback.tb_writer.add_histogram(name, array, step)
    elif isinstance(callback, WandbCallback | TrackioCallback) and callback._initialized:
        library = callback._wandb if isinstance(callback, WandbCallback) else callback._trackio
        histograms = {name: library.Histogram(array) for name, array in values.items()}
        library.log({**histograms, "train/global_step": step})
