"""`realm pull`: the annotations of a live project as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from realm.cli.flags import Overwrite
from realm.cli.label_studio import ControlTag, Number, TextField, Url, open_project
from realm.cli.output_files import check_outputs, note_labels
from realm.cli.progress import progress_display
from realm.cli.terminal import note, note_ledger
from realm.display import counted

app = typer.Typer(help="Bring the annotations of a live project as a table.", no_args_is_help=True)


@app.callback()
def pull() -> None:
    """Bring the annotations of a live project as a table."""


@app.command("label-studio")
def label_studio(
    url: Url,
    project: Number,
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .parquet or .csv.")],
    control: ControlTag = None,
    text: TextField = None,
    multi: Annotated[
        Literal["first", "drop"] | None,
        typer.Option(help="Several choices in one annotation: keep the first, or none."),
    ] = None,
    ground_truth: Annotated[
        Literal["gold", "annotations"],
        typer.Option(help="What annotations marked as ground truth are. Label Studio marks those that are imported."),
    ] = "gold",
    predictions: Annotated[
        bool, typer.Option("--predictions", help="Also read predictions, as annotators of their model version's name.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """All annotations of a Label Studio project: who gave which label, when, and how long it took.

    The key is read from LABEL_STUDIO_API_KEY, or asked for.
    """
    from realm.data.write import write_table
    from realm.integrations.label_studio import pull

    check_outputs(output, overwrite=overwrite)
    place = open_project(url, project)
    with progress_display() as progress:
        annotations = pull(
            place,
            control=control,
            text=text,
            multi=multi,
            ground_truth=ground_truth,
            predictions=predictions,
            progress=progress,
        )
    write_table(annotations, output)
    note_ledger(annotations.ledger)
    note_labels(annotations)
    note(f"{counted(annotations.n_annotations, 'annotation')} of {counted(annotations.n_items, 'item')} in {output}")
