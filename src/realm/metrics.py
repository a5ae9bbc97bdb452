"""The metrics, one row each, and `evaluate`: every metric and the figures of every label on the items with gold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.label_figures import base_rate, confusion_matrix, label_figures, macro_f1, rarest_recall
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
    | task | (n,) | index of the item's task |
    | answer_mass | (n,) or None | P of the options together over all tokens, before the softmax is restricted to them |
    """

    truth: Ints
    answer: Ints
    confidence: Floats
    log_probs: Floats
    task: Ints
    answer_mass: Floats | None = None


@dataclass(frozen=True)
class Metric:
    """One number about answers.

    | field | meaning |
    |---|---|
    | name | its key in results |
    | title | as reports show it |
    | compute | the value of some answers |
    | higher_is_better | the direction of an improvement |
    | format | how it is written |
    | needs | a field of `Answers` without which it is left out |
    | by_label | averages over labels, so it is defined within a task that has a label set; over several such tasks it \
is their mean, and None without any |
    | of_table | is a property of the test table alone, the same for every model |
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


class Bin(NamedTuple):
    """Answers of about the same confidence: their mean confidence, the share that is right, how many they are."""

    confidence: float
    right: float
    items: int


def reliability(confidence: Floats, right: npt.NDArray[np.bool_]) -> list[Bin]:
    """The answers in `BINS` equally wide bins of confidence, those that hold any. Shapes (n,)."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    items = np.bincount(bins, minlength=BINS)
    sums = [np.bincount(bins, values, minlength=BINS) for values in (confidence, right)]
    return [
        Bin(float(sums[0][each] / items[each]), float(sums[1][each] / items[each]), int(items[each]))
        for each in np.flatnonzero(items)
    ]


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error: |accuracy - mean confidence| of equally wide bins, weighted by their items."""
    gaps = sum(each.items * abs(each.right - each.confidence) for each in reliability(confidence, right))
    return gaps / max(len(confidence), 1)


def _log_loss(answers: Answers) -> float:
    return float(-answers.log_probs[np.arange(len(answers.truth)), answers.truth].mean())


_METRICS = (
    Metric("accuracy", "Accuracy", lambda a: float(np.mean(a.truth == a.answer)), True, ".1%"),
    Metric("base_rate", "Base rate", lambda a: base_rate(a.truth, a.task), True, ".1%", of_table=True),
    Metric("macro_f1", "Macro F1", lambda a: macro_f1(a.truth, a.answer), True, by_label=True),
    Metric(
        "rarest_recall",
        "Recall of the rarest label",
        lambda a: rarest_recall(a.truth, a.answer),
        True,
        by_label=True,
    ),
    Metric(
        "calibration_error", "Calibration error", lambda a: calibration_error(a.confidence, a.truth == a.answer), False
    ),
    Metric("log_loss", "Log loss", _log_loss, False),
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
    tasks = {
        task.name: _figures_of_task(test, _answers(of_task, test, scores))
        for index, task in enumerate(test.tasks)
        if len(of_task := items[test.item_tasks[items] == index])
    }
    if len(test.tasks) == 1:
        return next(iter(tasks.values()))
    figures = _figures(_answers(items, test, scores), shared_labels=False)
    for name in (metric.name for metric in METRICS.values() if metric.by_label):
        values = [part[name] for part in tasks.values() if part[name] is not None]
        figures[name] = float(np.mean(values)) if values else None
    return figures | {"tasks": tasks}


MOST_SEEN = 0.5
"""Share of test items that may be among those trained on: above it figures tell what was learned by heart."""


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
    scored = gold_items(test)
    if test.tasks != annotations.tasks:
        tested, trained = (
            ", ".join(f"{task.name}: {task.labels}" for task in table.tasks) for table in (test, annotations)
        )
        raise RealmError(
            f"the test table has the tasks and labels {tested}; the annotations {trained}. Read it with "
            "`tasks=annotations.tasks`, so that a label means the same in both."
        )
    contexts = annotations.items.contexts
    if contexts is not None and contexts.null_count == 0 and test.items.contexts is None:
        raise RealmError(
            "the test table has no context, and the texts of the annotations have one. Name the column with `context`."
        )
    if not (seen := items_trained_on(annotations, test)):
        return []
    if seen > MOST_SEEN * len(scored):
        raise RealmError(
            f"{seen:,} of the {len(scored):,} test items are among those trained on: the figures would say what the "
            "model knows by heart. Test on other items; a finished run can be evaluated on any."
        )
    return [seen_warning(seen, len(scored))]


def gold_items(test: Annotations) -> Ints:
    """Index of every item with gold."""
    if test.gold is None or not (test.gold != UNKNOWN).any():
        raise RealmError("the test table has no gold labels to score against. Name the column with `gold`.")
    return np.flatnonzero(test.gold != UNKNOWN)


def _answers(items: Ints, test: Annotations, scores: Scores) -> Answers:
    assert test.gold is not None
    return Answers(
        truth=test.gold[items].astype(np.int64),
        answer=scores.labels[items],
        confidence=scores.confidence[items],
        log_probs=scores.log_probs[items],
        task=test.item_tasks[items].astype(np.int64),
        answer_mass=None if scores.answer_mass is None else scores.answer_mass[items],
    )


def _figures_of_task(test: Annotations, answers: Answers) -> dict[str, Any]:
    """The metrics of one task and the figures of its labels, or of the options' positions."""
    names = test.tasks[answers.task[0]].labels
    figures = _figures(answers, shared_labels=names is not None)
    return figures | figures_by_label(answers.truth, answers.answer, names)


def _figures(answers: Answers, shared_labels: bool) -> dict[str, Any]:
    """Every metric that applies; None for one that averages over labels where the items share no label set."""
    applicable = [m for m in METRICS.values() if m.needs is None or getattr(answers, m.needs) is not None]
    figures: dict[str, Any] = {"items": len(answers.truth)}
    for metric in applicable:
        figures[metric.name] = metric.compute(answers) if shared_labels or not metric.by_label else None
    bins = reliability(answers.confidence, answers.truth == answers.answer)
    return figures | {"reliability": [each._asdict() for each in bins]}


def figures_by_label(truth: Ints, answer: Ints, names: tuple[str, ...] | None) -> dict[str, Any]:
    """`labels`, `confusion` and `by_position` of `evaluate` for one task; `names` is its label set, if it has one."""
    width = int(max(truth.max(), answer.max())) + 1 if names is None else len(names)
    shown = [f"option {position + 1}" for position in range(width)] if names is None else list(names)
    precision, recall, f1, support, answered = (column.tolist() for column in label_figures(truth, answer, width))
    rows = zip(shown, precision, recall, f1, support, answered, strict=True)
    keys = ("label", "precision", "recall", "f1", "support", "answered")
    return {
        "labels": [
            {
                key: None if isinstance(value, float) and np.isnan(value) else value
                for key, value in zip(keys, row, strict=True)
            }
            for row in rows
        ],
        "confusion": confusion_matrix(truth, answer, width).tolist() if width <= LARGEST_MATRIX else None,
        "by_position": names is None,
    }
