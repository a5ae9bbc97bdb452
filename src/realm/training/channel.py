"""The channel in training: which one a run trains, where it starts, and its closed-form update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import TrainerCallback

from realm.channels import CHANNELS, Channel, IdentityChannel, channel_class
from realm.crowd.calibration import SHARPEST, labels_temperature, mostly_several
from realm.crowd.estimate import EXPERT
from realm.crowd.mixture_weights import PRIOR
from realm.crowd.priors import expertise_prior
from realm.data import Annotations
from realm.errors import RealmError
from realm.files import write_tensors
from realm.methods import METHODS
from realm.objectives import OBJECTIVES, Joint, Tempered
from realm.training.channel_choice import FIRST, ChannelChoice, choose_channel
from realm.training.channel_fit import ChannelFit, Prior
from realm.training.config import RealmConfig
from realm.training.model import RealmModel
from realm.training.opinion import known_beforehand

Earlier = dict[tuple[int, int], list[float]]
"""(annotator, task) to expertise, accuracy, low and high of an earlier estimate."""
EARLIER_RANGE = (0.01, 0.99)
"""Training starts within this range whatever an earlier run was sure of: at the ends omega would hardly move again."""
RECORD = "record.safetensors"
UPDATES_PER_EPOCH = 10
"""How often an epoch the channel is fitted further: as often as the model has learned something worth noting."""
MEMORY_EPOCHS = 10
"""Epochs after which, with one annotation per item, P says more of the model's memory than of the annotator."""


def make_channel(annotations: Annotations, config: RealmConfig, channel: Channel | None = None) -> Channel:
    """The channel of a method: its own, or the one that the caller or the settings name."""
    method = METHODS[config.method]
    if channel is None:
        if method.channel is not None:
            return channel_class(method.channel).from_annotations(annotations, **method.channel_settings)
        return configured_class(config).from_annotations(annotations, start=config.expertise_start)
    if not method.learns_expertise:
        raise RealmError(
            f"`channel` is for methods that learn expertise; `method={config.method}` trains by cross-entropy."
        )
    if method.channel is not None and type(channel) is not channel_class(method.channel):
        raise RealmError(f"`method={config.method}` has a channel of its own: leave `channel` out, or use `realm`.")
    check_fits(channel, annotations)
    channel.hold_pinned()
    return channel


def configured_class(config: RealmConfig) -> type[Channel]:
    """The class of the channel that the settings name; of `auto`, the one that training begins with."""
    return channel_class(FIRST if config.channel == "auto" else config.channel)


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


def start_channel(channel: Channel, annotations: Annotations, experts: Sequence[int], earlier: Earlier | None) -> None:
    """Place the annotators that something is known of: as experts, who stay, or by an earlier estimate."""
    if experts:
        channel.pin(experts, EXPERT)
    if earlier:
        expertise = torch.full((annotations.n_annotators, len(annotations.tasks)), float("nan"), dtype=torch.float64)
        for pair, (beta, *_) in earlier.items():
            expertise[pair] = min(max(beta, EARLIER_RANGE[0]), EARLIER_RANGE[1])
        channel.start_from(expertise)


def check_anchor(channel: Channel, annotations: Annotations) -> None:
    """Refuse a channel that cannot tell the true labelling from the flipped one, where nothing else tells it."""
    if channel.needs_anchor(annotations):
        raise RealmError(
            f"{type(channel).__name__}: with two options, swapping the labels explains the annotations equally well, "
            "and nothing decides between the two. Give `use_gold`, `experts` or `prior`, a model that has an opinion "
            "on the items, or a channel whose annotators are never below chance, such as `channel=habit`."
        )


def expertise_beta(channel: Channel, annotations: Annotations, earlier: Earlier | None) -> Prior | None:
    """The Beta prior on expertise that an earlier estimate gives; None for the pool's."""
    # An earlier estimate is one per task; where all tasks share one value the pool's prior holds.
    if not earlier or channel.shared_tasks:
        return None
    return expertise_prior(earlier, (annotations.n_annotators, len(annotations.tasks)), PRIOR)


