"""Items to read oneself: reliable annotators contradict each other there, or the model.

Such an item may be ambiguous, cut off, or not fit the options, or the instructions may not say what to do with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.others import posterior_of_labels
from realm.crowd.tables import VERDICTS, OptionNames, item_summary, model_probs, verdicts
from realm.data.annotations import Annotations

if TYPE_CHECKING:
    import pandas as pd

CONFIDENT = 0.8
"""Model and annotators contradict each other where each gives this much to a different option: four to one."""
LEVEL = 0.01
"""How improbable the errors of a broken item must be: by chance fewer than one item in a hundred."""
LEAST_AGAINST = 2
"""Reliable labels against the others: one may be a slip."""


def reliable_posterior(annotations: Annotations, estimate: Estimate) -> tuple[Annotations, Floats]:
    """The annotations of those whose verdict is reliable, and P(truth) of every item by them alone. (items, Kmax)"""
    reliable = verdicts(annotations, estimate) == VERDICTS.index("reliable")
    table = annotations.keep_annotations(reliable[annotations.annotator, annotations.item_tasks[annotations.item]])
    return table, posterior_of_labels(table, estimate)


def contradictions(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate) -> pd.DataFrame:
    """Items on which the model is sure of one option and the reliable annotators together of another.

    Both give 0.8 or more. The annotators' side is the posterior without the model, over the labels of those whose
    verdict is reliable. Read the item: the model may be wrong, or the annotators may have made the same mistake; one
    more label tells little about which. With in-sample probabilities the model may have memorised the labels, and
    fewer items are found.

    Columns: item, task, text, context (where there is any), label, confidence, model, labels_given, annotations,
    model_confidence, annotators_say, annotators_confidence, conflict (the product of the two confidences); the sharpest
    first.
    """
    import pandas as pd

    model = model_probs(annotations, log_probs)
    _, annotators = reliable_posterior(annotations, estimate)
    label, confidence = model.argmax(axis=1), model.max(axis=1, initial=0.0)
    their_label, their_confidence = annotators.argmax(axis=1), annotators.max(axis=1, initial=0.0)
    order = np.flatnonzero((label != their_label) & (np.minimum(confidence, their_confidence) >= CONFIDENT))
    conflict = confidence * their_confidence
    order = order[np.argsort(-conflict[order], kind="stable")]
    return pd.DataFrame(
        {
            **item_summary(annotations, log_probs, estimate, order),
            "model_confidence": confidence[order],
            "annotators_say": OptionNames(annotations)(order, their_label[order]),
            "annotators_confidence": their_confidence[order],
            "conflict": conflict[order],
        }
    )


@dataclass(frozen=True, eq=False)
class BrokenItems:
    """Items that look broken, the least probable first. Shapes (items found,).

    | field | meaning |
    |---|---|
    | items | rows of the table |
    | probability | of so many errors or more, were the item like any other |
    | against, reliable | labels by reliable annotators against the label they find together, and all labels by them |
    """

    items: Ints
    probability: Floats
    against: Ints
    reliable: Ints


def broken_items(annotations: Annotations, estimate: Estimate) -> BrokenItems:
    """Items whose reliable annotators contradict each other more than their accuracies explain.

    As improbable as so many errors or more against the label that they together find most probable, errors being
    independent. No model has a say: an item on which a model alone is wrong is not broken.
    """
    table, posterior = reliable_posterior(annotations, estimate)
    wrong = posterior.argmax(axis=1)[table.item] != table.label
    against = np.bincount(table.item, wrong, minlength=table.n_items).astype(np.int64)
    items = np.flatnonzero(against >= LEAST_AGAINST)
    error = 1 - estimate.accuracy[table.annotator, table.item_tasks[table.item]]
    probability = errors_or_more(table, error, against, items)
    order = np.lexsort((items, probability))
    order = order[probability[order] < LEVEL]
    items = items[order]
    return BrokenItems(items, probability[order], against[items], table.annotations_per_item[items].astype(np.int64))


def errors_or_more(annotations: Annotations, error: Floats, least: Ints, items: Ints) -> Floats:
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
