"""The section on what changed since the run that another goes on from, as rows of text."""

from __future__ import annotations

from typing import Any

from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range
from realm.runs.changes import LEFT, TEST_FIGURES, Changes

MOVED, FLIPPED = 50, 100
"""Most rows of each table: what a person reads through."""
TEXT, NAME = 240, 64
"""Most characters of a text, and of a name or label."""
FIGURES = {"accuracy": "Accuracy", "macro_f1": "Macro F1", "log_loss": "Log loss"}


def since(data: RunData) -> dict[str, Any] | None:
    """What the template shows; None where the run goes on from none."""
    changes = data.changes
    if changes is None:
        return None
    return {
        "run": clipped(changes.run, NAME),
        "sentences": _sentences(changes),
        "moved": [_annotator(row, row["before"]) for row in changes.moved[:MOVED]],
        "moved_more": max(len(changes.moved) - MOVED, 0),
        "left": [_annotator(row) for row in changes.left[:MOVED]],
        "left_note": LEFT,
        "flipped": _flipped(data, changes),
        "flipped_text": f"{changes.flipped_items:,} of {changes.compared_items:,} items of both runs",
        "test": _test(changes),
    }


def _sentences(changes: Changes) -> list[str]:
    """The sentences of the screen but for those that the tables of the section say better."""
    told = [
        f"{changes.new_annotations:,} new annotations, {changes.new_items:,} new items. The model was trained on "
        f"{changes.trained_items:,} items, {changes.replayed_items:,} of them again; annotators and labels are "
        "estimated on all."
    ]
    if changes.gone_annotations or changes.gone_items:
        told.append(f"{changes.gone_annotations:,} annotations and {changes.gone_items:,} items are gone.")
    if changes.new_annotators:
        told.append(f"New annotators: {len(changes.new_annotators):,}.")
    told += [f"New labels of {task}: {', '.join(labels)}." for task, labels in changes.new_labels.items()]
    if changes.new_tasks:
        told.append(f"New tasks: {', '.join(changes.new_tasks)}.")
    return told


def _annotator(row: dict[str, Any], before: float | None = None) -> dict[str, str]:
    return {
        "annotator": clipped(row["annotator"], NAME),
        "task": clipped(row["task"], NAME),
        "before": "" if before is None else percent(before),
        "now": percent(row["now"] if "now" in row else row["accuracy"]),
        "interval": percent_range(row["low"], row["high"]),
    }


def _flipped(data: RunData, changes: Changes) -> list[dict[str, str]]:
    items = data.annotations.items
    rows = {}
    wanted = {(row["task"], row["item"]) for row in changes.flipped[:FLIPPED]}
    for index, item in enumerate(items.ids.to_pylist() if wanted else ()):
        if (key := (items.tasks[items.item_tasks[index]].name, item)) in wanted:
            rows[key] = index
    return [
        {
            "text": clipped(items.texts[rows[key]].as_py(), TEXT) if key in rows else clipped(row["item"], TEXT),
            "before": clipped(row["before"], NAME),
            "now": clipped(row["now"], NAME),
            "confidence": percent(row["confidence"]),
        }
        for row in changes.flipped[:FLIPPED]
        if (key := (row["task"], row["item"]))
    ]


def _test(changes: Changes) -> list[tuple[str, str, str]]:
    if changes.test is None:
        return []
    pairs = [(name, changes.test["before"].get(name), changes.test["now"].get(name)) for name in TEST_FIGURES]
    return [(FIGURES[name], f"{a:.3f}", f"{b:.3f}") for name, a, b in pairs if a is not None and b is not None]
