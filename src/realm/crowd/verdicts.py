"""What is concluded of single labels and of annotators: the truth by everybody else, and a verdict on each annotator.

Every screen asks it here, of the one model (`realm.crowd.estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.accuracy import expertise_of, lowest_expertise, pairs_of
from realm.crowd.engine import LEAST, Bools, Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate, item_sums
from realm.data.annotations import UNKNOWN, Annotations

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
"""The false discovery rate of every screen that names annotators."""


# -------------------------------------------------------------------- labels


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


# -------------------------------------------------------------------- annotators


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
    annotator's own habit scores. Who always gives the same answer is no better than chance, or there is not enough
    evidence. The interval allows for as many shared mistakes as are expected (`expected_interval`): the most that there
    may be would leave nobody reliable where one label is frequent.
    """
    varies, chance = ~one_answer(annotations), estimate.chance
    always_wrong = lowest_expertise(annotations).reshape(chance.shape)
    low, high = expected_interval(annotations, estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        read_low, read_high = (share_read(estimate, end) for end in (low, high))
        low, high = expertise_of(low, chance), expertise_of(high, chance)
        claims = {
            "worse than chance": varies & (read_high < 0) & (estimate.expertise < NO_BETTER * always_wrong),
            "no better than chance": read_high < np.where(varies, NO_BETTER, ONE_ANSWER),
            "reliable": varies & (low > RELIABLE),
            "middling": varies & (read_low > 0) & ((high < RELIABLE) | (high - low < SHORT)),
        }
    kinds = [-1, *map(VERDICTS.index, claims)]
    claimed = [estimate.annotations == 0, *claims.values()]
    return np.select(claimed, kinds, VERDICTS.index("not enough evidence")).astype(np.int64)


def expected_interval(annotations: Annotations, estimate: Estimate) -> tuple[Floats, Floats]:
    """low and high with as many shared mistakes as are expected, not as many as may be. Shapes (annotators, tasks)

    These move a to (1 - e) a + e (1 - a) / (K - 1), in an estimate with the highest e: a low end above 1/K, a high one
    below it.
    """
    task, n_tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    options = np.bincount(task, annotations.option_counts[annotations.item], minlength=n_tasks)
    options = np.maximum(options / np.maximum(np.bincount(task, minlength=n_tasks), 1), 2.0)
    # of a distance from 1/K, mistakes leave 1 - e K / (K - 1)
    expected, highest = (1 - e * options / (options - 1) for e in (estimate.shared_error, estimate.shared_error_high))
    low, high = (
        np.clip(1 / options + (end - 1 / options) * expected / np.maximum(highest, LEAST), 0.0, 1.0)
        for end in (estimate.low, estimate.high)
    )
    low = np.where(estimate.low > 1 / options, low, estimate.low)
    return low, np.where(estimate.high < 1 / options, high, estimate.high)


def share_read(estimate: Estimate, accuracy: Floats) -> Floats:
    """The expertise of each pair at another accuracy than its own, such as an end of the interval. (annotators, tasks)

    Expertise and accuracy are straight lines in each other that meet at 1, and at what the habit scores, where
    expertise is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        by_habit = 1 - (1 - estimate.accuracy) / (1 - estimate.expertise)
        by_habit = np.clip(np.where(estimate.expertise < 1, by_habit, estimate.chance), 0.0, 1 - LEAST)
        return expertise_of(accuracy, by_habit)


def one_answer(annotations: Annotations) -> Bools:
    """Who gave one label only in a task. Shape (annotators, tasks)"""
    shape, pair = (annotations.n_annotators, len(annotations.tasks)), pairs_of(annotations)
    least, most = np.full(shape[0] * shape[1], np.iinfo(np.int64).max), np.full(shape[0] * shape[1], -1)
    np.minimum.at(least, pair, annotations.label)
    np.maximum.at(most, pair, annotations.label)
    return np.asarray((least == most).reshape(shape))


def false_discoveries(p_values: Floats, level: float = LEVEL, tests: int | None = None) -> Bools:
    """Which p-values (NaN: none) are discoveries at this false discovery rate, by Benjamini and Hochberg (1995).

    `tests` is how many there were, where the p-values of those that are certainly none are left out.
    """
    known = np.flatnonzero(np.isfinite(p_values))
    flagged = np.zeros(len(p_values), dtype=bool)
    order = known[np.argsort(p_values[known], kind="stable")]
    below = np.flatnonzero(p_values[order] <= level * np.arange(1, len(order) + 1) / max(tests or len(order), 1))
    flagged[order[: below.max(initial=-1) + 1]] = True
    return flagged
