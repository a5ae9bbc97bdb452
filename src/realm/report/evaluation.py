"""The figures of a test with gold on a page: every metric, every label, who is taken for whom, how sure answers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.crowd.engine import Floats
from realm.crowd.label_figures import main_mistake, wilson
from realm.metrics import BINS, METRICS
from realm.report import charts
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.svg import percent

MATRIX = 20
"""Most labels of a drawn confusion matrix: its cells stay legible and it fits on a screen."""
LISTED = 100
"""Most labels of a table: what a person scrolls through."""
NAME = 40
"""Most characters of a label in a table."""


@dataclass(frozen=True)
class LabelRow:
    """A label with its figures as they are written; `mistaken` is the wrong answer that it is given most often."""

    label: str
    support: str
    precision: str
    recall: str
    f1: str
    mistaken: str


@dataclass(frozen=True)
class TaskFigures:
    """The labels of one task, or the positions of options; `left_out` tells how many are not listed."""

    task: str
    by_position: bool
    rows: list[LabelRow]
    left_out: int
    confusion: Figure | None


@dataclass(frozen=True)
class Evaluation:
    """A test as a page shows it: figures over all items and by task, then label by label.

    `interval` is that of the accuracy; `base_rate` is None where it was not measured.
    """

    items: int
    accuracy: float
    interval: tuple[float, float]
    base_rate: float | None
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    tasks: list[TaskFigures]
    reliability: Figure | None


def evaluation(figures: Mapping[str, Any] | None) -> Evaluation | None:
    """What `realm.metrics.evaluate` gave, ready for a page; None where nothing was tested."""
    if not figures or figures.get("accuracy") is None:
        return None
    parts = {"": figures, **figures.get("tasks", {})}
    metrics = [metric for metric in METRICS.values() if isinstance(figures.get(metric.name), int | float)]
    items = int(figures.get("items", 0))
    low, high = wilson(figures["accuracy"], items)
    return Evaluation(
        items=items,
        accuracy=float(figures["accuracy"]),
        interval=(float(low), float(high)),
        base_rate=figures.get("base_rate"),
        columns=["Items", *(metric.title for metric in metrics)],
        rows=[
            (task, [f"{int(part.get('items', 0)):,}", *(_written(part.get(m.name), m.format) for m in metrics)])
            for task, part in parts.items()
        ],
        tasks=[task_figures(part, task) for task, part in parts.items() if part.get("labels")],
        reliability=_reliability(figures.get("reliability") or []),
    )


def task_figures(figures: Mapping[str, Any], task: str = "") -> TaskFigures:
    """The labels of one task, from what `realm.metrics.figures_by_label` gives."""
    labels: Sequence[Mapping[str, Any]] = figures["labels"]
    confusion = None if figures.get("confusion") is None else np.asarray(figures["confusion"], dtype=np.float64)
    listed = sorted(sorted(range(len(labels)), key=lambda index: -labels[index]["support"])[:LISTED])
    rows = [
        LabelRow(
            label=clipped(labels[index]["label"], NAME),
            support=f"{labels[index]['support']:,}",
            mistaken=_mistaken(labels, confusion, index),
            **{name: _written(labels[index][name], ".3f") for name in ("precision", "recall", "f1")},
        )
        for index in listed
    ]
    figure = None
    if confusion is not None and 1 < len(labels) <= MATRIX:
        note = "rows: gold, columns: answers; the colour is the share of the row, the figure the items"
        title = f"Confusion matrix{f', {task}' if task else ''}"
        figure = Figure(confusion_picture([row["label"] for row in labels], confusion), title, note)
    return TaskFigures(task, bool(figures.get("by_position")), rows, len(labels) - len(rows), figure)


def _mistaken(labels: Sequence[Mapping[str, Any]], confusion: Floats | None, index: int) -> str:
    mistake = None if confusion is None else main_mistake(confusion, index)
    return "–" if mistake is None else f"{clipped(labels[mistake[0]]['label'], NAME)} ({percent(mistake[1])})"


def confusion_picture(labels: Sequence[str], confusion: Floats) -> Markup:
    """A confusion matrix: right answers on the diagonal in one colour, mistakes in another. `confusion` is (K, K)."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    wrong = np.where(np.eye(len(labels), dtype=bool), 0, confusion)
    worst = [divmod(int(place), len(labels)) for place in np.argsort(-wrong, axis=None, kind="stable")[:3]]
    mistakes = [f"{labels[a]} taken for {labels[b]}: {wrong[a, b]:g}" for a, b in worst if wrong[a, b]]
    cells = [
        [
            charts.Cell(
                f"{confusion[row, column]:,.4g}",
                float(shares[row, column]),
                "above" if row == column else "below",
                f"gold {label}, answered {answer}: {confusion[row, column]:,.4g} ({percent(shares[row, column])})",
            )
            for column, answer in enumerate(labels)
        ]
        for row, label in enumerate(labels)
    ]
    description = "; ".join(mistakes) if mistakes else "No label is taken for another."
    return charts.matrix("Gold and answers", description, labels, labels, cells, width=(38.0, 56.0))


def _reliability(bins: Sequence[Mapping[str, Any]]) -> Figure | None:
    if not bins:
        return None
    items, sure, right = (
        np.array([each[name] for each in bins], dtype=np.float64) for name in ("items", "confidence", "right")
    )
    note = f"answers in {BINS} equally wide bins of confidence; the area is their share; on the diagonal: calibrated"
    title = "Calibration: confidence of the answers, and how often they are right"
    return Figure(charts.reliability(sure, right, items / items.sum(), "right by gold"), title, note)


def _written(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
