"""How good the answers are: accuracy, macro-F1, calibration, and whether free generation would answer at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.errors import RealmError
from realm.scorers.scoring import Scores

UNKNOWN = -1
LOW_MASS = 0.9
BINS = 15

Ints = npt.NDArray[np.int64]


def evaluate(test: Annotations, scores: Scores, said: Ints | None = None) -> dict[str, Any]:
    """Figures over the items with gold, in all and per task.

    `said` (items,) is the option that unconstrained generation named, -1 where it named none.
    """
    known = gold_items(test)
    assert test.gold is not None
    report = _figures(known, test.gold, scores, said, test)
    if len(test.tasks) > 1:
        report["tasks"] = {
            task.name: _figures(part, test.gold, scores, said, test)
            for index, task in enumerate(test.tasks)
            if len(part := known[test.item_tasks[known] == index])
        }
    return report


def check_test(annotations: Annotations, test: Annotations) -> None:
    """Refuse a test table without gold, or one whose labels are numbered in another way than those trained on."""
    gold_items(test)
    if test.tasks != annotations.tasks:
        said = [", ".join(f"{task.name}: {task.labels}" for task in table.tasks) for table in (test, annotations)]
        raise RealmError(
            f"the test table has the tasks and labels {said[0]}; the annotations {said[1]}. Read it with "
            "`tasks=annotations.tasks`, so that a label means the same in both."
        )


def gold_items(test: Annotations) -> npt.NDArray[np.int64]:
    if test.gold is None or not (test.gold != UNKNOWN).any():
        raise RealmError("the test table has no gold labels to score against. Name the column with --gold.")
    return np.flatnonzero(test.gold != UNKNOWN)


def _figures(items: Ints, gold: Any, scores: Scores, said: Ints | None, test: Annotations) -> dict[str, Any]:
    truth, answer = gold[items], scores.labels[items]
    right = truth == answer
    figures: dict[str, Any] = {
        "items": len(items),
        "accuracy": float(right.mean()),
        "macro_f1": macro_f1(truth, answer) if _fixed_labels(test, items) else None,
        "calibration_error": calibration_error(scores.confidence[items], right),
        "log_loss": float(-scores.log_probs[items, truth].mean()),
    }
    if scores.answer_mass is not None:
        figures["answer_mass"] = float(scores.answer_mass[items].mean())
    if said is not None:
        figures["generation_accuracy"] = float((said[items] == truth).mean())
    return figures


def _fixed_labels(test: Annotations, items: Ints) -> bool:
    """Macro-F1 is over labels; options of an item's own have no label to average over."""
    tasks = np.unique(test.item_tasks[items])
    return len(tasks) == 1 and test.tasks[tasks[0]].labels is not None


def macro_f1(truth: npt.NDArray[np.integer], answer: npt.NDArray[np.integer]) -> float:
    """Mean F1 over the labels that occur in either, as scikit-learn averages."""
    labels = np.union1d(truth, answer)
    scores = []
    for label in labels:
        both = np.sum((truth == label) & (answer == label))
        scores.append(2 * both / (np.sum(truth == label) + np.sum(answer == label)))
    return float(np.mean(scores))


def calibration_error(confidence: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error: |accuracy - confidence| over 15 equal bins, weighted by their items."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    gap = np.abs(np.bincount(bins, right, minlength=BINS) - np.bincount(bins, confidence, minlength=BINS))
    return float(gap.sum() / max(counts.sum(), 1))
