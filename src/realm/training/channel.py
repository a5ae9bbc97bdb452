"""The channel in training: which one a run trains, where it starts, P as training records it, and its updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import TrainerCallback

from realm.channels import Channel, ConfusionChannel, IdentityChannel, ItemScores, channel_class
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import PRIORS
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations
from realm.errors import RealmError
from realm.methods import METHODS
from realm.training.config import RealmConfig
from realm.training.processes import gather, on_first

Floats = npt.NDArray[np.float64]

UPDATES_PER_EPOCH = 10
"""How often an epoch the channel is fitted further: as often as the model has learned something worth noting."""
MEMORY_EPOCHS = 10
"""Epochs after which, with one annotation per item, P says more of the model's memory than of the annotator."""
START_RANGE = (0.01, 0.99)
"""Gradients start within this range: at the ends omega would hardly move again."""


def make_channel(
    annotations: Annotations,
    config: RealmConfig,
    channel: Channel | None = None,
    earlier: EarlierEstimates | None = None,
) -> Channel:
    """The channel of a method: its own, the one that the caller gives, or the one that the settings name.

    In closed form every channel that settings name is the one model of annotators, constrained.
    """
    method = METHODS[config.method]
    if channel is not None:
        _check_channel(channel, annotations, config)
        channel.hold_pinned()
        return channel
    if method.channel == "identity":
        return IdentityChannel()
    name = method.channel or config.channel
    if config.method_update == "em":
        form = {"form": name, **method.channel_settings}
        experts, kind = tuple(config.experts or ()), config.annotator_kind
        return ConfusionChannel(annotations, **form, gold=annotations.gold, experts=experts, earlier=earlier, kind=kind)
    if name == "confusion":
        raise RealmError(
            "`channel=confusion` has no gradient: its matrices are fitted in closed form. Use `expertise_update=em`, "
            "or `channel=habit`, `uniform` or `coin`."
        )
    start = {} if method.channel else {"start": config.expertise_start}
    return channel_class(name).from_annotations(annotations, **start, **method.channel_settings)


def _check_channel(channel: Channel, annotations: Annotations, config: RealmConfig) -> None:
    """Refuse a channel that the method does not take, that was made for another table, or that learns nothing."""
    method = METHODS[config.method]
    if not method.learns_expertise:
        raise RealmError(
            f"`channel` is for methods that learn expertise; `method={config.method}` trains by cross-entropy."
        )
    if method.channel is not None and type(channel) is not channel_class(method.channel):
        raise RealmError(f"`method={config.method}` has a channel of its own: leave `channel` out, or use `realm`.")
    if isinstance(channel, IdentityChannel):
        raise RealmError("`channel`: IdentityChannel learns nothing of annotators. Use `method=noisy`.")
    options = int(annotations.option_counts.max(initial=0))
    for what, size, needed in (
        ("annotators", len(channel.touched), annotations.n_annotators),
        ("tasks", channel.tasks, len(annotations.tasks)),
        ("options", channel.options, options),
    ):
        if len(channel.touched) and size not in (needed, None):
            raise RealmError(
                f"`channel` was made for {size:,} {what}, and the table has {needed:,}. "
                f"Use {type(channel).__name__}.from_annotations(annotations)."
            )


# -------------------------------------------------------------------- where a channel starts


def start_gradient_channel(
    channel: Channel, annotations: Annotations, log_probs: Floats | None, kind: str | None = None
) -> None:
    """For gradients: start from the expertise that the one model of annotators gives, under the channel's own form.

    `log_probs` (items, K) is what is known of the items before the first step; None where only gold is.
    """
    name = type(channel).__name__.removesuffix("Channel").lower()
    priors = PRIORS[name if name in PRIORS else "uniform"]
    model = AnnotatorModel(annotations, priors, gold=annotations.gold, kind=kind)
    expertise = model.fit(log_probs).summary()["expertise_trained"]
    least = -1.0 if name == "coin" else START_RANGE[0]  # a coin may lie below chance
    channel.start_from(torch.from_numpy(np.clip(expertise, least, START_RANGE[1])))


