"""How cleaned labels and annotators' estimates did against gold that none of them has seen: shown to people alone.

Gold that a table holds and nothing used is a test for free: how many cleaned labels are right, how many of those that
were called sure are wrong, whether annotators are ranked as gold ranks them, and how many of their intervals hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import accuracy_by_gold, base_rate, macro_f1
from realm.crowd.peers import wilson
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

if TYPE_CHECKING:
    from realm.crowd.aggregation import Aggregate

SURE = (0.9, 0.99)
"""Confidences from which on labels are counted: at most one in ten, and one in a hundred, ought to be wrong."""
ENOUGH = 20
"""Fewest labels on items with gold for an annotator to be judged by it: the standard error is then 0.11 or less."""


class SureLabels(NamedTuple):
    """Labels of a confidence or more: how many, how many of them are wrong, and how many were to be expected wrong."""

    confidence: float
    labels: int
    wrong: int
    expected: float


@dataclass(frozen=True)
class AgainstGold:
    """Cleaned labels and annotators' estimates held against gold.

    | field | meaning |
    |---|---|
    | items | how many items have gold and a label |
    | right, macro_f1 | of their cleaned labels; macro-F1 is the mean over tasks with a label set, None without any |
    | majority_right, majority_macro_f1 | of the majority vote; None where no item has two annotations |
    | base_rate | what always giving a task's most frequent true label would get right |
    | sure | labels of a confidence of 0.9 and of 0.99 or more |
    | annotators | how many pairs of annotator and task have 20 labels or more on items with gold |
    | spearman | rank correlation of their estimated accuracy with that by gold; None where it is not defined |
    | held | how many of their 95% intervals hold the accuracy by gold |
    | all_labels | whether every label of theirs is on an item with gold, so that the accuracy by gold is no sample |
    """

    items: int
    right: float
    macro_f1: float | None
    majority_right: float | None
    majority_macro_f1: float | None
    base_rate: float
    sure: tuple[SureLabels, ...]
    annotators: int
    spearman: float | None
    held: int
    all_labels: bool

    @property
    def n_right(self) -> int:
        return round(self.right * self.items)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of `right`: how far another sample of so many items may differ."""
        low, high = wilson(self.right, self.items)
        return float(low), float(high)


def estimate_against_gold(annotations: Annotations, estimate: Estimate) -> AgainstGold | None:
    """Hold an estimate of the same table without gold against the gold in `annotations`; None where it has none."""
    labels, confidence = estimate.posterior.argmax(axis=1), estimate.posterior.max(axis=1)
    return against_gold(annotations, labels, confidence, estimate.accuracy, estimate.low, estimate.high)


def aggregate_against_gold(annotations: Annotations, result: Aggregate) -> AgainstGold | None:
    """Hold aggregated labels, made without gold, against the gold in `annotations`; None where it has none."""
    tasks = {task.name: index for index, task in enumerate(annotations.tasks)}
    names = {name: index for index, name in enumerate(annotations.annotators)}
    rows = [names[name] for name in result.annotators["annotator"]], [tasks[name] for name in result.annotators["task"]]
    columns = []
    for name in ("accuracy", "low", "high"):
        columns.append(np.full((len(names), len(tasks)), np.nan))
        columns[-1][rows] = result.annotators[name]
    return against_gold(annotations, result.labels, result.confidence, *columns)


