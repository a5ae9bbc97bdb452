"""`realm evaluate`: how good a run's answers are on a table with gold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from realm.cli.emit import print_json
from realm.cli.flags import AsJson, RunFolder, takes
from realm.cli.progress import progress_display
from realm.cli.reading_flags import OF_ANNOTATIONS, ReadingFlags
from realm.cli.terminal import ROWS, note, show_table
from realm.report.escaping import clipped

MATRIX = 6
"""Most labels whose confusion matrix is shown: it stays within 80 columns. The JSON and the report have larger ones."""
TASKS_BESIDE = 4
"""Most columns of tasks, the one over all included, beside each other in 80 columns; more tasks are rows."""
NAME = 16
"""Characters of a label in a table: enough to recognise it, and several fit beside each other."""


@takes(ReadingFlags, without=OF_ANNOTATIONS)
def evaluate(
    folder: RunFolder,
    test: Annotated[Path, typer.Argument(help="Table with text and gold.")],
    reading: ReadingFlags,
    as_json: AsJson = False,
) -> None:
    """Test a run on items with gold: accuracy, base rate, macro F1, log loss, calibration, figures of every label."""
    from realm.metrics import LOW_MASS, seen_warning
    from realm.runs import Run

    run = Run.open(folder)
    table = reading.read_test(test, tasks=run.tasks, trained=run.trained_columns)
    with progress_display() as progress:
        figures = run.evaluate(table, progress=progress)
    if as_json:
        print_json(figures)
    else:
        show_figures(figures)
    warn_of_base_rate(figures)
    if seen := figures["items_trained_on"]:
        note(f"warning: {seen_warning(seen, figures['items'])}")
    if figures.get("answer_mass", 1.0) < LOW_MASS:
        note(
            f"warning: the options have only {figures['answer_mass']:.2f} of the model's probability. Free generation "
            "may give something that is no option: use `realm predict` or the snippet of the model card."
        )


def show_test(metrics: Mapping[str, Any]) -> None:
    """The figures on the test table of a run that has just been trained, where it had one."""
    if figures := metrics.get("test"):
        show_figures(figures)
        warn_of_base_rate(figures)


def show_figures(figures: Mapping[str, Any]) -> None:
    """The tables of `realm.metrics.evaluate`: every metric, and for each task precision, recall and F1 by label."""
    from realm.metrics import METRICS

    parts = _parts(figures)
    names = [clipped(task or "all", NAME) for task, _ in parts]
    columns = {"Items": [f"{part['items']:,}" for _, part in parts]}
    for metric in METRICS.values():
        if metric.name in figures:
            columns[metric.title] = [_formatted(part.get(metric.name), metric.format) for _, part in parts]
    if len(parts) > TASKS_BESIDE:
        by_task = zip(names, *columns.values(), strict=True)
        show_table("On the items with gold", ["task", *columns], list(by_task))
    else:
        header = ["value"] if len(parts) == 1 else names
        show_table("On the items with gold", ["figure", *header], [[title, *row] for title, row in columns.items()])
    for task, part in parts:
        if part.get("labels"):
            _show_labels(part, f", {task}" if task else "")


def warn_of_base_rate(figures: Mapping[str, Any]) -> None:
    """Say so where the model is right no more often than always giving the most frequent label."""
    for task, part in _parts(figures):
        if part.get("base_rate") is not None and part["accuracy"] <= part["base_rate"]:
            note(
                f"warning: {f'{task}: ' if task else ''}accuracy {part['accuracy']:.1%} is no better than the "
                f"base rate, {part['base_rate']:.1%} (always giving the most frequent label)."
            )


def _parts(figures: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The figures over all items, under no name, and those of each task where there are several."""
    return [("", figures), *figures.get("tasks", {}).items()]


def _show_labels(figures: Mapping[str, Any], of_task: str) -> None:
    labels, matrix = figures["labels"], figures["confusion"]
    rows = []
    for index, row in enumerate(labels):
        cells = [_formatted(row[name], ".3f") for name in ("precision", "recall", "f1")]
        rows.append([clipped(row["label"], NAME), row["support"], *cells, _mistake(labels, matrix, index)])
    shown = sorted(range(len(rows)), key=lambda index: -labels[index]["support"])[:ROWS]
    more = f": the {ROWS} most frequent of {len(rows)}" if len(rows) > ROWS else ""
    what = "By position of the option (every item lists its own)" if figures["by_position"] else "By label"
    columns = [
        "option" if figures["by_position"] else "label",
        "items",
        "precision",
        "recall",
        "F1",
        "mistaken most for",
    ]
    show_table(f"{what}{of_task}{more}", columns, [rows[index] for index in sorted(shown)])
    if matrix is not None and 1 < len(labels) <= MATRIX:
        names = [clipped(row["label"], 70 // (len(labels) + 1)) for row in labels]
        counts = [[name, *map(str, row)] for name, row in zip(names, matrix, strict=True)]
        show_table(f"Gold (rows) and answers (columns){of_task}", ["gold", *names], counts)


def _mistake(labels: list[dict[str, Any]], matrix: list[list[int]] | None, index: int) -> str:
    """The wrong answer that a label is given most often, with its share of the label's items."""
    from realm.crowd.label_figures import main_mistake

    mistake = None if matrix is None else main_mistake(matrix, index)
    return "-" if mistake is None else f"{clipped(labels[mistake[0]]['label'], NAME)} {mistake[1]:.0%}"


def _formatted(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
