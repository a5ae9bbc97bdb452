"""What the labels say of an item: those of everybody else than the annotator at hand, and those of some annotators.

Every screen asks it here, of the one model (`realm.crowd.estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.engine import Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate, item_sums
from realm.data.annotations import UNKNOWN, Annotations


@dataclass(frozen=True, eq=False)
class Others:
    """The truth of each annotation's item by everything but the annotation and its copies. Shapes (annotations,).

    `truth` is its most probable label (-1 where nobody else labelled the item), `confidence` the probability of that,
    and `right` the probability that the annotation's own label is the true one (both NaN there).
    """

    truth: Ints
    confidence: Floats
    right: Floats


def judged_by_others(annotations: Annotations, estimate: Estimate) -> Others:
    """Judge every annotation without itself."""
    log_posterior = estimate.without_own(annotations)
    rows, alone = np.arange(len(log_posterior)), annotations.annotations_per_item[annotations.item] < 2
    truth = log_posterior.argmax(axis=1)
    confidence, right = (np.exp(log_posterior[rows, label]) for label in (truth, annotations.label))
    truth[alone] = UNKNOWN
    confidence[alone] = right[alone] = np.nan
    return Others(truth, confidence, right)


def posterior_of_labels(annotations: Annotations, estimate: Estimate) -> Floats:
    """P(truth) of every item by these annotations alone, some or all of those estimated. Shape (items, Kmax)

    No model of the items has a say: the prior is the class shares of the task. Shared mistakes are not allowed for.
    """
    tau = estimate.exponent[annotations.item_tasks[annotations.item]]
    weight = tau if annotations.weight is None else tau * annotations.weight
    scores = item_sums(estimate.evidence(annotations) * weight[:, None], annotations)
    task, posterior = annotations.item_tasks, estimate.posterior
    totals = 1 + np.stack([np.bincount(task, column, minlength=len(annotations.tasks)) for column in posterior.T], 1)
    inside = np.arange(posterior.shape[1]) < annotations.option_counts[:, None]
    log_shares = np.log(totals / totals.sum(axis=1, keepdims=True))
    return np.exp(log_softmax(np.where(inside, log_shares[task] + scores, -np.inf)))
