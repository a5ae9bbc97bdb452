"""`realm export`: a run's cleaned labels in a form that an annotation tool or a script takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from realm.cli.flags import Overwrite, Raw, RunFolder
from realm.cli.output_files import check_outputs
from realm.cli.terminal import note
from realm.display import counted


def export(
    folder: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    format: Annotated[
        Literal["csv", "label-studio"], typer.Option(help="`csv`, or tasks with predictions for Label Studio's import.")
    ] = "csv",
    control: Annotated[str, typer.Option(help="Label Studio: name of the project's Choices tag.")] = "label",
    text: Annotated[str, typer.Option(help="Label Studio: the data field that the project shows.")] = "text",
    raw: Raw = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the cleaned label of every item with its confidence, as CSV or for Label Studio."""
    from realm.data.write import label_studio_tasks
    from realm.files import write_json, writing
    from realm.runs import Run
    from realm.runs.spreadsheet import write_csv

    check_outputs(output, overwrite=overwrite)
    run = Run.open(folder)
    labels = run.labels
    if format == "csv":
        write_csv(labels, output, raw=raw)
    else:
        rows = zip(labels["item"], labels["text"], labels["label"], labels["confidence"], strict=True)
        contexts = labels["context"].tolist() if "context" in labels else None
        tasks = label_studio_tasks(rows, contexts, control=control, text=text)
        with writing(output, advice=""):
            write_json(output, tasks)
    note(f"{counted(len(labels), 'label')} in {output}; confidences are {run.probabilities}")
