"""Annotators who take one label for another: `positive` answered `neutral`, by one person and not by all.

An item counts as k where k is more probable than not without what the annotator's own label adds to the posterior, and
where others labelled it too; c[k, y] is how many such items an annotator gave y. (Sums of probabilities in place of
counts take a rare label for confused where nothing is: of many sure items a little each is much of it.) A confusion is
reported where c[k, y] / c[k] is clearly above all of

- how often the others answer y where k is true;
- how often the annotator would by habit, (1 - beta) xi(y): who guesses confuses nothing in particular;
- how often they would if their errors were spread as the others' errors on k are: who errs often, as all do, neither.

What is then said of the others goes by the cleaned labels: an item of two labels, judged without one of them, is often
judged wrong, and the others would look worse than they are.

With two labels the second leaves nothing to tell: the habit says it all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.coin import TINY
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Bools, Floats, Indices
from realm.crowd.peers import EXCESS, LEAST_MISTAKES
from realm.crowd.shared_confusion import FEWEST
from realm.crowd.suspects import CHANCE, FEW
from realm.data import Annotations

MORE_PROBABLE_THAN_NOT = 0.5


@dataclass(frozen=True)
class ConfusedLabel:
    """Of the items that are `truth` an annotator answers `given` for this `share`, and the `others` for theirs."""

    annotator: int
    task: int
    truth: int
    given: int
    share: float
    others: float

    def in_words(self, annotations: Annotations) -> str:
        """ "answers `neutral` for 62% of the items that are `positive`, as others do for 9%" """
        labels = annotations.tasks[self.task].labels
        assert labels is not None
        return (
            f"answers `{labels[self.given]}` for {self.share:.0%} of the items that are `{labels[self.truth]}`, "
            f"as others do for {self.others:.0%}"
        )


def confused_labels(annotations: Annotations, estimate: Estimate) -> list[ConfusedLabel]:
    """Who takes which label for which beyond chance, over all annotators, tasks and labels; the largest share first.

    Tasks of two labels, and those whose items list their own options, have none.
    """
    candidates: list[_Candidates] = []
    n_tests = 0
    truth, is_clear = _judged_by_others(annotations, estimate)
    cleaned = estimate.posterior.argmax(axis=1)[annotations.item]
    is_clear &= annotations.annotations_per_item[annotations.item] > 1
    for task, each in enumerate(annotations.tasks):
        if each.labels is None or len(each.labels) < FEWEST:
            continue
        rows, n = np.flatnonzero(is_clear & (annotations.item_tasks[annotations.item] == task)), len(each.labels)
        people, person = np.unique(annotations.annotator[rows].astype(np.int64), return_inverse=True)
        shape = n, len(people), n
        counts, by_cleaned = (
            np.bincount(
                np.ravel_multi_index((true_label[rows], person, annotations.label[rows]), shape),
                minlength=int(np.prod(shape)),
            ).reshape(shape)
            for true_label in (truth, cleaned)
        )
        n_tests += int((counts.sum(axis=2) >= FEW).sum()) * (n - 1)
        candidates += [
            _candidates(counts[label], by_cleaned[label], label, task, people, estimate) for label in range(n)
        ]
    confused = [one for each in candidates if len(each.count) for one in each.beyond(CHANCE / max(n_tests, 1))]
    return sorted(confused, key=lambda one: -one.share)


def _judged_by_others(annotations: Annotations, estimate: Estimate) -> tuple[Indices, Bools]:
    """The most probable label of each annotation's item without the annotation, and whether it is more probable than
    not. Shapes (annotations,).

    Evidence tells an annotation's label from the other options, and those not from each other: without it the best of
    the others is what it was, and only the odds of the two change.
    """
    item, label = annotations.item, annotations.label.astype(np.int64)
    rows = np.arange(annotations.n_items)
    first = estimate.posterior.argmax(axis=1)
    rest = estimate.posterior.copy()
    rest[rows, first] = -1.0
    second = rest.argmax(axis=1)
    own = estimate.posterior[item, label] * np.exp(-estimate.evidence(annotations).log_odds)
    other = np.where(label == first[item], second[item], first[item])
    best_other = estimate.posterior[item, other]
    total = np.maximum(1 - estimate.posterior[item, label] + own, TINY)
    return np.where(own >= best_other, label, other), np.maximum(own, best_other) / total > MORE_PROBABLE_THAN_NOT


@dataclass(frozen=True)
class _Candidates:
    """Confusions of one label of a task that are frequent enough to be tested. Shapes (candidates,).

    `count` of `of` items of theirs, `other_count` of `other_of` items of the others, who by the cleaned labels give it
    to `other_share`; `expected` is the highest share that needs no confusion.
    """

    task: int
    truth: int
    annotator: Indices
    given: Indices
    count: Indices
    of: Indices
    other_count: Indices
    other_of: Indices
    other_share: Floats
    expected: Floats

    def beyond(self, chance: float) -> list[ConfusedLabel]:
        """Those that luck produces more rarely than `chance`: by what is expected, and by the others' own labels."""
        from scipy.stats import binom, hypergeom

        against_others = hypergeom.sf(self.count - 1, self.of + self.other_of, self.count + self.other_count, self.of)
        by_luck = np.maximum(binom.sf(self.count - 1, self.of, self.expected), against_others)
        share, others = self.count / self.of, self.other_share
        return [
            ConfusedLabel(
                int(self.annotator[row]), self.task, self.truth, int(self.given[row]), share[row], others[row]
            )
            for row in np.flatnonzero(by_luck < chance).tolist()
        ]


def _candidates(
    counts: Indices, by_cleaned: Indices, truth: int, task: int, people: Indices, estimate: Estimate
) -> _Candidates:
    """From the labels that these people gave where this label is true: by the others, and by the cleaned labels.

    Shapes (people, labels).
    """
    of, n = counts.sum(axis=1, keepdims=True), counts.shape[1]
    other_counts, other_of = counts.sum(axis=0) - counts, of.sum() - of
    is_error = np.arange(n) != truth
    # one error of each kind in addition: others who never err say little of what an error would be
    other_errors = np.where(is_error, other_counts + 1, 0.0)
    spread = other_errors / other_errors.sum(axis=1, keepdims=True)
    beta, xi = estimate.expertise[people, task][:, None], estimate.habits[people, task][:, :n]
    with np.errstate(invalid="ignore", divide="ignore"):
        others = other_counts / other_of
        expected = np.maximum(
            others, np.maximum((1 - beta) * xi, (1 - estimate.accuracy[people, task])[:, None] * spread)
        )
        frequent = is_error & (counts >= LEAST_MISTAKES) & (of >= FEW) & (other_of >= FEW)
        person, given = np.nonzero(frequent & (counts / of - expected > EXCESS))
    pick = person, given
    others_given = by_cleaned.sum(axis=0)[given] - by_cleaned[pick]
    others_all = by_cleaned.sum() - by_cleaned.sum(axis=1)[person]
    return _Candidates(
        task, truth, people[person], given, counts[pick], of[person, 0], other_counts[pick], other_of[person, 0],
        others_given / np.maximum(others_all, 1), np.minimum(expected[pick], 1.0),
    )  # fmt: skip
