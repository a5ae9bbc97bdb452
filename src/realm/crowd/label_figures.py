"""Figures of answers against the truth, label by label: confusion matrix, precision, recall, F1, and macro-F1.

All are read off the confusion matrix, M[t, a] = how many items of true label t were answered a. Of label k

    precision = M[k, k] / sum_t M[t, k]      recall = M[k, k] / sum_a M[k, a]      F1 = 2 M[k, k] / (row k + column k)

and each is undefined (NaN) where it would divide by nothing: a label that was never answered has no precision, one that
is never true has no recall. Macro-F1 is the mean of the F1s that are defined, as scikit-learn averages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Floats, Ints
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError

Labels = npt.NDArray[np.integer]
Counts = npt.NDArray[np.int64]


class LabelFigures(NamedTuple):
    """Figures of every label. Shapes (labels,); NaN where undefined."""

    precision: Floats
    recall: Floats
    f1: Floats
    support: Counts
    answered: Counts


def confusion_matrix(truth: Labels, answer: Labels, n_labels: int) -> Counts:
    """How many items of each true label (row) were given each answer (column). Shape (labels, labels)."""
    positions = truth.astype(np.int64) * n_labels + answer
    return np.bincount(positions, minlength=n_labels * n_labels).reshape(n_labels, n_labels)


def label_figures(truth: Labels, answer: Labels, n_labels: int) -> LabelFigures:
    """Precision, recall, F1 and counts of each of the labels 0 to `n_labels` - 1."""
    hits, support, answered = (
        np.bincount(labels, minlength=n_labels).astype(np.int64) for labels in (truth[truth == answer], truth, answer)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return LabelFigures(hits / answered, hits / support, 2 * hits / (support + answered), support, answered)


def macro_f1(truth: Labels, answer: Labels) -> float:
    """Mean F1 over the labels that occur in either, as scikit-learn averages."""
    n_labels = int(max(truth.max(), answer.max())) + 1
    return float(np.nanmean(label_figures(truth, answer, n_labels).f1))


def rarest_label(truth: Labels) -> int:
    """The true label with the fewest items; the first of several."""
    counts = np.bincount(truth)
    return int(np.where(counts > 0, counts, len(truth) + 1).argmin())


def rarest_recall(truth: Labels, answer: Labels) -> float:
    """Share of the items of the rarest true label that are found: what accuracy hides where labels are uneven."""
    rarest = rarest_label(truth)
    return float(np.mean(answer[truth == rarest] == rarest))


def base_rate(truth: Labels, task: Labels) -> float:
    """Accuracy of always giving a task's most frequent true label. `truth` and `task` are (items,)."""
    right = sum(int(np.bincount(truth[task == each]).max()) for each in np.unique(task))
    return right / len(truth)


def main_mistake(matrix: npt.ArrayLike, label: int) -> tuple[int, float] | None:
    """The wrong answer that a label is given most often and its share of the label's items; None without mistakes.

    `matrix` is the confusion matrix, (labels, labels).
    """
    row = np.asarray(matrix, dtype=np.float64)[label]
    wrong = np.where(np.arange(len(row)) == label, 0.0, row)
    most = int(wrong.argmax())
    return (most, float(wrong[most] / row.sum())) if wrong[most] else None


def accuracy_by_gold(annotations: Annotations) -> tuple[Floats, Ints]:
    """The share of each annotator's labels that equal gold (NaN for none), and how many have gold.

    Shapes (annotators, tasks).
    """
    if annotations.gold is None:
        raise RealmError("realised accuracies need gold.")
    shape = (annotations.n_annotators, len(annotations.tasks))
    gold, pair = annotations.gold[annotations.item], pairs_of(annotations)
    total, correct = (
        np.bincount(pair, mask, minlength=shape[0] * shape[1]).reshape(shape)
        for mask in (gold != UNKNOWN, (gold != UNKNOWN) & (gold == annotations.label))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(correct / total, dtype=np.float64), total.astype(np.int64)
