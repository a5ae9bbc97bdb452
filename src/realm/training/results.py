"""What labels and annotators are judged by: P of models that were not trained on the item, and the trained channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels import Channel, ConfusionChannel, IdentityChannel, ItemScores, Observed
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations
from realm.errors import RealmError
from realm.training.config import RealmConfig

FOLDS = 3
"""Folds of `cross_fit=auto`: each model has seen two thirds of the items, and together they take twice the training."""
FOLD_SETTINGS: dict[str, Any] = {
    "write_run": False, "save_strategy": "no", "eval_strategy": "no", "cross_fit": 0, "report_to": "none",
    "hub_model_id": None,
}  # fmt: skip
"""A fold is neither written, nor logged, nor pushed."""
CHUNK = 65536
"""Annotations whose evidence is computed at once."""

Floats = npt.NDArray[np.float64]


def planned_folds(annotations: Annotations, config: RealmConfig, *, loads_model: bool) -> int:
    """The folds to train: as set; of `auto`, `FOLDS` where cached layers make them cheap and a run is written."""
    if isinstance(config.cross_fit, int):
        return config.cross_fit
    if not (loads_model and config.write_run and config.train_layers and config.cache_gb):
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


def report_model(
    channel: Channel, annotations: Annotations, config: RealmConfig, earlier: EarlierEstimates | None, log_probs: Floats
) -> AnnotatorModel:
    """The trained channel's own model of annotators; where the channel is of another kind, the default one at P."""
    if isinstance(channel, ConfusionChannel):
        return channel.fitted_model()
    gold, experts = annotations.gold if config.use_gold else None, config.experts or ()
    model = AnnotatorModel(annotations, gold=gold, experts=experts, earlier=earlier, kind=config.annotator_kind)
    return model.fit(log_probs)


def channel_estimate(
    channel: Channel, model: AnnotatorModel, log_probs: Floats, softened: Floats, hidden: Callable[[], Tensor]
) -> Estimate:
    """Labels, accuracies and intervals by the evidence of the channel that was trained.

    `log_probs` (items, Kmax) is log P as `model` was brought to it, NaN for items that are judged by their labels
    alone; `softened` is log P of all items, and `hidden` gives their states, for the channel.
    """
    if isinstance(channel, ConfusionChannel | IdentityChannel):
        return model.estimate(log_probs)
    table = model.annotations
    counts = torch.from_numpy(table.option_counts.astype(np.int64))
    scores = ItemScores(torch.from_numpy(softened).float(), counts, hidden() if channel.needs_hidden else None)
    device = next(iter(channel.parameters()), counts).device
    channel.cpu()
    rows = np.array_split(np.arange(table.n_annotations), table.n_annotations // CHUNK + 1)
    with torch.no_grad():
        parts = [channel.evidence(scores, Observed.of(table, part)).double().numpy() for part in rows]
    channel.to(device)
    return estimate_from_evidence(
        table,
        np.concatenate(parts),
        model.log_prior(log_probs),
        known=model.known,
        experts=model.expert,
        earlier=model.earlier,
        kind=model.kind,
    )