def against_gold(
    annotations: Annotations,
    labels: npt.NDArray[np.integer],
    confidence: Floats,
    accuracy: Floats,
    low: Floats,
    high: Floats,
) -> AgainstGold | None:
    """Hold labels and accuracies against gold; None where no labelled item has any.

    | argument | shape | meaning |
    |---|---|---|
    | annotations | | the table with its gold |
    | labels, confidence | (items,) | cleaned labels, -1 for none; how sure they are, NaN where not known |
    | accuracy, low, high | (annotators, tasks) | estimates with their intervals, NaN where there are none |
    """
    if annotations.gold is None:
        return None
    gold, task = annotations.gold, annotations.item_tasks
    items = np.flatnonzero((gold != UNKNOWN) & (labels != UNKNOWN) & (annotations.annotations_per_item > 0))
    if not len(items):
        return None
    majority = _majority(annotations)
    right = labels[items] == gold[items]
    by_gold, counts = accuracy_by_gold(annotations)
    judged = (counts >= ENOUGH) & ~np.isnan(accuracy)
    held = (low <= by_gold) & (by_gold <= high)
    all_counts = np.bincount(pairs_of(annotations), minlength=counts.size).reshape(counts.shape)
    return AgainstGold(
        items=len(items),
        right=float(right.mean()),
        macro_f1=_macro_f1(annotations, items, labels),
        majority_right=None if majority is None else float((majority == gold)[items].mean()),
        majority_macro_f1=None if majority is None else _macro_f1(annotations, items, majority),
        base_rate=base_rate(gold[items], task[items]),
        sure=tuple(_sure_labels(level, confidence[items], right) for level in SURE),
        annotators=int(judged.sum()),
        spearman=_spearman(accuracy[judged], by_gold[judged]),
        held=int(held[judged].sum()),
        all_labels=bool((counts == all_counts)[judged].all()),
    )


def _majority(annotations: Annotations) -> npt.NDArray[np.integer] | None:
    """The majority vote of every item; None where no item has two annotations."""
    from realm.crowd.aggregation import aggregate

    if int(annotations.annotations_per_item.max(initial=0)) < 2:
        return None
    return aggregate(annotations, "majority").labels


def _macro_f1(annotations: Annotations, items: Ints, labels: npt.NDArray[np.integer]) -> float | None:
    """The mean of macro-F1 over the tasks with a label set."""
    assert annotations.gold is not None
    values = []
    for index, task in enumerate(annotations.tasks):
        of_task = items[annotations.item_tasks[items] == index]
        if task.labels is not None and len(of_task):
            values.append(macro_f1(annotations.gold[of_task], labels[of_task]))
    return float(np.mean(values)) if values else None


def _sure_labels(level: float, confidence: Floats, right: npt.NDArray[np.bool_]) -> SureLabels:
    sure = confidence >= level  # False where the confidence is NaN
    return SureLabels(level, int(sure.sum()), int((~right[sure]).sum()), float((1 - confidence[sure]).sum()))


def _spearman(estimates: Floats, truth: Floats) -> float | None:
    """Spearman's rank correlation; None with fewer than three, or where either is constant."""
    from scipy.stats import spearmanr

    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(estimates) == 0:
        return None
    return float(spearmanr(truth, estimates).statistic)


def gold_sentences(against: AgainstGold) -> list[str]:
    """How many labels are right, how many sure ones are wrong, and how the accuracies did."""
    others = f"base rate {against.base_rate:.1%}"
    if against.majority_right is not None:
        others = f"majority vote {against.majority_right:.1%}, {others}"
    low, high = against.interval
    text = (
        f"{against.right:.1%} of the {against.items:,} labels with gold are right (gold was not used; 95% interval "
        f"{low:.0%} to {high:.0%}); {others}."
    )
    if against.macro_f1 is not None:
        majority = f", of the majority vote {against.majority_macro_f1:.3f}" if against.majority_macro_f1 else ""
        text += f" Macro-F1 {against.macro_f1:.3f}{majority}."
    sentences = [text]
    if parts := [
        f"{sure.wrong:,} of the {sure.labels:,} with confidence {sure.confidence:g} or more "
        f"({sure.expected:.1f} expected)"
        for sure in against.sure
        if sure.labels
    ]:
        sentences.append(f"Wrong labels: {'; '.join(parts)}.")
    if against.annotators:
        ranking = "" if against.spearman is None else f"rank correlation {against.spearman:.2f}, "
        sample = "" if against.all_labels else ", which is itself measured on a part of their labels"
        sentences.append(
            f"Estimated accuracies of the {against.annotators:,} annotators with {ENOUGH} labels or more on these "
            f"items, against gold: {ranking}{against.held:,} of {against.annotators:,} 95% intervals "
            f"({against.held / against.annotators:.0%}) hold the true one{sample}."
        )
    return sentences
