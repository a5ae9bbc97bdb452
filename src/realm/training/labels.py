"""What a method trains on: the annotations, an aggregated label per item (hard or soft), or gold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from realm.crowd.aggregation import aggregate
from realm.data import Annotations
from realm.errors import RealmError
from realm.methods import METHODS, RAW

UNKNOWN = -1
LEAST_WEIGHT = 1e-3
"""An option less probable than this gets no soft label: a thousandth of an item, for as much to compute as the rest."""


class TrainingLabels(NamedTuple):
    """What a method trains on: the same items, its own annotations, and warnings for the user."""

    annotations: Annotations
    warnings: list[str]


def training_labels(annotations: Annotations, method: str, *, seed: int = 0, use_gold: bool = False) -> TrainingLabels:
    """The labels of a method. Gold is dropped here unless `use_gold` or the method needs it."""
    row, gold = METHODS[method], annotations.gold
    if (use_gold or row.needs_gold) and (gold is None or not (gold != UNKNOWN).any()):
        argument = "`use_gold`" if use_gold else f"`method={method}`"
        raise RealmError(f"{argument} needs gold labels, and the table has none. Name the column: `gold`.")
    table = annotations if use_gold else annotations.without_gold()
    if row.needs_gold:
        assert gold is not None
        missing = int((gold == UNKNOWN).sum())
        without = f"{method}: {missing:,} of {table.n_items:,} items have no gold label and are left out."
        return TrainingLabels(one_label_each(table, gold), [without] if missing else [])
    if table.n_annotations == 0:
        raise RealmError("the table has no annotations to train on.")
    if row.learns_expertise:
        return TrainingLabels(table, _identifiability(table))
    if use_gold and gold is not None:  # without expertise, gold takes the place of the item's annotations
        table = table.keep_annotations(gold[table.item] == UNKNOWN)
    if row.labels == RAW:
        return TrainingLabels(table, [])
    assert row.aggregator is not None
    result = aggregate(table, row.aggregator, seed=seed)
    labels = soft_labels(table, result.posterior) if row.soft else one_label_each(table, result.labels)
    return TrainingLabels(replace(labels, gold=table.gold), list(result.warnings))


def one_label_each(table: Annotations, labels: np.ndarray) -> Annotations:
    """The same items with one annotation each, by one nameless annotator; items with label -1 have none."""
    labelled = np.flatnonzero(labels != UNKNOWN)
    return _nameless(table, labelled, labels[labelled])


def soft_labels(table: Annotations, posterior: np.ndarray) -> Annotations:
    """The same items with an annotation for each probable option, weighted by its probability, (items, Kmax).

    Under the identity channel the loss is the cross-entropy between the posterior and P. The weights of an item sum to
    1, so that it counts as much as with a hard label; an item whose row is zero has no annotation.
    """
    probable = np.where(posterior >= LEAST_WEIGHT, posterior, 0.0)
    item, label = np.nonzero(probable)
    return _nameless(table, item, label, probable[item, label] / probable.sum(axis=1)[item])


def _nameless(table: Annotations, item: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> Annotations:
    """The same items with these annotations, all by one nameless annotator."""
    columns: dict[str, Any] = {"item": item.astype(np.int32), "label": label.astype(np.int32), "weight": weight}
    columns["annotator"] = np.zeros_like(columns["item"])
    columns |= dict.fromkeys(("source_rows", "created_at", "lead_time", "groups", "gold"))
    return replace(table, annotators=("aggregate",), **columns)


def _identifiability(table: Annotations) -> list[str]:
    if table.n_annotators == 1:
        return ["there is one annotator: expertise cannot be estimated."]
    if int(table.annotations_per_item.max(initial=0)) <= 1:
        return ["every item has one annotation: only ratios of expertise can be estimated, and it is marked relative."]
    return []
