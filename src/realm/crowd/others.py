"""What the labels say of an item: all of them, and those of everybody else than the annotator at hand.

Every screen of annotators asks it here, of the one model (`realm.crowd.estimate`). A model of the items has no say in
these: the prior is the class shares of the task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.accuracy import leave_one_out
from realm.crowd.engine import Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate
from realm.crowd.shared_mistakes import SharedMistakes
from realm.data.annotations import UNKNOWN, Annotations


@dataclass(frozen=True, eq=False)
class Others:
    """The truth of each annotation's item by the item's other annotations. Shapes (annotations,).

    `truth` is its most probable label (-1 where nobody else labelled it), `confidence` the probability of that, and
    `right` the probability that the annotation's own label is the true one (both NaN there).
    """

    truth: Ints
    confidence: Floats
    right: Floats


def judged_by_others(annotations: Annotations, estimate: Estimate, weight: Floats | None = None) -> Others:
    """Judge every annotation by the others of its item.

    `weight` (annotations,) is how much each counts where annotators copy (`AnnotatorModel.weight`): the copies of a
    label are left out with it.
    """
    own = _weights(annotations)
    tau = estimate.exponent[annotations.item_tasks[annotations.item]]
    log_posterior = leave_one_out(
        log_class_shares(annotations, estimate),
        estimate.evidence(annotations),
        annotations.item,
        tau * (own if weight is None else weight),
        own=tau * own,
    )
    rows, alone = np.arange(len(log_posterior)), annotations.annotations_per_item[annotations.item] < 2
    truth = log_posterior.argmax(axis=1)
    confidence, right = (np.exp(log_posterior[rows, label]) for label in (truth, annotations.label))
    truth[alone] = UNKNOWN
    confidence[alone] = right[alone] = np.nan
    return Others(truth, confidence, right)


def posterior_of_labels(annotations: Annotations, estimate: Estimate) -> Floats:
    """P(truth) of every item by these annotations alone, shared mistakes not allowed for. Shape (items, Kmax)

    `annotations` may be some of those that were estimated.
    """
    return np.exp(log_softmax(log_class_shares(annotations, estimate) + label_scores(annotations, estimate)))


def posterior_of_annotators(annotations: Annotations, estimate: Estimate) -> Floats:
    """P(what annotators see) of every item given everything: the posterior before shared mistakes. (items, Kmax)

    The stored posterior is the item's prior times a likelihood that allows for them; in its place comes that without.
    """
    scores = label_scores(annotations, estimate)
    out = np.empty_like(scores)
    for task, error in enumerate(estimate.shared_error.tolist()):
        items = np.flatnonzero(annotations.item_tasks == task)
        shared = SharedMistakes(error, 1 - error).likelihood(scores[items], annotations.option_counts[items])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_posterior = np.log(estimate.posterior[items])
            out[items] = np.where(np.isinf(log_posterior), -np.inf, log_posterior - shared + scores[items])
    return np.exp(log_softmax(out)) if out.size else out


def label_scores(annotations: Annotations, estimate: Estimate) -> Floats:
    """tau times the summed evidence of each item's labels. Shape (items, Kmax)"""
    weight = _weights(annotations) * estimate.exponent[annotations.item_tasks[annotations.item]]
    evidence = estimate.evidence(annotations)
    sums = [np.bincount(annotations.item, weight * column, minlength=annotations.n_items) for column in evidence.T]
    return np.stack(sums, axis=1).astype(np.float64)


def log_class_shares(annotations: Annotations, estimate: Estimate) -> Floats:
    """The log of the mean posterior of each item's task, -inf beyond the item's options. Shape (items, Kmax)"""
    posterior, task = estimate.posterior, annotations.item_tasks
    totals = np.stack([np.bincount(task, column, minlength=len(annotations.tasks)) for column in posterior.T], axis=1)
    shares = (totals + 1) / (totals + 1).sum(axis=1, keepdims=True)
    inside = np.arange(posterior.shape[1]) < annotations.option_counts[:, None]
    return np.where(inside, np.log(shares)[task], -np.inf)


def _weights(annotations: Annotations) -> Floats:
    return np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight.astype(np.float64)
