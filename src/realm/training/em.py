"""Expertise without a learning rate: after each step, beta is solved for from what the model said before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor
from transformers import TrainerCallback

from realm.channels import MixtureChannel
from realm.crowd.mixture_weights import PRIOR, ExpertiseRecord
from realm.crowd.priors import expertise_prior
from realm.data import Annotations
from realm.training.config import RealmConfig

RECORD = "record.safetensors"
MEMORY = 3
"""Epochs after which, with one annotation per item, p says more of the model's memory than of the annotator."""


def memorising(annotations: Annotations, config: RealmConfig) -> str | None:
    """What to tell a person whose model may know by heart, after an epoch, what a guesser said."""
    items, batch = annotations.n_items, config.effective_batch_size
    epochs = config.max_steps * batch / max(items, 1) if config.max_steps > 0 else config.num_train_epochs
    if int(annotations.annotations_per_item.max(initial=0)) > 1 or epochs <= MEMORY:
        return None
    return (
        f"--expertise-update em: every item has one annotation and is met about {epochs:.0f} times, so the model may "
        f"come to know a guesser's labels by heart, and the guesser looks expert. Train {MEMORY} epochs at most, or "
        "use --expertise-update gradient."
    )


class ExpertiseSolver(TrainerCallback):
    """Keeps p = P(label given prompt) of every annotation as its last forward gave it, and sets omega after each step.

    p is recorded in the forward that precedes the optimiser's step, so it never comes from a model that has just been
    trained on the annotation in the same epoch. From the second epoch on, the model was trained on it an epoch before:
    harmless while other annotators of the item, or what the model knows, speak against a guess, and measured to be
    better than keeping the first p for good, but not for many epochs with one annotation per item
    (`memorising`). Annotations of gold items are judged by the gold instead, from the first step on.
    """

    def __init__(self, channel: MixtureChannel, annotations: Annotations) -> None:
        table = annotations
        self.channel = channel
        self.gold = None
        if table.gold is not None:
            right = (table.label == table.gold[table.item]).astype(np.float64)
            self.gold = np.where(table.gold[table.item] >= 0, right, np.nan)
        shape = (table.n_annotators, len(table.tasks))
        tasks = table.item_tasks[table.item]
        self.record = ExpertiseRecord(table.option_counts[table.item], table.annotator, tasks, shape)
        if self.gold is not None:
            known = np.flatnonzero(np.isfinite(self.gold))
            self.record.update(known, self.gold[known])
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []

    def carry_in(self, found: dict[tuple[int, int], list[float]]) -> None:
        """Let earlier estimates, (annotator, task) to expertise, accuracy, low and high, stand for the prior."""
        self.record.prior = expertise_prior(found, self.record.shape, PRIOR)

    def observe(self, index: Tensor, label_log_probs: Tensor) -> None:
        """What a forward said of these annotations, (annotations,) each."""
        self._pending.append((index.cpu().numpy(), label_log_probs.exp().double().cpu().numpy()))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        seen = self._pending
        if args.world_size > 1:
            from accelerate.utils import gather_object

            seen = gather_object(seen)
        self._pending = []
        for index, p in seen:
            if self.gold is not None:
                p = np.where(np.isnan(self.gold[index]), p, self.gold[index])
            self.record.update(index, p)
        beta = np.clip(self.record.solve(), 1e-6, 1 - 1e-6)
        # Who has not been met yet stays where gold, an earlier estimate or `expertise_start` put them.
        self.channel.place(torch.from_numpy(np.where(self.record.met(), beta, np.nan)))

    def save(self, folder: Path) -> None:
        from realm.runs.folder import write_tensors

        write_tensors(folder / RECORD, p=self.record.p, beta=self.record.beta)

    def load(self, folder: Path) -> None:
        stored = load_file(folder / RECORD)
        self.record.p, self.record.beta = stored["p"], stored["beta"]
