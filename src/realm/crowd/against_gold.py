"""How cleaned labels and annotators' estimates did against gold that none of them has seen: shown to people alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import accuracy_by_gold, base_rate, macro_f1, wilson
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

if TYPE_CHECKING:
    from realm.crowd.aggregation import Aggregate

SURE = (0.9, 0.99)
"""Confidences from which on labels are counted: at most one in ten, and one in a hundred, ought to be wrong."""
ENOUGH = 20
"""Fewest labels on items with gold for an annotator to be judged by it: the standard error is then 0.11 or less."""


@dataclass(frozen=True)
class AgainstGold:
    """Cleaned labels of `items` with gold, and the accuracies of `annotators` with 20 labels or more on such items.

    `right` (with its 95% `interval`) and `macro_f1` (the mean over tasks with a label set) are of the cleaned labels,
    `majority_right` and `majority_macro_f1` of the vote where items have several labels. `sure` tells of labels of a
    confidence or more: that confidence, how many they are, how many are wrong, and how many were expected to be.
    `spearman` is the rank correlation of estimated accuracies with those by gold, `held` how many of their intervals
    hold these.
    """

    items: int
    right: float
    macro_f1: float | None
    majority_right: float | None
    majority_macro_f1: float | None
    base_rate: float
    sure: tuple[tuple[float, int, int, float], ...]
    annotators: int
    spearman: float | None
    held: int

    @property
    def n_right(self) -> int:
        return round(self.right * self.items)

    @property
    def interval(self) -> tuple[float, float]:
        return tuple(float(end) for end in wilson(self.right, self.items))  # type: ignore[return-value]


def estimate_against_gold(annotations: Annotations, estimate: Estimate) -> AgainstGold | None:
    """Hold an estimate of the same table without gold against the gold in `annotations`; None where it has none."""
    labels, confidence = estimate.posterior.argmax(axis=1), estimate.posterior.max(axis=1)
    return against_gold(annotations, labels, confidence, estimate.accuracy, estimate.low, estimate.high)


def aggregate_against_gold(annotations: Annotations, result: Aggregate) -> AgainstGold | None:
    """Hold aggregated labels, made without gold, against the gold in `annotations`; None where it has none."""
    import pandas as pd

    pairs = pd.MultiIndex.from_product([annotations.annotators, [task.name for task in annotations.tasks]])
    table = result.annotators.set_index(["annotator", "task"])[["accuracy", "low", "high"]].reindex(pairs)
    figures = table.to_numpy(np.float64).T.reshape(3, annotations.n_annotators, len(annotations.tasks))
    return against_gold(annotations, result.labels, result.confidence, *figures)


def against_gold(
    annotations: Annotations,
    labels: npt.NDArray[np.integer],
    confidence: Floats,
    accuracy: Floats,
    low: Floats,
    high: Floats,
) -> AgainstGold | None:
    """Labels are (items,), -1 for none; accuracies with their intervals (annotators, tasks), NaN for none."""
    from scipy.stats import spearmanr

    from realm.crowd.aggregation import aggregate

    gold, task = annotations.gold, annotations.item_tasks
    if gold is None:
        return None
    items = np.flatnonzero((gold != UNKNOWN) & (labels != UNKNOWN) & (annotations.annotations_per_item > 0))
    if not len(items):
        return None
    of_tasks = [items[task[items] == index] for index, each in enumerate(annotations.tasks) if each.labels]

    def share_and_f1(answers: npt.NDArray[np.integer]) -> tuple[float, float | None]:
        scores = [macro_f1(gold[rows], answers[rows]) for rows in of_tasks if len(rows)]
        return float((answers == gold)[items].mean()), float(np.mean(scores)) if scores else None

    right, own_f1 = share_and_f1(labels)
    vote: tuple[float | None, float | None] = (None, None)
    if annotations.annotations_per_item.max() > 1:
        vote = share_and_f1(aggregate(annotations, "majority").labels)
    surely = [(level, items[confidence[items] >= level]) for level in SURE]  # nothing where the confidence is NaN
    by_gold, counts = accuracy_by_gold(annotations)
    judged = (counts >= ENOUGH) & ~np.isnan(accuracy)
    estimates, truth = accuracy[judged], by_gold[judged]
    is_ranked = len(truth) > 2 and np.ptp(truth) > 0 and np.ptp(estimates) > 0
    return AgainstGold(
        items=len(items),
        right=right,
        macro_f1=own_f1,
        majority_right=vote[0],
        majority_macro_f1=vote[1],
        base_rate=base_rate(gold[items], task[items]),
        sure=tuple(
            (level, len(rows), int((labels != gold)[rows].sum()), float((1 - confidence[rows]).sum()))
            for level, rows in surely
        ),
        annotators=len(truth),
        spearman=float(spearmanr(truth, estimates).statistic) if is_ranked else None,
        held=int(((low[judged] <= truth) & (truth <= high[judged])).sum()),
    )


def gold_sentences(against: AgainstGold) -> list[str]:
    """How many labels are right, how many sure ones are wrong, and how the accuracies did."""
    others, (low, high), n = f"base rate {against.base_rate:.1%}", against.interval, against.annotators
    if against.majority_right is not None:
        others = f"majority vote {against.majority_right:.1%}, {others}"
    text = (
        f"{against.right:.1%} of the {against.items:,} labels with gold are right (gold was not used; 95% interval "
        f"{low:.0%} to {high:.0%}); {others}."
    )
    if against.macro_f1 is not None:
        majority = f", of the majority vote {against.majority_macro_f1:.3f}" if against.majority_macro_f1 else ""
        text += f" Macro-F1 {against.macro_f1:.3f}{majority}."
    sentences = [text]
    template = "{2:,} of the {1:,} with confidence {0:g} or more ({3:.1f} expected)"
    if parts := [template.format(*figures) for figures in against.sure if figures[1]]:
        sentences.append(f"Wrong labels: {'; '.join(parts)}.")
    if n:
        ranking = "" if against.spearman is None else f"rank correlation {against.spearman:.2f}, "
        sentences.append(
            f"Estimated accuracies of the {n:,} annotators with {ENOUGH} labels or more on these items, against gold: "
            f"{ranking}{against.held:,} of {n:,} 95% intervals ({against.held / n:.0%}) hold the true one."
        )
    return sentences
