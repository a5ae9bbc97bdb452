"""Out-of-fold probabilities: each item is judged by a model that was not trained on its annotations."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.errors import RealmError
from realm.training.config import RealmConfig

logger = logging.getLogger(__name__)

FOLDS = 3
"""Folds of `cross_fit=auto`: each model has seen two thirds of the items, and together they take twice the training."""
FOLD_SETTINGS: dict[str, Any] = {
    "write_run": False, "save_strategy": "no", "eval_strategy": "no", "cross_fit": 0, "report_to": "none",
    "hub_model_id": None,
}  # fmt: skip
"""A fold is neither written, nor logged, nor pushed."""

Floats = npt.NDArray[np.float64]


def planned_folds(annotations: Annotations, config: RealmConfig, *, possible: bool) -> int:
    """The folds to train: as set; of `auto`, `FOLDS` where cached layers make them cheap and a run is written.

    `possible`: the model can be loaded and trained again, on all items.
    """
    if isinstance(config.cross_fit, int):
        return config.cross_fit
    if not (possible and config.write_run and config.train_layers and config.cache_gb):
        return 0
    try:
        annotations.items.folds(FOLDS)
    except RealmError:  # fewer texts than folds
        return 0
    return FOLDS


def cross_fit(
    annotations: Annotations, folds: int, seed: int, score_fold: Callable[[str, Annotations], Floats]
) -> Floats:
    """log P of every item by a model that was trained without its fold (equal texts are in one fold). (items, Kmax)

    `score_fold(name, others)` trains from the start on `others`, the table without the labels and the gold of a fold,
    and returns log P of all items; the name is for messages.
    """
    fold_of_item = annotations.items.folds(folds, seed=seed)
    log_probs = np.full((annotations.n_items, int(annotations.option_counts.max(initial=1))), -np.inf)
    for fold in range(folds):
        held_out = fold_of_item == fold
        others = annotations.keep_annotations(~held_out[annotations.item])
        if annotations.gold is not None:
            others = replace(others, gold=np.where(held_out, -1, annotations.gold).astype(np.int32))
        log_probs[held_out] = score_fold(f"fold {fold + 1} of {folds}", others)[held_out]
    return log_probs
