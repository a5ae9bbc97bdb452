"""Annotators who take one label for another: `positive` answered `neutral`, by one person and not by all.

An item counts as k where its other annotators find k more probable than not. (Sums of probabilities in place of counts
take a rare label for confused where nothing is: of many sure items a little each is much of it.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.drift import LEVEL, false_discoveries
from realm.crowd.engine import Bools, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.others import Others
from realm.data.annotations import Annotations

MORE_PROBABLE_THAN_NOT = 0.5
LEAST_ITEMS, LEAST_MISTAKES = 10, 5
"""Items of a label, and times that another was given to them, before anything is said."""
EXCESS = 0.1
"""How much more often than expected: ten points, below which nobody would change the instructions."""


@dataclass(frozen=True)
class ConfusedLabel:
    """An annotator answered `given` for `times` of `of` items that are `truth`, a `share` of them; `others` is that of
    everybody else."""

    annotator: int
    task: int
    truth: int
    given: int
    times: int
    of: int
    share: float
    others: float


@dataclass(frozen=True, eq=False)
class ConfusionCounts:
    """How often each annotator gave which label where which is true. Shapes (kinds,), sorted by pair.

    `pair` is annotator * tasks + task; kinds that do not occur have no row.
    """

    pair: Ints
    truth: Ints
    given: Ints
    count: Ints
    width: int
    n_tasks: int

    def matrix(self, pair: int) -> Ints:
        """The counts of a pair: true label (row) by label given (column). Shape (Kmax, Kmax)"""
        start, stop = np.searchsorted(self.pair, [pair, pair + 1])
        counts = np.zeros((self.width, self.width), np.int64)
        counts[self.truth[start:stop], self.given[start:stop]] = self.count[start:stop]
        return counts

    def totals(self, *columns: str, among: Bools | None = None) -> Ints:
        """Of each row the sum over all rows of its task with the same values of these columns. Shape (kinds,)

        `among` (kinds,) says which rows are summed; all, unless it is given.
        """
        key = self.pair % self.n_tasks
        for name in columns:
            values = getattr(self, name)
            key = key * (int(values.max(initial=0)) + 1) + values
        _, place = np.unique(key, return_inverse=True)
        values = self.count if among is None else self.count * among
        return np.bincount(place, values).astype(np.int64)[place]


def count_confusions(annotations: Annotations, truth: npt.NDArray[np.integer]) -> ConfusionCounts:
    """What each annotator gave against `truth` (annotations,): the label of the item, -1 where it is not known."""
    width = int(annotations.option_counts.max(initial=1))
    rows = np.flatnonzero(np.asarray(truth) >= 0)
    key = (pairs_of(annotations)[rows] * width + truth[rows]) * width + annotations.label[rows]
    kinds, counts = np.unique(key, return_counts=True)
    rest, given = np.divmod(kinds, width)
    pair, true_label = np.divmod(rest, width)
    return ConfusionCounts(pair, true_label, given, counts.astype(np.int64), width, len(annotations.tasks))


def confused_labels(annotations: Annotations, estimate: Estimate, others: Others) -> list[ConfusedLabel]:
    """Who takes which label for which beyond chance, over all annotators, tasks and labels; the largest share first.

    The share of an annotator's items of a label that were given another one is compared with the largest of how often
    the others give it; how often the annotator would by habit, (1 - b) xi; and how often they would if their errors
    were spread as the others' are: neither who guesses nor who errs often, as all do, confuses anything in particular.
    What is said of the others goes by the cleaned labels: an item of two labels, judged without one of them, is often
    judged wrong. Tasks whose items list their own options have none.
    """
    options = np.array([len(task.labels or ()) for task in annotations.tasks])
    clear = (options[annotations.item_tasks[annotations.item]] > 0) & (others.confidence > MORE_PROBABLE_THAN_NOT)
    counts = count_confusions(annotations, np.where(clear, others.truth, -1))
    annotator, task = np.divmod(counts.pair, counts.n_tasks)
    times, of = counts.count, counts.totals("pair", "truth")
    other_of = counts.totals("truth") - of
    other_times = counts.totals("truth", "given") - times
    is_right = counts.truth == counts.given
    other_hits = counts.totals("truth", among=is_right) - counts.totals("pair", "truth", among=is_right)
    # one error of each kind in addition: others who never err say little of what an error would be
    spread = (other_times + 1) / (other_of - other_hits + np.maximum(options[task] - 1, 1))
    by_habit = (1 - estimate.expertise[annotator, task]) * estimate.habits[annotator, task, counts.given]
    expected = np.maximum(other_times / np.maximum(other_of, 1), by_habit)
    expected = np.clip(np.maximum(expected, (1 - estimate.accuracy[annotator, task]) * spread), 0.0, 1.0)
    is_tested = (of >= LEAST_ITEMS) & (other_of >= LEAST_ITEMS)
    is_frequent = (times >= LEAST_MISTAKES) & (times / of - expected > EXCESS)
    rows = np.flatnonzero(is_tested & is_frequent & ~is_right)
    is_first = np.diff(counts.pair * counts.width + counts.truth, prepend=-1) > 0
    if not len(rows):
        return []
    from scipy.stats import binom, hypergeom  # half a second

    by_expectation = binom.sf(times[rows] - 1, of[rows], expected[rows])
    by_others = hypergeom.sf(times[rows] - 1, (of + other_of)[rows], (times + other_times)[rows], of[rows])
    # a test for every other label of each annotator's label with enough items, few of which have a row
    n_tests = int((options[task] - 1)[is_tested & is_first].sum())
    rows = rows[false_discoveries(np.maximum(by_expectation, by_others), LEVEL, n_tests)]
    cleaned = count_confusions(annotations, estimate.posterior.argmax(axis=1)[annotations.item])
    confused = [
        ConfusedLabel(
            int(annotator[row]), int(task[row]), int(counts.truth[row]), int(counts.given[row]), int(times[row]),
            int(of[row]), float(times[row] / of[row]), _share_of_others(cleaned, counts, row),
        )
        for row in rows.tolist()
    ]  # fmt: skip
    return sorted(confused, key=lambda each: -each.share)


def _share_of_others(cleaned: ConfusionCounts, counts: ConfusionCounts, row: int) -> float:
    """How often everybody else gave the label of this row of `counts`, where the cleaned label is its truth."""
    pair, n_tasks = counts.pair[row], counts.n_tasks
    others = (cleaned.pair % n_tasks == pair % n_tasks) & (cleaned.pair != pair) & (cleaned.truth == counts.truth[row])
    given = others & (cleaned.given == counts.given[row])
    return float(cleaned.count[given].sum() / max(int(cleaned.count[others].sum()), 1))
