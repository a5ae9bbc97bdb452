"""What the others say of each label, and the verdict on each annotator that follows from the one model."""

from __future__ import annotations

import numpy as np

from realm.crowd.accuracy import expertise_of, lowest_expertise
from realm.crowd.engine import LEAST, Bools, Floats, Ints
from realm.crowd.estimate import Estimate
from realm.data.annotations import Annotations

RELIABLE = 0.5
"""Reliable: half-way from chance to always right, or better; 0.75 where chance is 0.5, 0.95 where it is 0.9."""
NO_BETTER = 0.2
"""No better than chance: fewer than one label in five is read off the item."""
ONE_ANSWER = 0.3
"""The same of those who always give one answer: their interval is that of how many of their items call for it."""
SHORT = 0.2
"""An interval shorter than a fifth of the way from chance to always right: more labels would change little."""
VERDICTS = ("reliable", "middling", "not enough evidence", "no better than chance", "worse than chance")
"""The verdicts in words, from good to bad; elsewhere a verdict is an index into this."""
LEVEL = 0.05
"""The false discovery rate of every question that names annotators."""


def right_by_others(annotations: Annotations, estimate: Estimate) -> Floats:
    """P(the label is right | all but it and its copies); NaN where nobody else labelled the item. (annotations,)"""
    right = np.exp(estimate.without_own(annotations)[np.arange(annotations.n_annotations), annotations.label])
    return np.where(annotations.annotations_per_item[annotations.item] > 1, right, np.nan)


def verdicts(annotations: Annotations, estimate: Estimate) -> Ints:
    """The verdict of each pair, an index into `VERDICTS`; -1 without annotations. Shape (annotators, tasks).

    | verdict | over the whole interval |
    |---|---|
    | reliable | accuracy lies above half-way from chance to always right |
    | middling | the labels tell something (they are read), and accuracy lies below half-way or is known to a fifth |
    | no better than chance | fewer than one label in five is read off the item |
    | worse than chance | fewer labels are right than by guessing, by a fifth of the way to always wrong or more |
    | not enough evidence | none of these |

    Chance is the accuracy of always giving the most frequent label; labels that are read are accuracy above what the
    annotator's own habit scores. Who always gives the same answer is no better than chance, or not known well enough.
    """
    varies, chance = ~one_answer(estimate), estimate.chance
    low, high = expected_interval(annotations, estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        read_low, read_high = share_read(estimate, low), share_read(estimate, high)
        low, high = expertise_of(low, chance), expertise_of(high, chance)
        always_wrong = lowest_expertise(annotations).reshape(chance.shape)
        claims = {
            "worse than chance": varies & (read_high < 0) & (estimate.expertise < NO_BETTER * always_wrong),
            "no better than chance": read_high < np.where(varies, NO_BETTER, ONE_ANSWER),
            "reliable": varies & (low > RELIABLE),
            "middling": varies & (read_low > 0) & ((high < RELIABLE) | (high - low < SHORT)),
        }
    kinds, claimed = [-1, *map(VERDICTS.index, claims)], [estimate.annotations == 0, *claims.values()]
    return np.select(claimed, kinds, VERDICTS.index("not enough evidence")).astype(np.int64)


def expected_interval(annotations: Annotations, estimate: Estimate) -> tuple[Floats, Floats]:
    """low and high with as many shared mistakes as are expected: with the most, hardly anybody would be reliable.

    These move a to (1 - e) a + e (1 - a) / (K - 1), in an estimate with the highest e: a low end above 1/K, a high one
    below it. Of a distance from 1/K they leave 1 - e K / (K - 1).
    """
    task, n_tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    options = np.bincount(task, annotations.option_counts[annotations.item], minlength=n_tasks)
    options = np.maximum(options / np.maximum(np.bincount(task, minlength=n_tasks), 1), 2.0)
    left, least_left = (1 - e * options / (options - 1) for e in (estimate.shared_error, estimate.shared_error_high))
    scale, even = left / np.maximum(least_left, LEAST), 1 / options
    low, high = (np.clip(even + (end - even) * scale, 0.0, 1.0) for end in (estimate.low, estimate.high))
    return np.where(estimate.low > even, low, estimate.low), np.where(estimate.high < even, high, estimate.high)


def share_read(estimate: Estimate, accuracy: Floats) -> Floats:
    """The expertise of each pair at another accuracy than its own, such as an end of the interval. (annotators, tasks)

    Both are straight lines in each other that meet at 1, and at what the habit scores, where expertise is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        by_habit = 1 - (1 - estimate.accuracy) / (1 - estimate.expertise)
        by_habit = np.clip(np.where(estimate.expertise < 1, by_habit, estimate.chance), 0.0, 1 - LEAST)
        return expertise_of(accuracy, by_habit)


def one_answer(estimate: Estimate) -> Bools:
    """Who gave one label only in a task. Shape (annotators, tasks)"""
    counts = np.zeros(estimate.annotations.shape, np.int64)
    np.add.at(counts, tuple(estimate.cells[:, :2].T), 1)
    return np.asarray(counts == 1)


def false_discoveries(p_values: Floats, tests: int | None = None) -> Bools:
    """Which p-values (NaN: none) are discoveries at the false discovery rate `LEVEL`, by Benjamini and Hochberg (1995).

    `tests` is how many there were, where the p-values of those that are certainly none are left out.
    """
    order, flagged = np.argsort(p_values, kind="stable"), np.zeros(len(p_values), dtype=bool)
    tests = tests or max(int(np.isfinite(p_values).sum()), 1)
    below = np.flatnonzero(p_values[order] <= LEVEL * np.arange(1, len(order) + 1) / tests)
    flagged[order[: below.max(initial=-1) + 1]] = True
    return flagged
