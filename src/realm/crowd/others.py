"""What the others say of an item: the posterior of each annotation's item without that annotation.

Every screen of annotators asks it here, of the one model (`realm.crowd.estimate`). A model of the items has no say: the
prior is the class shares of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import leave_one_out
from realm.crowd.copies import CopyPair, witness_weights
from realm.crowd.engine import Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError


@dataclass(frozen=True, eq=False)
class Others:
    """The truth of each annotation's item by the item's other annotations. Shapes (annotations,).

    `truth` is its most probable label (-1 where nobody else labelled it), `confidence` the probability of that, and
    `right` the probability that the annotation's own label is the true one (both NaN there).
    """

    truth: Ints
    confidence: Floats
    right: Floats


def judged_by_others(annotations: Annotations, estimate: Estimate, copies: Sequence[CopyPair] = ()) -> Others:
    """Judge every annotation by the others of its item; annotators who copy from each other count as one."""
    weight = annotation_weights(annotations, copies) * estimate.exponent[annotations.item_tasks[annotations.item]]
    log_posterior = leave_one_out(
        log_class_shares(annotations, estimate), estimate.evidence(annotations), annotations.item, weight, 1.0
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
    weight = annotation_weights(annotations) * estimate.exponent[annotations.item_tasks[annotations.item]]
    scores = log_class_shares(annotations, estimate)
    evidence = estimate.evidence(annotations)
    for option in range(scores.shape[1]):
        scores[:, option] += np.bincount(annotations.item, weight * evidence[:, option], minlength=len(scores))
    return np.exp(log_softmax(scores))


def annotation_weights(annotations: Annotations, copies: Sequence[CopyPair] = ()) -> Floats:
    """How much each annotation counts: its own weight, divided by the copies that say the same. (annotations,)"""
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    shared = witness_weights(annotations, list(copies)) if copies else None
    return np.asarray(weight if shared is None else weight * shared, dtype=np.float64)


def log_class_shares(annotations: Annotations, estimate: Estimate) -> Floats:
    """The log of the mean posterior of each item's task, -inf beyond the item's options. Shape (items, Kmax)"""
    posterior, task = estimate.posterior, annotations.item_tasks
    totals = np.stack(
        [np.bincount(task, column, minlength=len(annotations.tasks)) for column in posterior.T], axis=1
    ).astype(np.float64)
    shares = (totals + 1) / (totals + 1).sum(axis=1, keepdims=True)
    inside = np.arange(posterior.shape[1]) < annotations.option_counts[:, None]
    return np.where(inside, np.log(shares)[task], -np.inf)


def pairs_of(annotations: Annotations) -> Ints:
    """The (annotator, task) pair of each annotation, annotator * tasks + task. Shape (annotations,)"""
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    return annotations.annotator.astype(np.int64) * len(annotations.tasks) + task


def check_log_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """log_probs normalised over each item's own options, -inf beyond them. Shape (items, Kmax), float64."""
    scores = np.asarray(log_probs, dtype=np.float64)
    counts = annotations.option_counts
    widest = int(counts.max(initial=0))
    if scores.ndim != 2 or scores.shape[0] != annotations.n_items or scores.shape[1] < widest:
        raise RealmError(
            f"`log_probs` must have shape ({annotations.n_items}, {widest}): a row per item, a column per option; "
            f"it has {scores.shape}."
        )
    scores = np.where(np.arange(scores.shape[1]) < counts[:, None], scores, -np.inf)
    if np.isnan(scores).any() or (scores == np.inf).any() or (scores.max(axis=1, initial=-np.inf) == -np.inf).any():
        raise RealmError("`log_probs`: every item needs one option with a finite log-probability, and no NaN.")
    return log_softmax(scores) if scores.size else scores
