"""Out-of-fold probabilities: each item is judged by a model that was not trained on its annotations."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError
from realm.progress import named
from realm.scorers.scoring import Scores

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer

logger = logging.getLogger(__name__)

FOLDS = 3
"""Folds of `cross_fit=auto`: each model has seen two thirds of the items, and together they take twice the training."""


def planned_folds(trainer: RealmTrainer) -> int:
    """The folds to train: as set; of `auto`, `FOLDS` where cached layers make them cheap and a run is written.

    A model that was handed over loaded cannot be loaded again as it was, and a sharded one is not trained again.
    """
    args = trainer.args
    if isinstance(args.cross_fit, int):
        return args.cross_fit
    if trainer.going_on is not None and not trainer.going_on.everything:
        return 0  # what was said before training on an item stands in their place
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    if not (args.write_run and args.train_layers and args.cache_gb and trainer.loads_model) or sharded:
        return 0
    try:
        trainer.annotations.items.folds(FOLDS)
    except RealmError:  # fewer texts than folds
        return 0
    return FOLDS


def expected(trainer: RealmTrainer, folds: int, seconds_per_step: float) -> float:
    """Seconds that the folds will take: all but one in k of the items each, or as many steps where those are fixed."""
    times = folds if trainer.args.max_steps > 0 else folds - 1
    return float(seconds_per_step * trainer.state.max_steps * times)


def cross_fit(trainer: RealmTrainer, folds: int) -> tuple[npt.NDArray[np.int32], Scores]:
    """Train one model per fold of items (equal texts together), each from the full run's channel; score its fold.

    Returns the fold of each item (items,) and what the model that did not see it says of it, not calibrated.
    """
    from transformers.trainer_callback import PrinterCallback

    from realm.training.trainer import RealmTrainer

    table = trainer.annotations
    fold_of_item = table.items.folds(folds, seed=trainer.args.seed)
    log_probs = np.full((table.n_items, int(table.option_counts.max(initial=1))), -np.inf)
    start_time = time.monotonic()
    for fold in range(folds):
        held_out = np.flatnonzero(fold_of_item == fold)
        others = table.keep_annotations(fold_of_item[table.item] != fold)
        if table.gold is not None:
            others = replace(others, gold=np.where(fold_of_item == fold, -1, table.gold).astype(np.int32))
        settings = {"write_run": False, "save_strategy": "no", "eval_strategy": "no", "cross_fit": 0}
        settings |= {"report_to": "none", "hub_model_id": None}  # a fold is neither logged nor pushed
        if others.gold is None or not (others.gold >= 0).any():  # all of the gold, if any, lies in this fold
            settings["use_gold"] = False
        config = replace(trainer.args, **settings)
        if trainer.channel is None and config.method == "realm":  # nothing was better than plain fine-tuning
            config = replace(config, method="noisy")
        channel = None if trainer.channel is None else copy.deepcopy(trainer.channel)
        progress = named(trainer._progress, f"fold {fold + 1} of {folds}")
        part = RealmTrainer(trainer.model_name, others, config, channel=channel, prior=trainer.prior, progress=progress)
        part.remove_callback(PrinterCallback)
        part.is_fold = True
        if trainer.channel is not None:
            part.model.channel.load_state_dict(trainer.channel.state_dict())
            if part._closed_form is not None and trainer._closed_form is not None:
                part._closed_form.go_on_from(trainer._closed_form)
        part.train()
        log_probs[held_out] = part.scores().log_probs[held_out]
        left = (time.monotonic() - start_time) / (fold + 1) * (folds - fold - 1)
        if trainer.is_world_process_zero():
            logger.warning("cross-fit: fold %d of %d done, about %.0f s left", fold + 1, folds, left)
    return fold_of_item, Scores(log_probs)
