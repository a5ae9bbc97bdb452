"""Out-of-fold probabilities: each item is judged by a model that was not trained on its annotations."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realm.errors import RealmError
from realm.scorers.scoring import Scores

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer

logger = logging.getLogger(__name__)

DISAGREEMENT = 0.5
"""The share of a fold's items on which its model may contradict the full one; beyond it, it learnt something else."""


def expected(trainer: RealmTrainer, seconds_per_step: float) -> float:
    """Seconds that the folds will take: all but one in k of the items each, or as many steps where those are fixed."""
    folds = trainer.args.cross_fit
    times = folds if trainer.args.max_steps > 0 else folds - 1
    return float(seconds_per_step * trainer.state.max_steps * times)


def cross_fit(trainer: RealmTrainer, folds: int) -> Scores:
    """Train one model per fold of items (equal texts together), each from the full run's channel; score its fold.

    A fold whose answers contradict the full model's on more than half of its items has learnt something else (at K=2,
    perhaps the flipped labelling): it is refused rather than mixed in.
    """
    from transformers.trainer_callback import PrinterCallback

    from realm.training.trainer import RealmTrainer

    table = trainer.annotations
    fold_of_item = table.items.folds(folds, seed=trainer.args.seed)
    full = trainer.scores()
    log_probs = full.log_probs.copy()
    start_time = time.monotonic()
    for fold in range(folds):
        held_out = np.flatnonzero(fold_of_item == fold)
        others = table.keep_annotations(fold_of_item[table.item] != fold)
        if table.gold is not None:
            others = replace(others, gold=np.where(fold_of_item == fold, -1, table.gold).astype(np.int32))
        settings = {"write_run": False, "save_strategy": "no", "eval_strategy": "no", "cross_fit": 0}
        if others.gold is None or not (others.gold >= 0).any():  # all of the gold, if any, lies in this fold
            settings["use_gold"] = False
        config = replace(trainer.args, **settings)
        if trainer.channel is None and config.method == "realm":  # nothing was better than plain fine-tuning
            config = replace(config, method="noisy")
        channel = None if trainer.channel is None else copy.deepcopy(trainer.channel)
        part = RealmTrainer(trainer.model_name, others, config, channel=channel, prior=trainer.prior)
        part.remove_callback(PrinterCallback)
        part.starts_channel = False  # it goes on from the full run's
        if trainer.channel is not None:
            part.model.channel.load_state_dict(trainer.channel.state_dict())
            if part._closed_form is not None and trainer._closed_form is not None:
                part._closed_form.go_on_from(trainer._closed_form)
        part.train()
        log_probs[held_out] = part.scores().log_probs[held_out]
        differ = float((log_probs[held_out].argmax(1) != full.labels[held_out]).mean())
        if differ > DISAGREEMENT:
            raise RealmError(
                f"`cross_fit`: the model without fold {fold + 1} contradicts the full one on {differ:.0%} of the "
                "fold's items, so its probabilities cannot be used. Train longer, or leave `cross_fit` out."
            )
        left = (time.monotonic() - start_time) / (fold + 1) * (folds - fold - 1)
        if trainer.is_world_process_zero():
            logger.warning("cross-fit: fold %d of %d done, about %.0f s left", fold + 1, folds, left)
    return Scores(log_probs)
