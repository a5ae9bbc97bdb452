"""The channel that a run trains, and where it starts: gold, an earlier estimate, pinned experts."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from realm.channels import CHANNELS, Channel, IdentityChannel
from realm.crowd.estimate import EXPERT
from realm.crowd.mixture_weights import PRIOR
from realm.crowd.priors import expertise_prior
from realm.data import Annotations
from realm.errors import RealmError
from realm.methods import METHODS
from realm.training.closed_form import ClosedFormUpdate
from realm.training.config import RealmConfig

Earlier = dict[tuple[int, int], list[float]]
"""(annotator, task) to expertise, accuracy, low and high of an earlier estimate."""
EARLIER_RANGE = (0.01, 0.99)
"""Training starts within this range whatever an earlier run was sure of: at the ends omega would hardly move again."""


def make_channel(annotations: Annotations, config: RealmConfig, channel: Channel | None = None) -> Channel:
    """The channel of a method: its own, or the one that the caller or the settings name."""
    own = METHODS[config.method].channel
    if own is not None:
        if channel is not None:
            raise RealmError(
                f"`channel` is for methods that learn expertise; `method={config.method}` trains by cross-entropy."
            )
        return CHANNELS[own].from_annotations(annotations)
    if channel is None:
        return CHANNELS[config.channel].from_annotations(annotations, start=config.expertise_start)
    rows = len(channel.touched)
    if rows and rows != annotations.n_annotators:
        raise RealmError(
            f"`channel` was made for {rows:,} annotators, and the table has {annotations.n_annotators:,}. "
            f"Use {type(channel).__name__}.from_annotations(annotations)."
        )
    if isinstance(channel, IdentityChannel) and config.objective == "joint":
        raise RealmError(
            "`objective=joint` with IdentityChannel: labels of an item that differ are impossible together. "
            "Use `objective=paper`."
        )
    return channel


def start_channel(
    channel: Channel, annotations: Annotations, config: RealmConfig, experts: Sequence[int], earlier: Earlier | None
) -> None:
    """Place the annotators that something is known of: by gold in use, by an earlier estimate, as experts."""
    if config.use_gold and channel.can("update"):
        ClosedFormUpdate(channel, annotations).update()
    if earlier:
        expertise = torch.full((annotations.n_annotators, len(annotations.tasks)), float("nan"), dtype=torch.float64)
        for pair, (beta, *_) in earlier.items():
            expertise[pair] = min(max(beta, EARLIER_RANGE[0]), EARLIER_RANGE[1])
        channel.start_from(expertise)
    if experts:
        channel.pin(experts, EXPERT)


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
