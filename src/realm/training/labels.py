"""What a method trains on: the annotations, one aggregated label per item, or gold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from realm.channels import Channel, IdentityChannel, MixtureChannel
from realm.crowd.aggregation import aggregate
from realm.crowd.mixture_weights import solve
from realm.data import Annotations
from realm.errors import RealmError
from realm.methods import METHODS, RAW

UNKNOWN = -1


@dataclass(frozen=True)
class TrainingLabels:
    """What a method trains on: the same items, its own annotations, its own channel, and warnings for the user."""

    annotations: Annotations
    channel: Channel
    warnings: list[str]


def training_labels(
    annotations: Annotations, method: str, *, seed: int = 0, start: float = 0.0, use_gold: bool = False
) -> TrainingLabels:
    """The labels and the channel of a method. Gold is dropped here unless `use_gold` or the method needs it."""
    row = METHODS[method]
    gold = annotations.gold
    if (use_gold or row.needs_gold) and (gold is None or not (gold != UNKNOWN).any()):
        argument = "`use_gold`" if use_gold else f"`method={method}`"
        raise RealmError(f"{argument} needs gold labels, and the table has none. Name the column: `gold`.")
    table = annotations if use_gold else annotations.without_gold()
    if row.needs_gold:
        assert gold is not None
        missing = int((gold == UNKNOWN).sum())
        without = f"{method}: {missing:,} of {table.n_items:,} items have no gold label and are left out."
        return TrainingLabels(one_label_each(table, gold), IdentityChannel(), [without] if missing else [])
    if table.n_annotations == 0:
        raise RealmError("the table has no annotations to train on.")
    if row.learns_expertise:
        return TrainingLabels(table, _channel(table, start, use_gold), _identifiability(table))
    if use_gold and gold is not None:  # without expertise, gold takes the place of the item's annotations
        table = table.keep_annotations(gold[table.item] == UNKNOWN)
    if row.labels == RAW:
        return TrainingLabels(table, IdentityChannel(), [])
    assert row.aggregator is not None
    result = aggregate(table, row.aggregator, seed=seed)
    labels = replace(one_label_each(table, result.labels), gold=table.gold)
    return TrainingLabels(labels, IdentityChannel(), list(result.warnings))


def _channel(table: Annotations, start: float, use_gold: bool) -> Channel:
    """The channel of a method that learns expertise, at its starting values."""
    channel = MixtureChannel(table.n_annotators, len(table.tasks), start)
    if use_gold:
        _start_from_gold(channel, table)
    return channel


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
