"""One machine, five methods: where the labels come from, and which channel reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from realm.channels import Channel, IdentityChannel, MixtureChannel
from realm.crowd.aggregation import aggregate
from realm.crowd.mixture_weights import solve
from realm.data import Annotations
from realm.errors import RealmError

UNKNOWN = -1


@dataclass(frozen=True)
class TrainingLabels:
    """What a method trains on: the same items, its own annotations, its own channel, and what to tell the user."""

    annotations: Annotations
    channel: Channel
    warnings: list[str]


def training_labels(
    annotations: Annotations, method: str, *, seed: int = 0, start: float = 0.0, use_gold: bool = False
) -> TrainingLabels:
    """The labels and the channel of a method. Gold is dropped here unless `use_gold` (or `oracle`) asks for it."""
    gold = annotations.gold
    if (use_gold or method == "oracle") and (gold is None or not (gold != UNKNOWN).any()):
        flag = "--use-gold" if use_gold else "--method oracle"
        raise RealmError(f"{flag} needs gold labels, and the table has none. Name the column: --gold.")
    table = annotations if use_gold else annotations.without_gold()
    if method == "oracle":
        assert gold is not None
        missing = int((gold == UNKNOWN).sum())
        note = [f"oracle: {missing:,} of {table.n_items:,} items have no gold label and are left out."] * bool(missing)
        return TrainingLabels(one_label_each(table, gold), IdentityChannel(), note)
    if table.n_annotations == 0:
        raise RealmError("the table has no annotations to train on.")
    if method == "realm":
        channel = MixtureChannel(table.n_annotators, len(table.tasks), start)
        if use_gold:
            _start_from_gold(channel, table)
        return TrainingLabels(table, channel, _identifiability(table))
    if use_gold and gold is not None:  # without a channel, gold takes the place of what was said of the item
        table = table.keep_annotations(gold[table.item] == UNKNOWN)
    if method == "noisy":
        return TrainingLabels(table, IdentityChannel(), [])
    result = aggregate(table, method, seed=seed)
    return TrainingLabels(
        replace(one_label_each(table, result.labels), gold=table.gold), IdentityChannel(), list(result.warnings)
    )


def _start_from_gold(channel: MixtureChannel, table: Annotations) -> None:
    """Expertise starts at its estimate on the gold items alone, for those who labelled any."""
    import torch

    assert table.gold is not None
    known = table.gold[table.item] != UNKNOWN
    item, tasks = table.item[known], len(table.tasks)
    cell = table.annotator[known].astype(np.int64) * tasks + table.item_tasks[item]
    right = (table.label[known] == table.gold[item]).astype(np.float64)
    beta = solve(right, 1.0 / table.option_counts[item], cell, table.n_annotators * tasks)
    met = np.bincount(cell, minlength=len(beta)) > 0
    channel.place(torch.from_numpy(np.where(met, beta, np.nan).reshape(-1, tasks)))


def one_label_each(table: Annotations, labels: np.ndarray) -> Annotations:
    """The same items with one annotation each, by one nameless annotator; items with label -1 have none."""
    known = np.flatnonzero(labels != UNKNOWN).astype(np.int32)
    return replace(
        table,
        annotators=("aggregate",),
        item=known,
        annotator=np.zeros(len(known), dtype=np.int32),
        label=labels[known].astype(np.int32),
        gold=None,
    )


def _identifiability(table: Annotations) -> list[str]:
    notes = []
    if table.n_annotators == 1:
        notes.append("there is a single annotator: expertise cannot be identified, only how sharp the model is.")
    elif int(table.annotations_per_item.max(initial=0)) <= 1:
        notes.append("every item has one annotation: expertise is known up to scale only, and is marked relative.")
    return notes
