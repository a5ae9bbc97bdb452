"""The model on a page: its learning curves, and the figures of a test with gold, by label and by confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from realm.crowd.engine import Floats
from realm.crowd.label_figures import main_mistake, wilson
from realm.metrics import BINS, METRICS
from realm.report.charts import Axis, Cell, line_chart, matrix
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.svg import percent

MATRIX = 20
"""Most labels of a drawn confusion matrix: its cells stay legible and it fits on a screen."""
LISTED, NAME = 100, 40
"""Most labels of a table, and characters of a label."""


def evaluation(figures: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What `realm.metrics.evaluate` gave, ready for a page; None where nothing was tested."""
    if not figures or figures.get("accuracy") is None:
        return None
    parts = {"": figures, **figures.get("tasks", {})}
    metrics = [metric for metric in METRICS.values() if isinstance(figures.get(metric.name), int | float)]
    items, bins = int(figures.get("items", 0)), figures.get("reliability") or []
    low, high = wilson(figures["accuracy"], items)
    return {
        "n_items": items,
        "accuracy": float(figures["accuracy"]),
        "interval": (float(low), float(high)),
        "base_rate": figures.get("base_rate"),
        "columns": ["#Items", *(f"#{metric.title}" for metric in metrics)],
        "rows": [
            [name or "all", f"{int(part.get('items', 0)):,}", *(_written(part.get(m.name), m.format) for m in metrics)]
            for name, part in parts.items()
        ],
        "tasks": [by_label(part, name) for name, part in parts.items() if part.get("labels")],
        "reliability": _reliability(bins) if bins else None,
    }


def by_label(figures: Mapping[str, Any], task: str = "") -> dict[str, Any]:
    """The labels of one task, from what `realm.metrics.figures_by_label` gives, with the confusion matrix."""
    labels: Sequence[Mapping[str, Any]] = figures["labels"]
    confusion = None if figures.get("confusion") is None else np.asarray(figures["confusion"], dtype=np.float64)
    rows = []
    for index in sorted(sorted(range(len(labels)), key=lambda index: -labels[index]["support"])[:LISTED]):
        label, mistake = labels[index], None if confusion is None else main_mistake(confusion, index)
        shares = [_written(label[name], ".3f") for name in ("precision", "recall", "f1")]
        wrong = "–" if mistake is None else f"{clipped(labels[mistake[0]]['label'], NAME)} ({percent(mistake[1])})"
        rows.append([clipped(label["label"], NAME), f"{label['support']:,}", *shares, wrong])
    figure = None
    if confusion is not None and 1 < len(labels) <= MATRIX:
        figure = _confusion_figure([row["label"] for row in labels], confusion)
    facts = {"task": task, "by_position": bool(figures.get("by_position")), "left_out": len(labels) - len(rows)}
    return {**facts, "rows": rows, "confusion": figure}


def _confusion_figure(labels: Sequence[str], confusion: Floats) -> Figure:
    """A confusion matrix (K, K): right answers on the diagonal in one colour, mistakes in another."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    cells = []
    for row, label in enumerate(labels):
        line = []
        for column, answer in enumerate(labels):
            n, share = f"{confusion[row, column]:,.4g}", float(shares[row, column])
            hint = f"gold {label}, answered {answer}: {n} ({percent(share)})"
            line.append(Cell(n, share, "above" if row == column else "below", hint))
        cells.append(line)
    recalls = ", ".join(f"{label} {percent(shares[row, row])}" for row, label in enumerate(labels))
    note = "rows: gold, columns: answers; the colour is the share of the row, the figure the items"
    picture = matrix("Gold and answers", f"Right answers by label: {recalls}", labels, labels, cells)
    return Figure(picture, "Confusion matrix", note)


def _reliability(bins: Sequence[Mapping[str, Any]]) -> Figure:
    """How often answers are right, by how sure they are; on the diagonal they are as right as they claim."""
    columns = ([each[name] for each in bins] for name in ("confidence", "right", "items"))
    sure, right, items = (np.array(column, dtype=np.float64) for column in columns)
    shares = items / items.sum()
    hints = [
        f"confidence {percent(a)}: {percent(b)} of {percent(c)} of items"
        for a, b, c in zip(sure, right, shares, strict=True)
    ]
    axes = Axis("confidence of the model", percent, (0, 1)), Axis("right by gold", percent, (0, 1))
    caption = "Calibration: confidence of the answers, and how often they are right"
    note = f"answers in {BINS} equally wide bins of confidence; the area is their share; on the diagonal: calibrated"
    return Figure(line_chart(caption, sure, right, *axes, shares=shares, hints=hints), caption, note)


def curves(metrics: Mapping[str, Any]) -> list[Figure]:
    """The learning curve and accuracy on the test items while training, as far as logged."""
    figures = []
    for entry, axis, caption, note in (
        ("loss", Axis("loss per annotation"), "Learning curve", "mean loss per annotation"),
        ("eval_accuracy", Axis("accuracy", percent), "Accuracy on the test items", "gold measures, and does not train"),
    ):
        logged = [(row["step"], row[entry]) for row in metrics.get("history", []) if entry in row and "step" in row]
        x, y = np.array(logged, dtype=np.float64).reshape(-1, 2).T
        if np.isfinite(y).sum() > 1:
            figures.append(Figure(line_chart(caption, x, y, Axis("training step"), axis), caption, note))
    return figures


def _written(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
