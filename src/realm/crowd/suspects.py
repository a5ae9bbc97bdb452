"""What does not look right: annotators who hardly read or take one label for another, and items that look broken.

Whoever follows a pattern may have got such items: a pattern counts where the others of the items say something else,
more often than somebody would miss who reads half of the items. Who copies is found in `realm.crowd.copies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import bdtrc

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import ConfusionCounts, count_confusions
from realm.crowd.verdicts import VERDICTS, Others, false_discoveries, posterior_of_labels, verdicts
from realm.data.annotations import UNKNOWN, Annotations

FEW = 10
"""Annotations below which no pattern is looked for: shorter ones are common by luck."""
READ_SHARE = 0.5
"""A pattern is reported of those who would hardly have kept it if they read half of the items."""
LONGEST_PERIOD = 6
"""Of labels in turn: nobody keeps a longer list going by hand."""
ENOUGH_TO_JUDGE = 20
"""Annotations from which an annotator is compared with the others: an accuracy's standard error is then 0.1."""
HALF_AS_TYPICAL, LEAST_TYPICAL = 0.5, 0.1
"""Named is who surely reads less than half as many labels as is typical, but nobody where the typical expertise is
below 0.1: there everybody is close to chance, and the table is to blame."""
LEAST_ITEMS, LEAST_MISTAKES = 10, 5
"""Items of a label, and times that another was given to them, before anything is said."""
EXCESS = 0.1
"""How much more often than expected: ten points, below which nobody would change the instructions."""
IMPROBABLE, LEAST_AGAINST = 0.01, 2
"""How improbable the errors of a broken item must be, and how many there must be: one may be a slip."""
Kind = Literal["constant", "alternating", "chance", "below chance"]


# -------------------------------------------------------------------- annotators who hardly read


@dataclass(frozen=True)
class Suspect:
    """An annotator to look at in a task (by index), and what they seem to do.

    `period` is after how many labels a pattern repeats; `highest` the upper end of expertise of those close to chance,
    and `typical` the expertise of the others in the task.
    """

    annotator: int
    task: int
    kind: Kind
    period: int = 0
    highest: float = float("nan")
    typical: float = float("nan")


def find_suspects(
    annotations: Annotations, estimate: Estimate, patterns: list[Suspect], highest: Floats
) -> list[Suspect]:
    """Each annotator at most once in a task, by annotator and task; a pattern comes before being close to chance.

    `highest` (annotators, tasks) is the upper end of each expertise.
    """
    suspects = {(each.annotator, each.task): each for each in patterns}
    enough = estimate.annotations >= ENOUGH_TO_JUDGE
    for task in np.flatnonzero(~estimate.relative_tasks & enough.any(axis=0)).tolist():
        typical = float(np.median(estimate.expertise[enough[:, task], task]))
        if typical <= LEAST_TYPICAL:
            continue
        for annotator in np.flatnonzero(enough[:, task] & (highest[:, task] < HALF_AS_TYPICAL * typical)).tolist():
            most = float(highest[annotator, task])
            kind: Kind = "chance" if most >= 0 else "below chance"
            suspects.setdefault((annotator, task), Suspect(annotator, task, kind, 0, most, typical))
    return [suspects[key] for key in sorted(suspects)]


def find_patterns(annotations: Annotations, others: Others) -> list[Suspect]:
    """Who gave one label only, or labels in turn in the order of the rows, where their items call for others."""
    pair, n_tasks = pairs_of(annotations), len(annotations.tasks)
    rows = np.lexsort((annotations.item if annotations.source_rows is None else annotations.source_rows, pair))
    label, of = annotations.label[rows], pair[rows]
    counts = np.bincount(pair, minlength=annotations.n_annotators * n_tasks)
    period = np.zeros(len(counts), np.int64)
    for length in range(LONGEST_PERIOD, 0, -1):
        repeats = (of[length:] == of[:-length]) & (label[length:] == label[:-length])
        n_repeats = np.bincount(of[length:][repeats], minlength=len(counts))
        period[(n_repeats == counts - length) & (counts >= max(FEW, 3 * length))] = length
    # P(label) of who reads half of the items and else goes on with the pattern; where nobody else labelled the item,
    # it is right as often as the task's labels are the same
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    kind = task * int(annotations.option_counts.max(initial=1)) + annotations.label
    share = np.bincount(kind)[kind] / np.bincount(task)[task]
    kept = np.log(1 - READ_SHARE * (1 - np.where(np.isnan(others.right), share, others.right)))
    p_value = np.where(period > 0, np.exp(np.bincount(pair, kept, minlength=len(counts))), 1.0)
    suspects = np.flatnonzero(false_discoveries(np.where(counts >= FEW, p_value, np.nan)) & (period > 0))
    return [
        Suspect(*divmod(each, n_tasks), "constant" if period[each] == 1 else "alternating", int(period[each]))
        for each in suspects.tolist()
    ]


# -------------------------------------------------------------------- annotators who take one label for another


@dataclass(frozen=True)
class ConfusedLabel:
    """`given` was answered for `times` of `of` items that are `truth`, a `share`; `others` is that of all others."""

    annotator: int
    task: int
    truth: int
    given: int
    times: int
    of: int
    share: float
    others: float


