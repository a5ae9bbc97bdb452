"""Labels counted against a truth: confusion matrix, precision, recall, F1 and macro-F1, and what each annotator gave.

All figures are read off the confusion matrix, M[t, a] = how many items of true label t were answered a. Of label k

    precision = M[k, k] / sum_t M[t, k]      recall = M[k, k] / sum_a M[k, a]      F1 = 2 M[k, k] / (row k + column k)

and each is undefined (NaN) where it would divide by nothing: a label that was never answered has no precision, one that
is never true has no recall. Macro-F1 is the mean of the F1s that are defined, as scikit-learn averages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Bools, Floats, Ints
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError

Labels = npt.NDArray[np.integer]


def count_rows(*columns: Labels) -> tuple[list[Ints], Ints, Ints]:
    """The distinct rows of columns (n,), sorted, column by column; which of them each row is (n,); and their counts."""
    shape = [int(column.max(initial=0)) + 1 for column in columns]
    keys = np.ravel_multi_index([column.astype(np.int64) for column in columns], shape)
    distinct, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return [each.astype(np.int64) for each in np.unravel_index(distinct, shape)], place, counts.astype(np.int64)


class LabelFigures(NamedTuple):
    """Figures of every label. Shapes (labels,); NaN where undefined."""

    precision: Floats
    recall: Floats
    f1: Floats
    support: Ints
    answered: Ints


def confusion_matrix(truth: Labels, answer: Labels, n_labels: int) -> Ints:
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


# -------------------------------------------------------------------- every annotator's labels against a truth


@dataclass(frozen=True, eq=False)
class ConfusionCounts:
    """How often each annotator gave which label where which is true. Shapes (kinds,), sorted by pair.

    `pair` is annotator * tasks + task; kinds that do not occur have no row. `width` is Kmax.
    """

    pair: Ints
    truth: Ints
    given: Ints
    count: Ints
    width: int
    n_tasks: int

    def matrix(self, pair: int) -> Ints:
        """The counts of a pair: true label (row) by label given (column). Shape (Kmax, Kmax)"""
        rows = slice(*np.searchsorted(self.pair, [pair, pair + 1]))
        counts = np.zeros((self.width, self.width), np.int64)
        counts[self.truth[rows], self.given[rows]] = self.count[rows]
        return counts

    def totals(self, *columns: str, among: Bools | bool = True) -> Ints:
        """Of each row, the sum over all rows of its task that have the same values of these columns. Shape (kinds,)"""
        _, place, _ = count_rows(self.pair % self.n_tasks, *(getattr(self, name) for name in columns))
        return np.bincount(place, self.count * among).astype(np.int64)[place]


def count_confusions(annotations: Annotations, truth: Labels) -> ConfusionCounts:
    """What each annotator gave against `truth` (annotations,): the label of the item, -1 where it is not known."""
    rows = np.flatnonzero(truth != UNKNOWN)
    kinds, _, counts = count_rows(pairs_of(annotations)[rows], truth[rows], annotations.label[rows])
    pair, true_label, given = kinds
    width = int(annotations.option_counts.max(initial=1))
    return ConfusionCounts(pair, true_label, given, counts, width, len(annotations.tasks))


def share_right(annotations: Annotations, truth: Labels) -> tuple[Floats, Ints]:
    """The share of each annotator's labels that equal `truth` (items,), NaN for none, and how many are compared.

    -1 where the truth of an item is not known. Shapes (annotators, tasks).
    """
    shape = (annotations.n_annotators, len(annotations.tasks))
    of_item = truth[annotations.item]
    compared, right = (
        np.bincount(pairs_of(annotations), mask, minlength=shape[0] * shape[1]).reshape(shape)
        for mask in (of_item != UNKNOWN, of_item == annotations.label)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(right / compared), compared.astype(np.int64)


def accuracy_by_gold(annotations: Annotations) -> tuple[Floats, Ints]:
    """The share of each annotator's labels that equal gold (NaN for none), and how many have gold.

    Shapes (annotators, tasks).
    """
    if annotations.gold is None:
        raise RealmError("realised accuracies need gold.")
    return share_right(annotations, annotations.gold)
