"""The figures of a test with gold on a page: every metric, every label, who is taken for whom, how sure answers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.crowd.engine import Floats
from realm.crowd.label_figures import main_mistake
from realm.metrics import BINS, METRICS
from realm.report import charts
from realm.report.chart_data import Reliability
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.svg import Picture, number, percent

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
    left_out: str
    confusion: Figure | None


@dataclass(frozen=True)
class Evaluation:
    """A test as a page shows it: figures over all items and by task, then label by label."""

    items: str
    sentence: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    tasks: list[TaskFigures]
    reliability: Figure | None


def evaluation(figures: Mapping[str, Any] | None) -> Evaluation | None:
    """What `realm.metrics.evaluate` gave, ready for a page; None where nothing was tested.

    Figures that an earlier version did not write are left out.
    """
    if not figures or figures.get("accuracy") is None:
        return None
    parts = {"": figures, **figures.get("tasks", {})}
    metrics = [metric for metric in METRICS.values() if isinstance(figures.get(metric.name), int | float)]
    return Evaluation(
        items=f"{int(figures.get('items', 0)):,}",
        sentence=_sentence(figures),
        columns=["Items", *(metric.title for metric in metrics)],
        rows=[
            (task, [f"{int(part.get('items', 0)):,}", *(_written(part.get(m.name), m.format) for m in metrics)])
            for task, part in parts.items()
        ],
        tasks=[task_figures(part, task) for task, part in parts.items() if part.get("labels")],
        reliability=_reliability(figures.get("reliability") or []),
    )


def _sentence(figures: Mapping[str, Any]) -> str:
    """Accuracy beside the base rate: whether the model knows more than which label is frequent."""
    if (rate := figures.get("base_rate")) is None:
        return ""
    accuracy = f"The model is right on {figures['accuracy']:.1%} of the items"
    if figures["accuracy"] <= rate:
        return f"{accuracy}, no more than always giving the most frequent label, which is right on {rate:.1%}."
    return f"{accuracy}; always giving the most frequent label would be right on {rate:.1%}."


def task_figures(figures: Mapping[str, Any], task: str = "") -> TaskFigures:
    """The labels of one task, from what `realm.metrics.figures_by_label` gives."""
    labels: Sequence[Mapping[str, Any]] = figures["labels"]
    matrix = None if figures.get("confusion") is None else np.asarray(figures["confusion"], dtype=np.float64)
    listed = sorted(sorted(range(len(labels)), key=lambda index: -labels[index]["support"])[:LISTED])
    rows = [
        LabelRow(
            label=clipped(labels[index]["label"], NAME),
            support=f"{labels[index]['support']:,}",
            precision=_written(labels[index]["precision"], ".3f"),
            recall=_written(labels[index]["recall"], ".3f"),
            f1=_written(labels[index]["f1"], ".3f"),
            mistaken=_mistaken(labels, matrix, index),
        )
        for index in listed
    ]
    left_out = f"{len(labels) - len(rows):,}" if len(labels) > len(rows) else ""
    drawn = matrix is not None and 1 < len(labels) <= MATRIX
    picture = confusion_picture([row["label"] for row in labels], matrix) if drawn and matrix is not None else None
    note = "rows: gold, columns: answers; the colour is the share of the row, the figure the items"
    figure = None if picture is None else Figure(picture, f"Confusion matrix{f', {task}' if task else ''}", note)
    return TaskFigures(task, bool(figures.get("by_position")), rows, left_out, figure)


def _mistaken(labels: Sequence[Mapping[str, Any]], matrix: Floats | None, index: int) -> str:
    mistake = None if matrix is None else main_mistake(matrix, index)
    return "–" if mistake is None else f"{clipped(labels[mistake[0]]['label'], NAME)} ({percent(mistake[1])})"


def confusion_picture(labels: Sequence[str], matrix: Floats) -> Markup:
    """A confusion matrix: right answers on the diagonal in one colour, mistakes in another. `matrix` is (K, K)."""
    left, top, height = 112.0, 66.0, 26.0
    width = min(max(360.0 / len(labels), 38.0), 56.0)  # of a cell: they share a column, and hold a count
    totals = np.maximum(matrix.sum(axis=1), 1)
    worst = [
        f"{labels[row]} taken for {labels[column]}: {matrix[row, column]:g}"
        for row, column in zip(
            *np.unravel_index(np.argsort(-_mistakes(matrix), axis=None)[:3], matrix.shape), strict=True
        )
        if row != column and matrix[row, column]
    ]
    description = "; ".join(worst) if worst else "No label is taken for another."
    picture = Picture(left + width * len(labels) + 50, top + height * len(labels) + 6, "Gold and answers", description)
    for column, label in enumerate(labels):
        x, y = left + width * (column + 0.5) - 6, top - 8
        picture.add("text", clipped(label, 12), hint=label, x=x, y=y, class_="name",
                    transform=f"rotate(-32 {number(x)} {number(y)})")  # fmt: skip
    for row, label in enumerate(labels):
        y = top + height * row
        picture.text(left - 10, y + height / 2 + 4, clipped(label, 15), "name", "end", hint=label)
        for column, answer in enumerate(labels):
            x, share = left + width * column, float(matrix[row, column] / totals[row])
            hint = f"gold {label}, answered {answer}: {matrix[row, column]:,.4g} ({percent(share)})"
            side = "above" if row == column else "below"
            opacity = f"{0.05 + 0.9 * share:.2f}"
            picture.add("rect", hint=hint, x=x, y=y, width=width - 2, height=height - 2, rx=3, class_=f"cell {side}",
                        fill_opacity=opacity)  # fmt: skip
            ink = "strong" if share > 0.55 else ""
            picture.text(x + width / 2 - 1, y + height / 2 + 3, f"{matrix[row, column]:,.4g}", f"heat {ink}", "middle")
    return picture.markup("chart natural")


def _mistakes(matrix: Floats) -> Floats:
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    return wrong


def _reliability(bins: Sequence[Mapping[str, Any]]) -> Figure | None:
    if not bins:
        return None
    items = np.array([each["items"] for each in bins], dtype=np.float64)
    sure, right = (np.array([each[name] for each in bins], dtype=np.float64) for name in ("confidence", "right"))
    chart = charts.reliability(Reliability(sure, right, items / items.sum()), "right by gold")
    note = f"answers in {BINS} equally wide bins of confidence; the area is their share; on the diagonal: calibrated"
    return Figure(chart, "Calibration: confidence of the answers, and how often they are right", note)


def _written(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