def check_anchor(channel: Channel, annotations: Annotations) -> None:
    """Refuse a channel that cannot tell the true labelling from the flipped one, where nothing else tells it."""
    if channel.needs_anchor(annotations):
        raise RealmError(
            "`channel=coin`: with two options, swapping the labels explains the annotations equally well, and nothing "
            "decides between the two. Give `use_gold`, `experts` or `prior`, a model that has an opinion on the items, "
            "or a channel whose annotators are never below chance, such as `channel=habit`."
        )


def memorisation_warnings(annotations: Annotations, epochs: float) -> list[str]:
    """What to tell a user whose model may know by heart, after an epoch, what a guesser said."""
    if int(annotations.annotations_per_item.max(initial=0)) > 1 or epochs <= MEMORY_EPOCHS:
        return []
    return [
        f"every item has one annotation and is trained on about {epochs:.0f} times: a model that memorises the labels "
        f"of an annotator who guesses takes them for an expert. Train fewer epochs, or watch expertise over the steps."
    ]


# -------------------------------------------------------------------- during training


class ChannelUpdates(TrainerCallback):
    """Records P after every step, and `update`s a channel that has a closed form ten times an epoch.

    P comes from the forward that precedes the optimiser's step, so never from a model that has just been trained on the
    item in the same epoch. The first process updates, and the others take its state.

    `channel` is None where there is no closed form; `annotations` are those that it is fitted to, with gold where that
    is used. `log_probs` (items, Kmax) is log P as the last forward gave it; NaN before.
    """

    def __init__(self, channel: Channel | None, annotations: Annotations, steps_per_epoch: int) -> None:
        self.channel, self.annotations, self.steps_per_epoch = channel, annotations, steps_per_epoch
        self.log_probs = np.full((annotations.n_items, int(annotations.option_counts.max(initial=1))), np.nan)
        self._pending: list[tuple[npt.NDArray[np.int64], Floats]] = []

    def observe(self, rows: Tensor, log_probs: Tensor) -> None:
        """What a forward said of the items at these rows: (n,), (n, K)."""
        self._pending.append((rows.cpu().numpy(), log_probs.double().cpu().numpy()))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for part in gather(args, self._pending):
            for rows, log_probs in part:
                self.log_probs[rows] = -np.inf
                self.log_probs[rows, : log_probs.shape[1]] = log_probs
        self._pending = []
        # Not `on_epoch_end`, which comes after a checkpoint of the epoch's last step has been written.
        step = state.global_step % self.steps_per_epoch
        due = step % max(self.steps_per_epoch // UPDATES_PER_EPOCH, 1) == 0
        if self.channel is not None and (due or state.global_step >= state.max_steps):
            self._closed_form(args, "update", self.log_probs)

    def fit(self, args: Any, log_probs: Floats | None) -> None:
        """Before the first step: fit the channel to what is known of the items, (items, K), if anything."""
        self._closed_form(args, "fit", np.full_like(self.log_probs, np.nan) if log_probs is None else log_probs)

    def _closed_form(self, args: Any, step: str, log_probs: Floats) -> None:
        channel = self.channel
        assert channel is not None

        def act() -> dict[str, npt.NDArray[Any]]:
            device = next(iter((*channel.parameters(), *channel.buffers())), torch.zeros(0)).device
            counts = torch.from_numpy(self.annotations.option_counts.astype(np.int64))
            scores = ItemScores(torch.from_numpy(log_probs).to(device), counts.to(device))
            with torch.no_grad():
                getattr(channel, step)(scores, self.annotations)
            return channel.state() if args.world_size > 1 else {}

        state = on_first(args, act)
        if args.process_index > 0:
            channel.load_state(state)
