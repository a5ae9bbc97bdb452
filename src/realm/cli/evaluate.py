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
from realm.cli.terminal import ROWS, note, shortened, show_table

NAME = 16
"""Characters of a label in a table: enough to recognise it, and several fit beside each other."""


@takes(ReadingFlags, without=OF_ANNOTATIONS)
def evaluate(
    folder: RunFolder,
    test: Annotated[Path, typer.Argument(metavar="TABLE", help="Table with text and gold.")],
    reading: ReadingFlags,
    as_json: AsJson = False,
) -> None:
    """Test a run on items with gold: every metric, and figures by label."""
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


def show_figures(figures: Mapping[str, Any]) -> None:
    """The tables of `realm.metrics.evaluate`: every metric, and for each task precision, recall and F1 by label."""
    from realm.metrics import METRICS

    parts = _parts(figures)
    columns = {"Items": [f"{part['items']:,}" for _, part in parts]}
    for metric in (each for each in METRICS.values() if each.name in figures):
        values = [part.get(metric.name) for _, part in parts]
        columns[metric.title] = ["-" if value is None else format(value, metric.format) for value in values]
    if len(parts) == 1:
        show_table("On the items with gold", ["figure", "value"], [[name, *values] for name, values in columns.items()])
    else:
        rows = zip([task or "all" for task, _ in parts], *columns.values(), strict=True)
        show_table("On the items with gold", ["task", *columns], list(rows))
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
    return [("", figures), *figures.get("tasks", {}).items()] if figures else []


def _show_labels(figures: Mapping[str, Any], of_task: str) -> None:
    from realm.crowd.label_figures import main_mistake

    labels, matrix = figures["labels"], figures["confusion"]
    rows = []
    for index, row in enumerate(labels):
        cells = ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("precision", "recall", "f1")]
        mistake = None if matrix is None else main_mistake(matrix, index)
        most = "-" if mistake is None else f"{shortened(labels[mistake[0]]['label'], NAME)} {mistake[1]:.0%}"
        rows.append([shortened(row["label"], NAME), row["support"], *cells, most])
    most_frequent = sorted(range(len(rows)), key=lambda index: -labels[index]["support"])[:ROWS]
    more = f": the {ROWS} most frequent of {len(rows)}" if len(rows) > ROWS else ""
    what = "position of the option" if figures["by_position"] else "label"
    columns = [what, "items", "precision", "recall", "F1", "mistaken most for"]
    show_table(f"By {what}{of_task}{more}", columns, [rows[index] for index in sorted(most_frequent)])
