"""The channel in training: which one a run trains, where it starts, and its closed-form update."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import TrainerCallback

from realm.channels import Channel, IdentityChannel, ItemScores, Observed, channel_class
from realm.crowd.estimate import EXPERT
from realm.crowd.mixture_weights import PRIOR
from realm.crowd.priors import expertise_prior
from realm.data import Annotations
from realm.errors import RealmError
from realm.files import write_tensors
from realm.methods import METHODS
from realm.training.config import RealmConfig

Earlier = dict[tuple[int, int], list[float]]
"""(annotator, task) to expertise, accuracy, low and high of an earlier estimate."""
EARLIER_RANGE = (0.01, 0.99)
"""Training starts within this range whatever an earlier run was sure of: at the ends omega would hardly move again."""
RECORD = "record.safetensors"
MEMORY_EPOCHS = 3
"""Epochs after which, with one annotation per item, P says more of the model's memory than of the annotator."""


def make_channel(annotations: Annotations, config: RealmConfig, channel: Channel | None = None) -> Channel:
    """The channel of a method: its own, or the one that the caller or the settings name."""
    method = METHODS[config.method]
    if channel is None:
        if method.channel is not None:
            return channel_class(method.channel).from_annotations(annotations, **method.channel_settings)
        return channel_class(config.channel).from_annotations(annotations, start=config.expertise_start)
    if not method.learns_expertise:
        raise RealmError(
            f"`channel` is for methods that learn expertise; `method={config.method}` trains by cross-entropy."
        )
    if method.channel is not None and type(channel) is not channel_class(method.channel):
        raise RealmError(f"`method={config.method}` has a channel of its own: leave `channel` out, or use `realm`.")
    check_fits(channel, annotations)
    channel.hold_pinned()
    return channel


def check_fits(channel: Channel, annotations: Annotations) -> None:
    """Refuse a channel that was made for another table, or that has nothing to learn."""
    if isinstance(channel, IdentityChannel):
        raise RealmError("`channel`: IdentityChannel learns nothing of annotators. Use `method=noisy`.")
    most = int(annotations.option_counts.max(initial=0))
    sizes = {
        "annotators": (len(channel.touched), annotations.n_annotators),
        "tasks": (channel.tasks, len(annotations.tasks)),
        "options": (most if channel.options is None else channel.options, most),
    }
    for what, (size, needed) in sizes.items():
        if len(channel.touched) and size != needed:
            raise RealmError(
                f"`channel` was made for {size:,} {what}, and the table has {needed:,}. "
                f"Use {type(channel).__name__}.from_annotations(annotations)."
            )


def start_channel(
    channel: Channel, annotations: Annotations, config: RealmConfig, experts: Sequence[int], earlier: Earlier | None
) -> None:
    """Place the annotators that something is known of: as experts, who stay, by gold in use, by an earlier estimate."""
    if not (experts or config.use_gold or earlier):
        check_anchor(channel, annotations)
    if experts:
        channel.pin(experts, EXPERT)
    if config.use_gold and channel.can("update"):
        ClosedFormUpdate(channel, annotations).update()
    if earlier:
        expertise = torch.full((annotations.n_annotators, len(annotations.tasks)), float("nan"), dtype=torch.float64)
        for pair, (beta, *_) in earlier.items():
            expertise[pair] = min(max(beta, EARLIER_RANGE[0]), EARLIER_RANGE[1])
        channel.start_from(expertise)


def check_anchor(channel: Channel, annotations: Annotations) -> None:
    """Refuse a channel that cannot tell the true labelling from the flipped one, where nothing else tells it."""
    if channel.needs_anchor(annotations):
        raise RealmError(
            f"{type(channel).__name__}: with two options the flipped labels fit as well as the true ones, and nothing "
            "says which is which. Give `use_gold`, `experts` or `prior`, or take a channel whose annotators are never "
            "below chance, such as `channel=habit`."
        )


