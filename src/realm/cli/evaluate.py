"""`realm evaluate`: how good a run's answers are on a table with gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from realm.cli.flags import AsJson, RunFolder, takes
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note, progress_bar, show_table


@takes(ReadingFlags)
def evaluate(
    folder: RunFolder,
    test: Annotated[Path, typer.Argument(help="Table with text and gold.")],
    reading: ReadingFlags,
    generation: Annotated[bool, typer.Option(help="Also let the model answer freely, and score that.")] = True,
    as_json: AsJson = False,
) -> None:
    """Accuracy, macro-F1, calibration error and answer mass, in all and per task."""
    from realm.metrics import LOW_MASS
    from realm.runs import Run

    run = Run.open(folder)
    table = reading.read_test(test, tasks=run.tasks)
    with progress_bar() as progress:
        metrics = run.evaluate(table, generation=generation, progress=progress)
    if as_json:
        typer.echo(json.dumps(metrics))
    else:
        _show(metrics)
    if metrics.get("answer_mass", 1.0) < LOW_MASS:
        note(
            f"warning: only {metrics['answer_mass']:.2f} of the probability lies on the answers. Answer through "
            "`realm predict` or the model card's snippet; free generation may say something else."
        )


def _show(metrics: dict[str, Any]) -> None:
    parts = {"all": metrics, **metrics.get("tasks", {})}
    columns = [name for name in metrics if name != "tasks"]
    rows = [[part, *(values.get(name) for name in columns)] for part, values in parts.items()]
    show_table("On the items with gold", ["task", *columns], rows)