def memorisation_warning(annotations: Annotations, config: RealmConfig) -> str | None:
    """What to tell a user whose model may know by heart, after an epoch, what a guesser said."""
    items, batch = annotations.n_items, config.effective_batch_size
    epochs = config.max_steps * batch / max(items, 1) if config.max_steps > 0 else config.num_train_epochs
    if int(annotations.annotations_per_item.max(initial=0)) > 1 or epochs <= MEMORY_EPOCHS:
        return None
    return (
        f"every item has one annotation and is trained on about {epochs:.0f} times: a model that memorises the labels "
        f"of an annotator who guesses takes them for an expert. Train fewer epochs, or watch expertise over the steps."
    )


class ClosedFormUpdate(TrainerCallback):
    """Keeps log P of every item as the last forward gave it, and fits the channel to it as training goes on.

    P is recorded in the forward that precedes the optimiser's step, so it never comes from a model that has just been
    trained on the item in the same epoch. From the second epoch on, the model was trained on it an epoch before:
    harmless while other annotators of the item, or what the model knows, speak against a guess. Items with gold in use
    are judged by the gold instead, from the first step on.

    | argument | meaning |
    |---|---|
    | model | whose channel is fitted, and whose exponent where the objective is `tempered` |
    | annotations | what it is trained on, with gold where that is used |
    | make | a channel by name, as it would start: for `auto`, which may take another; None for the model's own |
    | prior | the Beta prior on expertise: two numbers, or two arrays (annotators * tasks,); None for the pool's |
    | trained_items | the rows of the items that an epoch passes over; None for all |
    """

    def __init__(
        self,
        model: RealmModel,
        annotations: Annotations,
        make: Callable[[str], Channel] | None = None,
        prior: Prior | None = None,
        trained_items: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.model, self.annotations, self.prior = model, annotations, prior
        self.trained_items = trained_items
        self.make = make
        self.choice: ChannelChoice | None = None
        self.log_probs = known_beforehand(annotations, None)
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._fit = self._new_fit()

    def _new_fit(self) -> ChannelFit:
        objective = self.model.objective
        return ChannelFit(
            self.model.channel,
            self.annotations,
            self.prior,
            tempered=isinstance(objective, Tempered),
            together=isinstance(objective, Joint),
        )

    # ---------------------------------------------------------------- before the first step

    def start(self, log_probs: Tensor) -> None:
        """Fit the channel to what is known before the first step: opinion and gold (items, K), and agreement."""
        self.log_probs = log_probs
        comparable = self.make is None or self.annotations.n_annotators > 1
        if comparable and not self._fit.together and bool(log_probs[:, 0].isnan().all()):
            return  # one annotation per item and nothing to judge it by
        self._choose()
        if isinstance(self.model.channel, IdentityChannel):
            return
        with self._on_processor():
            self._fit.fit(self.log_probs)
        self.model.exponent = self._fit.exponent

    def _choose(self) -> None:
        """For `auto`: take the channel that foretells annotations best."""
        if self.make is None or self.choice is not None:
            return
        self.choice = choose_channel(
            self.annotations, self.log_probs, self.make, self.prior, together=isinstance(self.model.objective, Joint)
        )
        self._take(self.choice.name)

    def _take(self, name: str) -> None:
        """Put the channel of this name in place of the model's."""
        assert self.make is not None
        own = next(iter(self.model.channel.parameters()), self.log_probs)
        if name == "identity":
            self.model.channel, self.model.objective = IdentityChannel(), OBJECTIVES["paper"]
            self.model.exponent = 1.0
        elif type(self.model.channel) is not channel_class(name):
            self.model.channel = self.make(name).requires_grad_(False).to(own.device)
            self._fit = self._new_fit()

    # ---------------------------------------------------------------- during training

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
            rows = self._fit.observed.item[indices]
            self.log_probs[rows, : log_probs.shape[1]] = log_probs
            self.log_probs[rows, log_probs.shape[1] :] = float("-inf")
        # Not `on_epoch_end`, which comes after a checkpoint of the epoch's last step has been written.
        units = self._annotations_of_an_epoch if args.batch_unit == "annotation" else self._items_of_an_epoch
        epoch = max(math.ceil(units / args.effective_batch_size), 1)
        if state.global_step % epoch == 0:
            before = self.model.channel
            self._choose()
            if self.model.channel is not before and not isinstance(self.model.channel, IdentityChannel):
                with self._on_processor():
                    self._fit.fit(self.log_probs)
            self.update()
        elif state.global_step % max(epoch // self._updates_per_epoch, 1) == 0 or state.global_step >= state.max_steps:
            self.update()

    @property
    def _updates_per_epoch(self) -> int:
        """An update looks at all annotations: where an epoch passes over a part of the items, it has as many fewer."""
        share = self._items_of_an_epoch / max(self.annotations.n_items, 1)
        return max(round(UPDATES_PER_EPOCH * share), 1)

    @property
    def _items_of_an_epoch(self) -> int:
        return self.annotations.n_items if self.trained_items is None else len(self.trained_items)

    @property
    def _annotations_of_an_epoch(self) -> int:
        per_item = self.annotations.annotations_per_item
        return int((per_item if self.trained_items is None else per_item[self.trained_items]).sum())

    def update(self) -> None:
        """Fit the channel, its priors and the exponent a little further to all that is recorded."""
        if isinstance(self.model.channel, IdentityChannel):
            return
        with self._on_processor():
            self._fit.update(self.log_probs)
        self.model.exponent = self._fit.exponent

    @contextmanager
    def _on_processor(self) -> Iterator[None]:
        """The solvers are numpy's."""
        channel = self.model.channel
        device = next(iter(channel.parameters())).device
        channel.cpu()
        try:
            yield
        finally:
            channel.to(device)

    # ---------------------------------------------------------------- afterwards

    def temperature(self) -> float:
        """The temperature at which P foretells the labels of trusted annotators best.

        A mixture leaves open how sharp P is: with one annotation per item only ratios of expertise are known, and
        where annotators err together P learns their common mistakes. So P's confidence is brought to what the labels
        bear out, each weighted by the trained expertise of its annotator. Where most items have several annotations
        it may be below 1, which says that the model is less sure than it could be. With one annotation per item it is
        1 or more: labels that are known by heart would say the same.
        """
        summary = self.model.channel.summary().get("expertise_trained")
        gold = self.annotations.gold
        judged = ~self.log_probs[:, 0].isnan().numpy() & (True if gold is None else gold < 0)
        if self.trained_items is not None:  # of the others the record says what an earlier model thought
            judged &= np.isin(np.arange(len(judged)), self.trained_items)
        rows = np.flatnonzero(judged[self.annotations.item])
        if summary is None or not len(rows):
            return 1.0
        item, label = self.annotations.item[rows], self.annotations.label[rows]
        task = self.annotations.item_tasks[item]
        trust = np.clip(summary[self.annotations.annotator[rows], task], 0.0, 1.0)
        trust = trust * (1.0 if self.annotations.weight is None else self.annotations.weight[rows])
        least = SHARPEST if mostly_several(self.annotations) else 1.0
        return labels_temperature(self.log_probs.numpy(), item, label, trust, least)

    def go_on_from(self, other: ClosedFormUpdate) -> None:
        """Begin where another run on the same items stands: its channel's state, its record of P and its exponent."""
        self.model.channel.load_state_dict(other.model.channel.state_dict())
        self.log_probs = other.log_probs.clone()
        self._fit.exponent = self.model.exponent = other.model.exponent

    def save(self, folder: Path) -> None:
        choice = ChannelChoice("", {}) if self.choice is None else self.choice
        compared = [(CHANNELS.index(name), value) for name, value in choice.likelihoods.items()]
        write_tensors(
            folder / RECORD,
            log_probs=self.log_probs.numpy(),
            exponent=np.array([self._fit.exponent]),
            channel=np.array([CHANNELS.index(choice.name) if choice.name else -1], dtype=np.int64),
            likelihoods=np.array(compared, dtype=np.float64).reshape(-1, 2),
            standard_error=np.array([choice.standard_error]),
        )

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint; to be called before the channel's own state is put back."""
        record = load_file(folder / RECORD)
        if record["log_probs"].shape != self.log_probs.shape:
            raise RealmError(f"{folder / RECORD} belongs to another table: its log_probs have another shape.")
        self.log_probs = record["log_probs"]
        if (chosen := int(record["channel"])) >= 0:
            likelihoods = {CHANNELS[int(row)]: value for row, value in record["likelihoods"].tolist()}
            self.choice = ChannelChoice(CHANNELS[chosen], likelihoods, float(record["standard_error"]))
            self._take(self.choice.name)
        self._fit.exponent = self.model.exponent = float(record["exponent"])
