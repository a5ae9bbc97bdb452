"""A project's annotations as a table: who gave which label, when, and how long it took.

What a result means is for the reader of Label Studio's export (`realm.data.readers.label_studio`): a pulled project is
read as its export would be.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from realm.data import Annotations
from realm.data.answers import answers_of
from realm.data.build import build
from realm.data.label_sets import sorted_labels
from realm.data.read_options import Multi, ReadOptions
from realm.data.readers import label_studio
from realm.data.readers.files import SourceFile
from realm.data.roles import check_word
from realm.data.source import Source
from realm.errors import RealmError
from realm.label_studio.project import Project
from realm.progress import Progress, ignore_progress

OUR_VERSIONS = "realm:"
"""What the `model_version` of every prediction that was pushed begins with."""
UPDATED = "annotation changed after it was given: as it is now"
DRAFT = "draft that was not submitted"
WITHOUT_USER = "annotation of somebody whose account was deleted"
AT_ONCE = timedelta(seconds=1)
"""Label Studio notes the time of a change within this of the time of creation though nothing was changed."""


def pull(
    project: Project,
    *,
    control: str | None = None,
    text: str | None = None,
    multi: Multi | None = None,
    ground_truth: Literal["gold", "annotations"] = "gold",
    predictions: bool = False,
    progress: Progress = ignore_progress,
) -> Annotations:
    """All annotations of a project, with the ledger of what was left out or changed.

    The labels are those of the control tag, whether somebody has given them or not.

    Args:
        project: where they are.
        control: the tag that gives the label; may be left out where there is one.
        text: the data field with the text; by default the one that the control tag is about.
        multi: several choices in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        ground_truth: whether annotations that are marked as ground truth are the items' gold, or annotations like any
            other: Label Studio marks all annotations that are imported with a task, unless told otherwise.
        predictions: also read predictions, each by an annotator of the name of its `model_version`; those that were
            pushed from a run are never read.
        progress: called with how many tasks have arrived.
    """
    chosen = project.control(control)
    check_word("ground_truth", ground_truth, ("gold", "annotations"))
    tasks = [_as_exported(task, project, predictions) for task in project.tasks(progress)]
    if ground_truth == "annotations":
        tasks = [{**task, "annotations": [{**a, "ground_truth": False} for a in task["annotations"]]} for task in tasks]
    if not tasks:
        raise RealmError(f"{project.source}: there are no tasks in it.")
    answers = (result for task in tasks for each in task["annotations"] for result in each.get("result") or ())
    if not any(result.get("from_name") == chosen.name for result in answers):
        raise RealmError(f"{project.source}: nobody has labelled anything with the tag {chosen.name} yet.")
    if all(each.get("ground_truth") for task in tasks for each in task["annotations"]):
        raise RealmError(
            f"{project.source}: all annotations are marked as ground truth, as Label Studio marks what is imported "
            'with a task. Give `ground_truth="annotations"` to read them as annotations.'
        )
    fields = {name for task in tasks for name in task["data"]}
    if text is not None and text not in fields:
        raise RealmError(f"{project.source}: `text={text}`: no task has this data field: {', '.join(sorted(fields))}.")
    options = ReadOptions(text=text or chosen.field, label=chosen.name, multi=multi)
    long = label_studio.read(SourceFile(Path(), Source(project.source), tasks), options)
    for reason, count in (
        (DRAFT, lambda task: len(task["drafts"])),
        (WITHOUT_USER, lambda task: task["without_user"]),
        (UPDATED, lambda task: sum(map(_updated, task["annotations"]))),
    ):
        long.ledger.add(reason, [row for row, task in enumerate(tasks, 1) for _ in range(count(task))])
    occurring = {label for cell in long.columns["label"].to_pylist() for label in answers_of(cell)}
    labels = sorted_labels(chosen.labels) if occurring <= set(chosen.labels) else None
    return build(long, replace(options, labels=labels))


def _as_exported(task: dict[str, Any], project: Project, predictions: bool) -> dict[str, Any]:
    """A task as Label Studio's JSON export has it, with annotators by their e-mail address."""
    annotations = [
        {**annotation, "completed_by": _annotator(annotation.get("completed_by"), project)}
        for annotation in task.get("annotations") or ()
        if annotation.get("completed_by") is not None
    ]
    without_user = len(task.get("annotations") or ()) - len(annotations)
    for prediction in (task.get("predictions") or ()) if predictions else ():
        if not str(prediction.get("model_version")).startswith(OUR_VERSIONS):
            annotations.append({**prediction, "completed_by": prediction.get("model_version"), "lead_time": None})
    own = {name: task[name] for name in ("id", "data")}
    return {**own, "annotations": annotations, "drafts": task.get("drafts") or (), "without_user": without_user}


def _annotator(completed_by: Any, project: Project) -> Any:
    return project.annotators.get(completed_by, completed_by) if isinstance(completed_by, int) else completed_by


def _updated(annotation: dict[str, Any]) -> bool:
    """Whether an annotation that counts was changed after it was given."""
    if annotation.get("was_cancelled"):
        return False
    times = [annotation.get(name) for name in ("created_at", "updated_at")]
    try:
        created, updated = (datetime.fromisoformat(str(time)) for time in times)
        return updated - created > AT_ONCE
    except (ValueError, TypeError):
        return False
