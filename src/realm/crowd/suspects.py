"""Annotators whose labels carry little information: always one answer, answers in turn, or hardly read.

Who follows a pattern may have got such items: the pattern counts where the others of the items say something else, more
often than somebody would miss who reads half of the items. Who copies is found in `realm.crowd.copies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from realm.crowd.accuracy import pairs_of
from realm.crowd.drift import LEVEL, false_discoveries
from realm.crowd.engine import Bools, Floats
from realm.crowd.estimate import Estimate
from realm.crowd.others import Others
from realm.data.annotations import Annotations

FEW = 10
"""Annotations below which no pattern is looked for: shorter ones are common by luck."""
ENOUGH_TO_JUDGE = 20
"""Annotations from which an annotator is compared with the others: an accuracy's standard error is then 0.1."""
HALF_AS_TYPICAL = 0.5
"""Who surely reads less than half as many labels as is typical is named: a guesser among people who hardly agree is."""
READ_SHARE = 0.5
"""A pattern is reported of those who would hardly have kept it if they read half of the items."""
LONGEST_PERIOD = 6
"""Of labels in turn: nobody keeps a longer list going by hand."""
LEAST_TYPICAL = 0.1
"""Median expertise of a task below which nobody is named: everybody is close to chance, and the table is to blame."""
Kind = Literal["constant", "alternating", "chance", "below chance"]


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


def find_suspects(annotations: Annotations, estimate: Estimate, others: Others, highest: Floats) -> list[Suspect]:
    """Each annotator at most once in a task, by annotator and task; a pattern comes before being close to chance.

    `highest` (annotators, tasks) is the upper end of each expertise.
    """
    suspects = {(each.annotator, each.task): each for each in find_patterns(annotations, others)}
    enough = estimate.annotations >= ENOUGH_TO_JUDGE
    for task in np.flatnonzero(~estimate.relative_tasks).tolist():
        typical = float(np.median(estimate.expertise[enough[:, task], task])) if enough[:, task].any() else 0.0
        if typical <= LEAST_TYPICAL:
            continue
        for annotator in np.flatnonzero(enough[:, task] & (highest[:, task] < HALF_AS_TYPICAL * typical)).tolist():
            most = float(highest[annotator, task])
            kind: Kind = "chance" if most >= 0 else "below chance"
            suspects.setdefault((annotator, task), Suspect(annotator, task, kind, 0, most, typical))
    return [suspects[key] for key in sorted(suspects)]


def find_patterns(annotations: Annotations, others: Others) -> list[Suspect]:
    """Who gave one label only, or labels in turn in the order of the rows, where their items call for others."""
    pair, order = (
        pairs_of(annotations),
        annotations.item if annotations.source_rows is None else annotations.source_rows,
    )
    n_pairs = annotations.n_annotators * len(annotations.tasks)
    rows = np.lexsort((order, pair))
    label, of = annotations.label[rows], pair[rows]
    counts = np.bincount(pair, minlength=n_pairs)
    period = np.zeros(n_pairs, np.int64)
    for length in range(LONGEST_PERIOD, 0, -1):
        repeats = (of[length:] == of[:-length]) & (label[length:] == label[:-length])
        n_repeats = np.bincount(of[length:][repeats], minlength=n_pairs)
        period[(n_repeats == counts - length) & (counts >= max(FEW, 3 * length))] = length
    p_value = np.where(period > 0, np.exp(np.bincount(pair, _log_support(annotations, others), n_pairs)), 1.0)
    suspects = np.flatnonzero(false_discoveries(np.where(counts >= FEW, p_value, np.nan), LEVEL) & (period > 0))
    n_tasks = len(annotations.tasks)
    return [
        Suspect(*divmod(each, n_tasks), "constant" if period[each] == 1 else "alternating", int(period[each]))
        for each in suspects.tolist()
    ]


def _log_support(annotations: Annotations, others: Others) -> Floats:
    """log P(this label) of somebody who reads half of the items and else goes on with a pattern. (annotations,)

    Below 0 where the others say something else; where nobody else labelled the item, as often as the task's labels do.
    """
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    key = task * int(annotations.option_counts.max(initial=1)) + annotations.label
    share = np.bincount(key)[key] / np.bincount(task)[task]
    right = np.where(np.isnan(others.right), share, others.right)
    return np.asarray(np.log(1 - READ_SHARE * (1 - right)))


def one_answer(annotations: Annotations) -> Bools:
    """Who gave one label only in a task. Shape (annotators, tasks)"""
    shape, pair = (annotations.n_annotators, len(annotations.tasks)), pairs_of(annotations)
    least, most = np.full(shape[0] * shape[1], np.iinfo(np.int64).max), np.full(shape[0] * shape[1], -1)
    np.minimum.at(least, pair, annotations.label)
    np.maximum.at(most, pair, annotations.label)
    return np.asarray((least == most).reshape(shape))