def confused_labels(annotations: Annotations, estimate: Estimate, others: Others) -> list[ConfusedLabel]:
    """Who takes which label for which beyond chance, over all annotators, tasks and labels; the largest share first.

    An item counts as k where its other annotators find k more probable than not. (Sums of probabilities in place of
    counts take a rare label for confused where nothing is: of many sure items a little each is much of it.) The share
    of an annotator's items of a label that were given another one is compared with the largest of how often the others
    give it; how often the annotator would by habit, (1 - b) xi; and how often they would if their errors were spread as
    the others' are: neither who guesses nor who errs often, as all do, confuses anything in particular. What is said of
    the others goes by the cleaned labels: an item of two labels, judged without one of them, is often judged wrong.
    Tasks whose items list their own options have none.
    """
    options = np.array([len(task.labels or ()) for task in annotations.tasks])
    clear = (options[annotations.item_tasks[annotations.item]] > 0) & (others.confidence > 0.5)
    counts = count_confusions(annotations, np.where(clear, others.truth, UNKNOWN))
    annotator, task = np.divmod(counts.pair, counts.n_tasks)
    is_right = counts.truth == counts.given
    times, of = counts.count, counts.totals("pair", "truth")
    other_times, other_of = counts.totals("truth", "given") - times, counts.totals("truth") - of
    other_errors = counts.totals("truth", among=~is_right) - counts.totals("pair", "truth", among=~is_right)
    # one error of each kind in addition: others who never err say little of what an error would be
    spread = (other_times + 1) / (other_errors + np.maximum(options[task] - 1, 1))
    by_habit = (1 - estimate.expertise[annotator, task]) * estimate.habits[annotator, task, counts.given]
    by_errors = (1 - estimate.accuracy[annotator, task]) * spread
    expected = np.clip(np.max([other_times / np.maximum(other_of, 1), by_habit, by_errors], axis=0), 0.0, 1.0)
    is_tested = (of >= LEAST_ITEMS) & (other_of >= LEAST_ITEMS)
    is_frequent = (times >= LEAST_MISTAKES) & (times / of - expected > EXCESS)
    rows = np.flatnonzero(is_tested & is_frequent & ~is_right)
    # as many as expected of the annotator's items, and as many of everybody's mistakes as of everybody's items
    p_value = np.maximum(
        bdtrc(times[rows] - 1, of[rows], expected[rows]),
        bdtrc(times[rows] - 1, (times + other_times)[rows], (of / (of + other_of))[rows]),
    )
    # a test for every other label of each annotator's label with enough items, few of which have a row
    is_first = np.diff(counts.pair * counts.width + counts.truth, prepend=-1) > 0
    n_tests = int((options[task] - 1)[is_tested & is_first].sum())
    rows = rows[false_discoveries(p_value, tests=n_tests)]
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


# -------------------------------------------------------------------- items


def reliable_posterior(annotations: Annotations, estimate: Estimate) -> tuple[Annotations, Floats]:
    """The annotations of those whose verdict is reliable, and P(truth) of every item by them alone. (items, Kmax)"""
    reliable = verdicts(annotations, estimate) == VERDICTS.index("reliable")
    table = annotations.keep_annotations(reliable[annotations.annotator, annotations.item_tasks[annotations.item]])
    return table, posterior_of_labels(table, estimate)


@dataclass(frozen=True, eq=False)
class BrokenItems:
    """Items that look broken, the least probable first: ambiguous, cut off, or not fit for the options. Shapes (n,).

    `probability` is that of so many errors or more, were the item like any other; `reliable` counts its labels by
    reliable annotators, and `against` those against the label that they find together.
    """

    items: Ints
    probability: Floats
    against: Ints
    reliable: Ints


def broken_items(annotations: Annotations, estimate: Estimate) -> BrokenItems:
    """Items whose reliable annotators contradict each other more than their accuracies explain.

    As improbable as so many errors or more against the label that they together find most probable, errors being
    independent. No model has a say: an item on which a model alone is wrong is not broken.
    """
    table, posterior = reliable_posterior(annotations, estimate)
    wrong = posterior.argmax(axis=1)[table.item] != table.label
    against = np.bincount(table.item, wrong, minlength=table.n_items).astype(np.int64)
    items = np.flatnonzero(against >= LEAST_AGAINST)
    error = 1 - estimate.accuracy[table.annotator, table.item_tasks[table.item]]
    probability = np.array(
        [errors_or_more(error[table.offsets[item] : table.offsets[item + 1]], int(against[item])) for item in items]
    )
    order = np.argsort(probability, kind="stable")
    order = order[probability[order] < IMPROBABLE]
    items = items[order]
    return BrokenItems(items, probability[order], against[items], table.annotations_per_item[items].astype(np.int64))


def errors_or_more(error: Floats, least: int) -> float:
    """P(`least` errors or more) among labels, each of which is wrong with its own probability (labels,)."""
    shares = np.ones(1)
    for wrong in error:
        shares = np.convolve(shares, [1 - wrong, wrong])
    return float(shares[least:].sum())
