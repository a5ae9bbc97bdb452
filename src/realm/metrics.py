"""The metrics, one row each, and `evaluate`: every metric and the figures of every label on the items with gold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.label_figures import base_rate, macro_f1, rarest_recall
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.data.overlap import shown_in
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.scorers.scoring import Scores

LOW_MASS = 0.9
"""Below this share of the probability on the options, free generation often says something that is no option."""
BINS = 15
"""Bins of the calibration error: as many as Guo et al. (2017), "On Calibration of Modern Neural Networks"."""
LARGEST_MATRIX = 100
"""Most labels whose confusion matrix is kept: with more it holds more cells than anybody reads, nearly all zero."""
MOST_SEEN = 0.5
"""Share of test items that may be among those trained on: above it figures tell what was learned by heart."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """What metrics are computed from, for n items with gold: the true option, the most probable one, its probability,
    log P of each option (n, K), the task, and P of the options among all tokens.
    """

    truth: Ints
    answer: Ints
    confidence: Floats
    log_probs: Floats
    task: Ints
    answer_mass: Floats | None = None

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.truth == self.answer)


@dataclass(frozen=True)
class Metric:
    """One number about answers: its key in results, its title in reports, how it is computed and written.

    It is left out where the field of `Answers` that it `needs` is None. One `by_label` averages over labels: of several
    tasks it is the mean of those that have a label set. One `of_table` is the same for every model.
    """

    name: str
    title: str
    compute: Callable[[Answers], float]
    higher_is_better: bool
    format: str = ".3f"
    needs: str | None = None
    by_label: bool = False
    of_table: bool = False

    @property
    def name_in_text(self) -> str:
        """The title as it stands inside a sentence."""
        return self.title[0].lower() + self.title[1:]


def reliability(confidence: Floats, right: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    """Mean `confidence`, the share that is `right`, and `items`, of `BINS` equally wide bins that hold any."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    items, sums, hits = (np.bincount(bins, values, minlength=BINS) for values in (None, confidence, right))
    filled = np.flatnonzero(items)
    columns = (sums[filled] / items[filled], hits[filled] / items[filled], items[filled])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(("confidence", "right", "items"), row, strict=True)) for row in rows]


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error: |accuracy - mean confidence| of equally wide bins, weighted by their items."""
    gaps = (each["items"] * abs(each["right"] - each["confidence"]) for each in reliability(confidence, right))
    return sum(gaps) / max(len(confidence), 1)


_METRICS = (
    Metric("accuracy", "Accuracy", lambda a: float(np.mean(a.right)), True, ".1%"),
    Metric("base_rate", "Base rate", lambda a: base_rate(a.truth, a.task), True, ".1%", of_table=True),
    Metric("macro_f1", "Macro F1", lambda a: macro_f1(a.truth, a.answer), True, by_label=True),
    Metric(
        "rarest_recall",
        "Recall of the rarest label",
        lambda a: rarest_recall(a.truth, a.answer),
        True,
        by_label=True,
    ),
    Metric("calibration_error", "Calibration error", lambda a: calibration_error(a.confidence, a.right), False),
    Metric("log_loss", "Log loss", lambda a: float(-a.log_probs[np.arange(len(a.truth)), a.truth].mean()), False),
    Metric(
        "answer_mass",
        "P(option) among all tokens",
        lambda a: float(np.mean(a.answer_mass)),  # type: ignore[arg-type]
        True,
        ".1%",
        needs="answer_mass",
    ),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}


def evaluate(test: Annotations, scores: Scores) -> dict[str, Any]:
    """Every metric over the items with gold, how sure the answers are, and the figures of every label.

    | entry | meaning |
    |---|---|
    | items, and each metric by its name | how many items have gold; the figures over all of them |
    | reliability | {confidence, right, items} of equally wide bins of confidence, those that hold items |
    | labels | {label, precision, recall, f1, support, answered} of each label; None where undefined |
    | confusion | counts, a row per true label and a column per answer; None beyond 100 labels |
    | by_position | whether `labels` are the options' positions, because every item lists its own |
    | tasks | where there are several, all of this for each, and `labels`, `confusion`, `by_position` only there |
    """
    items = gold_items(test)
    assert test.gold is not None
    truth, item_tasks = test.gold.astype(np.int64), test.item_tasks.astype(np.int64)
    columns = (truth, scores.labels, scores.confidence, scores.log_probs, item_tasks, scores.answer_mass)

    def figures(rows: Ints, by_label: bool) -> dict[str, Any]:
        answers = Answers(*(None if column is None else column[rows] for column in columns))  # type: ignore[arg-type]
        values: dict[str, Any] = {"items": len(rows)}
        for metric in METRICS.values():
            if metric.needs is None or getattr(answers, metric.needs) is not None:
                values[metric.name] = metric.compute(answers) if by_label or not metric.by_label else None
        return values | {"reliability": reliability(answers.confidence, answers.right)}

    tasks = {}
    for index, task in enumerate(test.tasks):
        rows = items[test.item_tasks[items] == index]
        if len(rows):
            tasks[task.name] = figures(rows, task.labels is not None)
            tasks[task.name] |= figures_by_label(truth[rows], scores.labels[rows], task.labels)
    if len(test.tasks) == 1:
        return next(iter(tasks.values()))
    overall = figures(items, by_label=False)
    for name in (metric.name for metric in METRICS.values() if metric.by_label):
        values = [part[name] for part in tasks.values() if part[name] is not None]
        overall[name] = float(np.mean(values)) if values else None
    return overall | {"tasks": tasks}


def figures_by_label(truth: Ints, answer: Ints, names: tuple[str, ...] | None) -> dict[str, Any]:
    """`labels`, `confusion` and `by_position` of `evaluate` for one task; `names` is its label set, if it has one.

    A figure is None where it would divide by nothing: a label never answered has no precision.
    """
    width = int(max(truth.max(), answer.max())) + 1 if names is None else len(names)
    shown = [f"option {position + 1}" for position in range(width)] if names is None else names
    hits, support, answered = (
        np.bincount(x, minlength=width).tolist() for x in (truth[truth == answer], truth, answer)
    )
    labels = [
        {
            "label": name,
            "precision": right / given if given else None,
            "recall": right / true if true else None,
            "f1": 2 * right / (true + given) if true + given else None,
            "support": true,
            "answered": given,
        }
        for name, right, true, given in zip(shown, hits, support, answered, strict=True)
    ]
    confusion = None
    if width <= LARGEST_MATRIX:
        confusion = np.bincount(truth * width + answer, minlength=width**2).reshape(width, width).tolist()
    return {"labels": labels, "confusion": confusion, "by_position": names is None}


def gold_items(test: Annotations) -> Ints:
    """Index of every item with gold."""
    if test.gold is None or not (test.gold != UNKNOWN).any():
        raise RealmError("the test table has no gold labels to score against. Name the column with `gold`.")
    return np.flatnonzero(test.gold != UNKNOWN)


def items_trained_on(annotations: Annotations, test: Annotations) -> int:
    """How many of the test items with gold are items of this table too, but for case and spaces."""
    return int(shown_in(test.items.take(gold_items(test)), annotations.items).sum())


def seen_warning(seen: int, n_items: int) -> str:
    """What must be said of figures on a test table that is not new to the model."""
    return (
        f"{seen:,} of the {n_items:,} test items are among those trained on: the figures are too high. Take them out "
        "of one of the two tables."
    )


def check_test(annotations: Annotations, test: Annotations) -> list[str]:
    """Refuse a test table that says nothing of a model trained on these annotations; warnings of one that may mislead.

    Refused: no gold, labels numbered in another way, no context where the annotations have one, and a table most of
    which is trained on. Warned of: one of which some is.
    """
    n_items, contexts = len(gold_items(test)), annotations.items.contexts
    if test.tasks != annotations.tasks:
        tested, trained = (
            ", ".join(f"{task.name}: {task.labels}" for task in table.tasks) for table in (test, annotations)
        )
        raise RealmError(
            f"the test table has the tasks and labels {tested}; the annotations {trained}. Read it with "
            "`tasks=annotations.tasks`, so that a label means the same in both."
        )
    if contexts is not None and contexts.null_count == 0 and test.items.contexts is None:
        raise RealmError(
            "the test table has no context, and the texts of the annotations have one. Name the column with `context`."
        )
    seen = items_trained_on(annotations, test)
    if seen > MOST_SEEN * n_items:
        raise RealmError(
            f"{seen:,} of the {n_items:,} test items are among those trained on: the figures would say what the "
            "model knows by heart. Test on other items; a finished run can be evaluated on any."
        )
    return [seen_warning(seen, n_items)] if seen else []
