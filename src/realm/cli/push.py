"""`realm push`: a run's labels and what to label again, written into the live project that the labels came from; its
model, to the Hugging Face hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.emit import print_json
from realm.cli.flags import AsJson, RunFolder
from realm.cli.label_studio import ControlTag, Number, TextField, Url, open_project
from realm.cli.progress import progress_display
from realm.cli.relabel import Costs, MostEach, read_costs
from realm.cli.terminal import note, show_table
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.integrations.label_studio import Plan

EXAMPLES = 5
"""Predictions and tasks that a dry run shows."""

app = typer.Typer(help="Put labels of a run into a live project, or its model on the hub.", no_args_is_help=True)


@app.callback()
def push() -> None:
    """Put labels of a run into a live project, or its model on the hub."""


@app.command("label-studio")
def label_studio(
    folder: RunFolder,
    url: Url,
    project: Number,
    control: ControlTag = None,
    text: TextField = None,
    budget: Annotated[
        float, typer.Option(help="How many annotations to queue, or what they may cost; 0 queues nothing.", min=0)
    ] = 100,
    costs: Costs = None,
    most_each: MostEach = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cleaned labels as predictions and the relabel queue as data fields, in a Label Studio project.

    A second push changes nothing; a new run takes the place of the earlier one. The key is read from
    LABEL_STUDIO_API_KEY, or asked for.
    """
    from realm.integrations.label_studio import push
    from realm.runs import Run

    run = Run.open(folder, verify_model=False)
    queue = run.relabel(budget, read_costs(costs), most_each) if budget else None
    place = open_project(url, project)
    with progress_display() as progress:
        plan = push(place, run, queue, control=control, text=text, dry_run=dry_run, progress=progress)
    if queue is not None and len(queue) and place.settings.get("show_collab_predictions"):
        note(
            "note: the project shows predictions to annotators. For an unbiased second opinion turn off Settings, "
            "Annotation, Use predictions to prelabel tasks."
        )
    if plan.gone:
        note(f"{len(plan.gone):,} items of the run are no task of the project any more: {', '.join(plan.gone[:10])}")
    if as_json:
        print_json(_figures(plan))
    elif dry_run:
        _show(plan)
    done = "would be" if dry_run else "were"
    earlier = sum(plan.replaced.values())
    note(
        f"{len(plan.create):,} predictions {done} written as {plan.model_version}, {plan.unchanged:,} are there "
        f"already; {len(plan.remove):,} wrong ones and {earlier:,} of earlier runs {done} removed; "
        f"{plan.queue:,} tasks are queued, {len(plan.queue_fields):,} {done} changed for it."
    )


@app.command("hub")
def hub(
    folder: RunFolder,
    repo_id: Annotated[str, typer.Option("--id", help="The repository: owner/name.")],
    public: Annotated[bool, typer.Option("--public", help="If it is made for this, make it a public one.")] = False,
) -> None:
    """The model with its card, to the Hugging Face hub; no annotator is named.

    The token is read from HF_TOKEN, or from where `hf auth login` put it.
    """
    from realm.runs import Run
    from realm.runs.hub import PushError

    try:
        address = Run.open(folder, verify_model=False).push_to_hub(repo_id, private=not public)
    except PushError as error:
        raise RealmError(f"{error.what}: give the same command again.") from None
    note(f"The model is on the Hugging Face hub: {address}")


def _figures(plan: Plan) -> dict[str, object]:
    return {
        "model_version": plan.model_version,
        "written": len(plan.create),
        "unchanged": plan.unchanged,
        "removed": len(plan.remove),
        "replaced": plan.replaced,
        "queued": plan.queue,
        "tasks_changed": len(plan.queue_fields),
        "items_gone": len(plan.gone),
    }


def _show(plan: Plan) -> None:
    """The first of what would be written."""
    from realm.data.readers.label_studio import ASK, PRIORITY

    if plan.create:
        rows = [(p["task"], str(p["result"][0]["value"]), p["score"]) for p in plan.create[:EXAMPLES]]
        show_table("Predictions that would be written", ["task", "says", "score"], rows)
    if plan.queue_fields:
        first = sorted(plan.queue_fields.items(), key=lambda entry: entry[1].get(PRIORITY) or float("inf"))[:EXAMPLES]
        fields = [(number, data.get(PRIORITY), data.get(ASK)) for number, data in first]
        show_table("Tasks whose fields would change", ["task", PRIORITY, ASK], fields)
