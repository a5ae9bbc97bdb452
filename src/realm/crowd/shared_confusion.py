"""What all annotators of a task take for what, beyond their habits.

A habit does not depend on the truth: who takes one label for its neighbour, as annotators of ordered labels all do, has
none that explains it. One matrix for each task of three labels or more says how much more often than their habits have
it the label y is given where k is true,

    E[a, k] = log P(label | k is true, by habit) + log ratio[k, label]

It is shared by all annotators of the task, so that a few hundred labels tell it; where annotators have few labels it is
near 1. A matrix for each annotator would need a hundred labels of each true one.
"""

from __future__ import annotations

import numpy as np

from realm.crowd.coin import TINY
from realm.crowd.evidence import Floats, label_positions, log_softmax_rows
from realm.crowd.habit import Habit
from realm.data import Annotations

FEWEST = 3
"""Labels from which on there is something to confuse: of two, a habit says all."""
ROUNDS = 3
"""Times that the matrix and the posterior are fitted in turn: the third hardly moves either."""
STRENGTH = 50.0
"""Labels of each true one that the habits alone are worth against the matrix."""


def shared_confusions(annotations: Annotations, log_probs: Floats, habit: Habit, parameters: Floats) -> Floats:
    """log ratio[k, label] of each task, 0 where it has fewer than three labels or items list options of their own.

    `log_probs` (items, Kmax) is the prior of every item, `parameters` (pairs, 1 + Kmax) are the habits under which it
    is so. Shape (tasks, Kmax, Kmax).
    """
    width = log_probs.shape[1]
    ratios = np.zeros((len(annotations.tasks), width, width))
    sizes = [0 if task.labels is None else len(task.labels) for task in annotations.tasks]
    tasks = [task for task, size in enumerate(sizes) if size >= FEWEST]
    if not tasks:
        return ratios
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    sums = habit.evidence(parameters).item_sums(label_positions(annotations, width), log_probs.shape)
    beta, xi, of_task = parameters[:, 0], parameters[:, 1:], annotations.item_tasks[annotations.item]
    for _ in range(ROUNDS):
        posterior = np.exp(log_softmax_rows(log_probs + sums + confusion_sums(annotations, ratios)))
        for task in tasks:
            rows, n = np.flatnonzero(of_task == task), sizes[task]
            truth = posterior[annotations.item[rows], :n] * weight[rows, None]
            by_label, by_pair = (
                np.stack([np.bincount(key[rows], column, minlength=size) for column in truth.T])
                for key, size in ((annotations.label, n), (habit.pair, habit.n_pairs))
            )  # truth x label, truth x pair
            expected = (by_pair * (1 - beta)) @ xi[:, :n]
            expected[np.diag_indices(n)] += by_pair @ beta
            expected = np.maximum(expected, TINY)
            prior = STRENGTH * expected / expected.sum(axis=1, keepdims=True)
            ratios[task, :n, :n] = np.log((by_label + prior) / (expected + prior))
    return ratios


def confusion_sums(annotations: Annotations, ratios: Floats) -> Floats:
    """What the shared confusions of an item's annotations say for each option. Shape (items, Kmax)."""
    shape = (annotations.n_items, ratios.shape[1])
    if not ratios.any():
        return np.zeros(shape)
    counts = np.bincount(label_positions(annotations, shape[1]), annotations.weight, minlength=shape[0] * shape[1])
    counts = counts.reshape(shape).astype(np.float64)
    sums = np.zeros(shape)
    for task in np.flatnonzero(ratios.any(axis=(1, 2))):
        items = annotations.item_tasks == task
        sums[items] = counts[items] @ ratios[task].T
    return sums


def evidence_of_labels(annotations: Annotations, habit: Habit, parameters: Floats, ratios: Floats) -> Floats:
    """E[a, k] of habits and shared confusions, without weights. Shape (annotations, Kmax)."""
    own, other = (np.log(part).reshape(-1)[habit.row] for part in habit.label_probabilities(parameters))
    evidence = np.where(np.arange(ratios.shape[1]) == annotations.label[:, None], own[:, None], other[:, None])
    if ratios.any():
        evidence = evidence + ratios[annotations.item_tasks[annotations.item], :, annotations.label]
    return np.asarray(evidence)
