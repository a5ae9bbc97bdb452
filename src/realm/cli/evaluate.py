"""`realm evaluate`: how good a run's answers are on a table with gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from realm.cli.flags import AsJson, takes
from realm.cli.screen import note, progress_bar, show_table
from realm.cli.source import Source


@takes(Source)
def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    test: Annotated[Path, typer.Argument(help="Table with text and gold.")],
    source: Source,
    generation: Annotated[bool, typer.Option(help="Also let the model answer freely, and score that.")] = True,
    as_json: AsJson = False,
) -> None:
    """Accuracy, macro-F1, calibration error and answer mass, in all and per task."""
    from realm.runs import Run

    opened = Run.open(run)
    table = source.read_test(test, tasks=opened.tasks)

    from realm.metrics import LOW_MASS

    with progress_bar() as progress:
        figures = opened.evaluate(table, generation=generation, progress=progress)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        _show(figures)
    if figures.get("answer_mass", 1.0) < LOW_MASS:
        note(
            f"warning: only {figures['answer_mass']:.2f} of the probability lies on the answers. Answer through "
            "`realm predict` or the model card's snippet; free generation may say something else."
        )


def _show(figures: dict[str, Any]) -> None:
    parts = {"all": figures, **figures.get("tasks", {})}
    columns = [name for name in figures if name != "tasks"]
    rows = [[part, *(values.get(name) for name in columns)] for part, values in parts.items()]
    show_table("On the items with gold", ["task", *columns], rows)
