"""`realm label-studio`: the annotations of a live project as a table, and a run's labels back into it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from realm.cli.emit import check_outputs, print_json, write_annotations
from realm.cli.flags import AsJson, Overwrite, RunFolder
from realm.cli.progress import progress_display
from realm.cli.relabel import Costs, MostEach, read_costs
from realm.cli.terminal import listed, note
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.integrations.label_studio import Project

KEY = "LABEL_STUDIO_API_KEY"
EXAMPLES = 5
"""Predictions and tasks that a dry run shows."""
Url = Annotated[str, typer.Option("--url", help="Address of the server, such as https://labels.example.org.")]
Number = Annotated[int, typer.Option("--project", metavar="N", help="Number of the project, as in its address.")]
ControlTag = Annotated[str | None, typer.Option("--control", help="Name of the tag with the label, of several.")]
TextField = Annotated[str | None, typer.Option("--text", help="Data field with the text.")]

app = typer.Typer(
    help=f"Read a live project, or write a run into it. The key is read from {KEY}, or asked for.",
    no_args_is_help=True,
)


@app.command()
def pull(
    url: Url,
    project: Number,
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .parquet or .csv.")],
    control: ControlTag = None,
    text: TextField = None,
    multi: Annotated[Literal["first", "drop"] | None, typer.Option(help="Of several choices in one answer.")] = None,
    predictions: Annotated[bool, typer.Option("--predictions", help="Read predictions of models too.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the annotations of a Label Studio project as a table."""
    from realm.integrations.label_studio import pull as pull_annotations

    check_outputs(output, overwrite=overwrite)
    place = _open_project(url, project)
    with progress_display() as progress:
        annotations = pull_annotations(
            place, control=control, text=text, multi=multi, predictions=predictions, progress=progress
        )
    write_annotations(annotations, output)


@app.command()
def push(
    folder: RunFolder,
    url: Url,
    project: Number,
    control: ControlTag = None,
    text: TextField = None,
    budget: Annotated[float, typer.Option(metavar="N", min=0, help="Annotations to queue, or their cost.")] = 100,
    costs: Costs = None,
    most_each: MostEach = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write cleaned labels as predictions and the relabel queue as data fields.

    A second push changes nothing; a new run takes the place of the earlier one.
    """
    from realm.integrations.label_studio import push as push_run
    from realm.runs import Run

    run = Run.open(folder, verify_model=False)
    queue = run.relabel(budget, read_costs(costs), most_each) if budget else None
    place = _open_project(url, project)
    with progress_display() as progress:
        plan = push_run(place, run, queue, control=control, text=text, dry_run=dry_run, progress=progress)
    if queue is not None and len(queue) and place.settings.get("show_collab_predictions"):
        note(
            "note: the project shows predictions to annotators. For an unbiased second opinion turn off Settings, "
            "Annotation, Use predictions to prelabel tasks."
        )
    if plan.gone:
        note(f"{len(plan.gone):,} items of the run are no task of the project any more: {listed(plan.gone)}")
    figures = {"model_version": plan.model_version, "written": len(plan.create), "unchanged": plan.unchanged}
    figures |= {"removed": len(plan.remove), "replaced": plan.replaced, "queued": plan.queue}
    figures |= {"tasks_changed": len(plan.queue_fields), "items_gone": len(plan.gone)}
    if as_json:
        print_json(figures)
    elif dry_run:
        fields = dict(list(plan.queue_fields.items())[:EXAMPLES])
        print_json({"predictions": plan.create[:EXAMPLES], "tasks": fields}, indent=2)
    done = "would be" if dry_run else "were"
    note(
        f"{len(plan.create):,} predictions {done} written as {plan.model_version}, {plan.unchanged:,} are there "
        f"already; {len(plan.remove):,} wrong ones and {sum(plan.replaced.values()):,} of earlier runs {done} removed; "
        f"{plan.queue:,} tasks are queued, {len(plan.queue_fields):,} {done} changed for it."
    )


def _open_project(url: str, number: int) -> Project:
    """The project, with the key from the environment or from a prompt that does not show it."""
    from realm.integrations.label_studio import Project, Server

    key = os.environ.get(KEY, "")
    if not key.strip() and not sys.stdin.isatty():
        raise RealmError(f"no key: put a personal access token of Label Studio into the variable {KEY}.")
    if not key.strip():
        key = typer.prompt(f"Key of {url} (a personal access token; {KEY} was not set)", hide_input=True, err=True)
    return Project.open(Server(url, key), number)
