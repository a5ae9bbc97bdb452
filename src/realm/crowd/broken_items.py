"""Items that look broken: their reliable annotators contradict each other more than their accuracies explain.

No model has a say: an item on which a model alone is wrong is not broken. With e_a the error rate of each reliable
annotator of the item, and m of their labels against the label that they together find most probable, an item is as
improbable as

    P(m errors or more),   errors independent, each with its own e_a (a Poisson-binomial tail).

Reliable annotators who contradict each other improbably point to an item that is ambiguous, cut off, or does not fit
the options, or to instructions that do not say what to do with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Bools, Floats, Indices, posterior
from realm.crowd.tables import VERDICTS, verdicts
from realm.data.annotations import Annotations

LEVEL = 0.01
"""How improbable the contradiction must be: by chance fewer than one item in a hundred."""
LEAST_AGAINST = 2
"""Reliable labels against the others: one may be a slip."""


@dataclass(frozen=True, eq=False)
class BrokenItems:
    """Items that look broken, the least probable first. Shapes (items found,).

    | field | meaning |
    |---|---|
    | items | rows of the table |
    | probability | of so many errors or more, were the item like any other |
    | reliable, against | labels by reliable annotators, and how many of them are against the label they find together |
    """

    items: Indices
    probability: Floats
    against: Indices
    reliable: Indices


def broken_items(annotations: Annotations, estimate: Estimate) -> BrokenItems:
    """Items whose reliable annotators contradict each other more than their accuracies explain."""
    task = annotations.item_tasks[annotations.item]
    reliable = (verdicts(annotations, estimate) == VERDICTS.index("reliable"))[annotations.annotator, task]
    table = annotations.keep_annotations(reliable)
    width = estimate.posterior.shape[1]
    uniform = np.where(np.arange(width) < table.option_counts[:, None], 0.0, -np.inf)
    together = posterior(table, uniform, estimate.evidence(table)).argmax(axis=1)
    against = np.bincount(table.item, together[table.item] != table.label, minlength=table.n_items).astype(np.int64)
    items = np.flatnonzero(against >= LEAST_AGAINST)
    error = 1 - estimate.accuracy[table.annotator, table.item_tasks[table.item]]
    probability = errors_or_more(table, error, against, items)
    improbable: Bools = probability < LEVEL
    items, probability = items[improbable], probability[improbable]
    order = np.lexsort((items, probability))
    items = items[order]
    return BrokenItems(items, probability[order], against[items], table.annotations_per_item[items].astype(np.int64))


def errors_or_more(annotations: Annotations, error: Floats, least: Indices, items: Indices) -> Floats:
    """P(`least` errors or more) among the annotations of each of `items`, every one wrong with its own probability.

    `error` is (annotations,), `least` (items of the table,); the result has the shape of `items`.
    """
    counts = annotations.annotations_per_item[items]
    starts = annotations.offsets[items]
    most = int(counts.max(initial=0))
    # distribution of the number of errors, one annotation after another; (items, most + 1)
    errors = np.zeros((len(items), most + 1))
    errors[:, 0] = 1.0
    for place in range(most):
        rows = counts > place
        wrong = np.zeros(len(items))
        wrong[rows] = error[starts[rows] + place]
        more = errors[:, :-1] * wrong[:, None]
        errors *= 1 - wrong[:, None]
        errors[:, 1:] += more
    below = np.where(np.arange(most + 1) < least[items][:, None], errors, 0.0).sum(axis=1)
    return np.asarray(np.clip(1 - below, 0.0, 1.0))