def closed_form_update(channel: Channel, annotations: Annotations, earlier: Earlier | None) -> ClosedFormUpdate:
    """The update of `expertise_update="em"`, which takes the place of every gradient of the channel."""
    if not channel.can("update"):
        raise RealmError(
            f"`expertise_update=em`: {type(channel).__name__} has no closed-form update; use "
            "`expertise_update=gradient`."
        )
    channel.requires_grad_(False)
    shape = (annotations.n_annotators, len(annotations.tasks))
    # An earlier estimate is one per task; where all tasks share one value the general prior holds.
    prior = expertise_prior(earlier, shape, PRIOR) if earlier and not channel.shared_tasks else None
    return ClosedFormUpdate(channel, annotations, prior)


def memorisation_warning(annotations: Annotations, config: RealmConfig) -> str | None:
    """What to tell a user whose model may know by heart, after an epoch, what a guesser said."""
    items, batch = annotations.n_items, config.effective_batch_size
    epochs = config.max_steps * batch / max(items, 1) if config.max_steps > 0 else config.num_train_epochs
    if int(annotations.annotations_per_item.max(initial=0)) > 1 or epochs <= MEMORY_EPOCHS:
        return None
    return (
        f"`expertise_update=em`: every item has one annotation and is met about {epochs:.0f} times, so the model may "
        f"come to know a guesser's labels by heart, and the guesser looks expert. Train {MEMORY_EPOCHS} epochs at "
        "most, or use `expertise_update=gradient`."
    )


class ClosedFormUpdate(TrainerCallback):
    """Keeps log P of every annotation's item as the last forward gave it, and updates the channel after each step.

    P is recorded in the forward that precedes the optimiser's step, so it never comes from a model that has just been
    trained on the annotation in the same epoch. From the second epoch on, the model was trained on it an epoch before:
    harmless while other annotators of the item, or what the model knows, speak against a guess, and measured to be
    better than keeping the first P for good, but not for many epochs with one annotation per item
    (`memorisation_warning`). Annotations of gold items are judged by the gold instead, from the first step on.

    `prior` is the Beta prior on expertise: two numbers, or two arrays (annotators * tasks,).
    """

    def __init__(
        self,
        channel: Channel,
        annotations: Annotations,
        prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        self.channel = channel
        self.prior = PRIOR if prior is None else prior
        self.observed = Observed.of(annotations)
        self.option_counts = torch.from_numpy(annotations.option_counts[annotations.item].astype(np.int64))
        shape = (annotations.n_annotations, int(annotations.option_counts.max(initial=1)))
        self.log_probs = torch.full(shape, float("nan"), dtype=torch.float64)
        if annotations.gold is not None:
            gold = torch.from_numpy(annotations.gold[annotations.item].astype(np.int64))
            has_gold = gold >= 0
            self.log_probs[has_gold] = float("-inf")
            self.log_probs[has_gold, gold[has_gold]] = 0.0
        self._pending: list[tuple[Tensor, Tensor]] = []

    def observe(self, indices: Tensor, log_probs: Tensor) -> None:
        """What a forward said of the items of these annotations: (annotations,), (annotations, K)."""
        self._pending.append((indices.cpu(), log_probs.double().cpu()))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        pending = self._pending
        if args.world_size > 1:
            from accelerate.utils import gather_object

            pending = gather_object(pending)
        self._pending = []
        for indices, log_probs in pending:
            self.log_probs[indices, : log_probs.shape[1]] = log_probs
            self.log_probs[indices, log_probs.shape[1] :] = float("-inf")
        self.update()

    def update(self) -> None:
        """Update the channel from all that is recorded; annotations not met yet say nothing."""
        recorded = torch.nonzero(~self.log_probs[:, 0].isnan())[:, 0]
        every = self.observed
        observed = Observed(
            torch.arange(len(recorded)),
            *(values[recorded] for values in (every.annotator, every.task, every.label, every.weight)),
        )
        device = next(self.channel.parameters()).device
        self.channel.cpu()  # the solver is numpy's
        self.channel.update(ItemScores(self.log_probs[recorded], self.option_counts[recorded]), observed, self.prior)
        self.channel.to(device)

    def save(self, folder: Path) -> None:
        write_tensors(folder / RECORD, log_probs=self.log_probs.numpy())

    def load(self, folder: Path) -> None:
        self.log_probs = load_file(folder / RECORD)["log_probs"]
