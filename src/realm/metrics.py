"""The metrics, one row each, and `evaluate`, which computes them on the items with gold, in all and per task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.scorers.scoring import Scores

LOW_MASS = 0.9
"""Below this share of the probability on the options, free generation often says something that is no option."""
BINS = 15
"""Bins of the calibration error: as many as Guo et al. (2017), "On Calibration of Modern Neural Networks"."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """What metrics are computed from, for n items with gold and at most K options.

    | field | shape | meaning |
    |---|---|---|
    | truth | (n,) | index of the true option |
    | answer | (n,) | index of the most probable option |
    | confidence | (n,) | its probability |
    | log_probs | (n, K) | log-probability of each option, -inf beyond an item's own |
    | shared_labels | | whether all items have the same label set, so that labels can be averaged over |
    | answer_mass | (n,) or None | full-softmax probability of the options together |
    | generated | (n,) or None | the option that free generation named, -1 for none |
    """

    truth: Ints
    answer: Ints
    confidence: Floats
    log_probs: Floats
    shared_labels: bool
    answer_mass: Floats | None = None
    generated: Ints | None = None


@dataclass(frozen=True)
class Metric:
    """One number about answers.

    | field | meaning |
    |---|---|
    | name | its key in results |
    | title | as reports show it |
    | compute | the value of some answers; None where it is not defined |
    | higher_is_better | the direction of an improvement |
    | format | how it is written |
    | needs | a field of `Answers` without which it is left out |
    """

    name: str
    title: str
    compute: Callable[[Answers], float | None]
    higher_is_better: bool
    format: str = ".3f"
    needs: str | None = None

    @property
    def name_in_text(self) -> str:
        """The title as it stands inside a sentence."""
        return self.title[0].lower() + self.title[1:]


def macro_f1(truth: npt.NDArray[np.integer], answer: npt.NDArray[np.integer]) -> float:
    """Mean F1 over the labels that occur in either, as scikit-learn averages."""
    n = int(max(truth.max(), answer.max())) + 1
    hits, true, answers = (np.bincount(labels, minlength=n) for labels in (truth[truth == answer], truth, answer))
    occurs = true + answers > 0
    return float(np.mean(2 * hits[occurs] / (true + answers)[occurs]))


def rarest_recall(truth: npt.NDArray[np.integer], answer: npt.NDArray[np.integer]) -> float:
    """Share of the items of the rarest true label that are found: what accuracy hides where labels are uneven."""
    counts = np.bincount(truth)
    rarest = int(np.where(counts > 0, counts, len(truth) + 1).argmin())
    return float(np.mean(answer[truth == rarest] == rarest))


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error: |accuracy - mean confidence| of equally wide bins, weighted by their items."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.abs(np.bincount(bins, right, minlength=BINS) - np.bincount(bins, confidence, minlength=BINS))
    return float(gaps.sum() / max(len(bins), 1))


def _log_loss(answers: Answers) -> float:
    return float(-answers.log_probs[np.arange(len(answers.truth)), answers.truth].mean())


_METRICS = (
    Metric("accuracy", "Accuracy", lambda a: float(np.mean(a.truth == a.answer)), True, ".1%"),
    Metric("macro_f1", "Macro F1", lambda a: macro_f1(a.truth, a.answer) if a.shared_labels else None, True),
    Metric(
        "rarest_recall",
        "Recall of the rarest label",
        lambda a: rarest_recall(a.truth, a.answer) if a.shared_labels else None,
        True,
    ),
    Metric(
        "calibration_error", "Calibration error", lambda a: calibration_error(a.confidence, a.truth == a.answer), False
    ),
    Metric("log_loss", "Log loss", _log_loss, False),
    Metric(
        "answer_mass",
        "Probability given to the options at all",
        lambda a: float(np.mean(a.answer_mass)),  # type: ignore[arg-type]
        True,
        ".1%",
        needs="answer_mass",
    ),
    Metric(
        "generation_accuracy",
        "Accuracy of free generation",
        lambda a: float(np.mean(a.generated == a.truth)),
        True,
        ".1%",
        needs="generated",
    ),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}


def evaluate(test: Annotations, scores: Scores, generated: Ints | None = None) -> dict[str, Any]:
    """Every metric over the items with gold and, where there are several tasks, for each under `tasks`.

    `generated` (items,) is the option that free generation named, -1 where it named none.
    """
    items = gold_items(test)
    metrics = _metrics_of(items, test, scores, generated)
    if len(test.tasks) > 1:
        metrics["tasks"] = {
            task.name: _metrics_of(of_task, test, scores, generated)
            for index, task in enumerate(test.tasks)
            if len(of_task := items[test.item_tasks[items] == index])
        }
    return metrics


def check_test(annotations: Annotations, test: Annotations) -> None:
    """Refuse a test table without gold, or one whose labels are numbered in another way than those trained on."""
    gold_items(test)
    if test.tasks != annotations.tasks:
        tested, trained = (
            ", ".join(f"{task.name}: {task.labels}" for task in table.tasks) for table in (test, annotations)
        )
        raise RealmError(
            f"the test table has the tasks and labels {tested}; the annotations {trained}. Read it with "
            "`tasks=annotations.tasks`, so that a label means the same in both."
        )


def gold_items(test: Annotations) -> Ints:
    """Index of every item with gold."""
    if test.gold is None or not (test.gold != UNKNOWN).any():
        raise RealmError("the test table has no gold labels to score against. Name the column with `gold`.")
    return np.flatnonzero(test.gold != UNKNOWN)


def _metrics_of(items: Ints, test: Annotations, scores: Scores, generated: Ints | None) -> dict[str, Any]:
    assert test.gold is not None
    tasks = np.unique(test.item_tasks[items])
    answers = Answers(
        truth=test.gold[items].astype(np.int64),
        answer=scores.labels[items],
        confidence=scores.confidence[items],
        log_probs=scores.log_probs[items],
        shared_labels=len(tasks) == 1 and test.tasks[tasks[0]].labels is not None,
        answer_mass=None if scores.answer_mass is None else scores.answer_mass[items],
        generated=None if generated is None else generated[items],
    )
    applicable = [m for m in METRICS.values() if m.needs is None or getattr(answers, m.needs) is not None]
    return {"items": len(items)} | {metric.name: metric.compute(answers) for metric in applicable}
