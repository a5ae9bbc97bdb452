"""What a trainer does for its channel before the first step and after the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.channels import Channel, channel_class
from realm.crowd.calibration import COMMON_MISTAKES, labels_temperature, mostly_several
from realm.objectives import Joint
from realm.training.channel import ClosedFormUpdate, Earlier, check_anchor, expertise_beta, start_channel
from realm.training.channel_fit import ChannelFit
from realm.training.guards import stand_in
from realm.training.opinion import find_opinion, known_beforehand

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer


def closed_form(trainer: RealmTrainer, experts: Sequence[int] | None, earlier: Earlier | None) -> ClosedFormUpdate:
    """The update of `expertise_update="em"`, which takes the place of every gradient of the channel.

    `experts` are for the other channels that may be chosen; None where the channel is given.
    """
    channel: Channel = trainer.model.channel
    annotations = trainer.channel_annotations
    channel.requires_grad_(False)

    def make(name: str) -> Channel:
        other = channel_class(name).from_annotations(annotations, start=trainer.args.expertise_start)
        start_channel(other, annotations, experts or (), earlier)
        return other

    prior = expertise_beta(channel, annotations, earlier)
    items = None if trainer.going_on is None else trainer.going_on.items
    return ClosedFormUpdate(trainer.model, annotations, None if experts is None else make, prior, items)


def start(trainer: RealmTrainer) -> None:
    """Before the first step: fit the channel to what the model, agreement and gold say of the annotators."""
    channel, update = trainer.channel, trainer._closed_form
    if channel is None or not channel.can("update"):
        return
    if trainer.going_on is not None:
        if update is not None:
            update.start(trainer.going_on.beliefs(trainer.channel_annotations))
        return
    annotations, opinion = trainer.channel_annotations, None
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled  # a sharded model is not asked
    if trainer.args.opinion and not sharded and not trainer.scorer.new_head:
        scores = trainer.score_training_items("scoring the training items before training")
        prior = None if update is None else update.prior
        opinion = find_opinion(channel.cpu(), annotations, scores.log_probs, prior)
        channel.to(trainer.args.device)
        trainer.notes.append(opinion.sentence)
    beliefs = known_beforehand(annotations, opinion)
    if not trainer.anchored and (opinion is None or not opinion.significant):
        check_anchor(channel, annotations)
    if update is not None:
        update.start(beliefs)
    elif not bool(beliefs[:, 0].isnan().all()):
        ChannelFit(channel.cpu(), annotations, together=isinstance(trainer.model.objective, Joint)).fit(beliefs)
        channel.to(trainer.args.device)


MODEST = 0.6
"""A temperature that labels support below which a model is called too unsure: 0.6 stands for 0.75 where 0.86 would be
right, at two options."""


def calibrate(trainer: RealmTrainer) -> None:
    """After the last step: bring the model's confidence to what annotations bear out, less what they cannot show.

    A classifier takes the temperature into its head, so that the plain checkpoint is as sure as `Run.predict`.
    """
    update = trainer._closed_form
    if update is not None and update.choice is not None:
        trainer.notes.append(update.choice.sentence)
    if trainer.out_of_fold is not None:
        temperature = _out_of_fold_temperature(trainer, trainer.out_of_fold.log_probs)
        on = "items that were not trained on"
    elif update is not None and trainer.channel is not None:
        temperature, on = update.temperature(), "reliable annotators, in-sample"
    else:
        return
    if temperature < MODEST:
        trainer.notes.append(
            f"the model is far less sure than the labels support (by a temperature of {temperature:.2f}): it was "
            "probably trained too little. Try more `num_train_epochs`, or a higher `learning_rate`."
        )
    reason = ""
    if trainer.channel is not None and trainer.annotations.gold is None:  # gold shows the mistakes that all make
        temperature *= COMMON_MISTAKES
        reason = f", and softened by {COMMON_MISTAKES} for mistakes that annotators have in common"
    temperature = max(temperature, 1.0)
    trainer.scorer.temperature = temperature
    trainer.scorer.merge_temperature()
    done = "left as it is (temperature 1)" if temperature == 1 else f"calibrated by a temperature of {temperature:.2f}"
    trainer.notes.append(f"confidence: {done}, fitted to the labels of {on}{reason if temperature > 1 else ''}.")


def _out_of_fold_temperature(trainer: RealmTrainer, log_probs: npt.NDArray[np.float64]) -> float:
    """The temperature of P out of fold (items, Kmax).

    Where most items have several annotations it is the one of their joint likelihood, which may be below 1: to fit P
    to the posterior by agreement would make it as unsure as three annotators are without a model. Otherwise, and where
    gold is in use, it is the one of 1 or more at which P best predicts gold, or each label as far as its annotator is
    trusted.
    """
    if trainer.annotations.gold is None and mostly_several(trainer.annotations):
        return trainer.supported_temperature
    trained = None if trainer.channel is None else trainer.channel.summary().get("expertise_trained")
    trust = None if trained is None else np.clip(trained, 0.0, 1.0)
    said = stand_in(trainer.annotations, trainer.agreement(), trust)
    item, label = np.nonzero(said)
    return labels_temperature(log_probs, item, label, said[item, label])
