"""A run's cleaned labels and its relabel queue written into the project that its labels came from.

A push compares what the project holds with what it should hold and writes the difference, until there is none. So a
second push writes nothing, a push that was cut anywhere is finished by the same command, and nothing is there twice.
Only what REALM wrote is ever changed or removed: predictions whose `model_version` begins with `realm:CONTROL:`, and
the data fields `realm_priority` and `realm_ask`. A project that shows no predictions yet, or those of an earlier run,
shows those of this run; Label Studio does the same when predictions are imported with their tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from realm.data.readers.label_studio import ASK, PRIORITY
from realm.errors import RealmError
from realm.files import MANIFEST, sha256
from realm.label_studio.client import NotFound, UnknownOutcome
from realm.label_studio.project import Control, Project
from realm.label_studio.pull import OUR_VERSIONS
from realm.progress import Progress, ignore_progress
from realm.runs import Run

if TYPE_CHECKING:
    import pandas as pd

BATCH = 200
"""Predictions of one request: below a second on a small server."""
ROUNDS = 10
"""How often what the project holds is read again after a connection was cut before we give up."""
SCORE_DIGITS = 6
"""Decimals of a prediction's score: more than anybody reads."""
NAME_LENGTH = 80
"""Characters of a run's name in `model_version`."""


@dataclass(frozen=True)
class Plan:
    """What a push would write.

    | field | meaning |
    |---|---|
    | model_version | the name of this run's predictions |
    | create | predictions that are missing, as the API takes them |
    | remove | ids of this run's predictions that are wrong or there twice |
    | replaced | how many predictions each earlier run has, by its name |
    | queue_fields | the data fields of tasks whose place in the queue changes, by their id; empty: they go |
    | shown | whether the project is to show this run's predictions: it shows none yet, or an earlier run's |
    | unchanged | how many predictions are there already |
    | queue | how many tasks are in the queue |
    | gone | items of the run that are no task of the project any more |
    """

    model_version: str
    create: list[dict[str, Any]]
    remove: list[int]
    replaced: dict[str, int]
    queue_fields: dict[int, dict[str, Any]]
    shown: bool = False
    unchanged: int = 0
    queue: int = 0
    gone: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the project holds all of it already."""
        return not (self.create or self.remove or self.replaced or self.queue_fields or self.shown)


def push(
    project: Project,
    run: Run,
    queue: pd.DataFrame | None = None,
    *,
    control: str | None = None,
    text: str | None = None,
    dry_run: bool = False,
    progress: Progress = ignore_progress,
) -> Plan:
    """Write a run's labels as predictions and its queue as data fields; returns what was to be written.

    Args:
        project: the project that the run's labels were pulled from: its items are the project's tasks.
        run: whose labels are written.
        queue: what to label again, as `Run.relabel` gives it, the most urgent first; None or empty clears it.
        control: the control tag of the predictions; may be left out where there is one.
        text: the data field with the text; by default the one that the control tag is about.
        dry_run: write nothing.
        progress: called with how many requests are done.
    """
    chosen = project.control(control)
    desired = _Desired(run, queue, chosen, project.source)
    plan = first = desired.plan(project, text or chosen.field)
    if dry_run:
        return first
    for _ in range(ROUNDS):
        if plan.is_empty:
            return first
        with suppress(UnknownOutcome):  # what has arrived is seen when the project is read again
            _write(project, plan, progress)
        plan = desired.plan(project, text or chosen.field)
    raise RealmError(
        f"{project.source}: what was written was not there afterwards, {ROUNDS} times. Does somebody else write into "
        "it, or is the connection cut again and again? Give the same command again."
    )


class _Desired:
    """What the project should hold: a prediction for every item, and the fields of the queue."""

    def __init__(self, run: Run, queue: pd.DataFrame | None, control: Control, source: str) -> None:
        labels = run.labels
        if labels["task"].nunique() > 1:
            raise RealmError(f"{run.folder}: a run of several tasks; a project takes the labels of one.")
        names = sorted(set(labels["label"]))
        if control.labels and (unknown := [name for name in names if name not in control.labels]):
            raise RealmError(
                f"{source}: its tag {control.name} has no label {unknown[0]!r}, which the run {run.folder} has. "
                f"It has: {', '.join(control.labels)}. Name another tag with `control`, or another `project`."
            )
        if control.kind == "rating" and (unknown := [name for name in names if not name.isdigit()]):
            raise RealmError(f"{source}: its tag {control.name} is a rating, and {unknown[0]!r} is no number.")
        self.control, self.source, self.run = control, source, run
        self.prefix = f"{OUR_VERSIONS}{control.name}:"
        name = run.folder.resolve().name[:NAME_LENGTH]
        self.version = f"{self.prefix}{name}@{sha256(run.folder / MANIFEST)[:8]}"
        rows = zip(labels["item"], labels["text"], labels["label"], labels["confidence"], strict=True)
        self.items = {item: (text, label, round(float(score), SCORE_DIGITS)) for item, text, label, score in rows}
        queued = [] if queue is None else list(zip(queue["item"], queue["ask"], strict=True))
        self.fields = {item: {PRIORITY: place, ASK: ask} for place, (item, ask) in enumerate(queued, 1)}

    def plan(self, project: Project, text: str) -> Plan:
        plan = Plan(self.version, [], [], {}, {}, queue=len(self.fields))
        now_shown = str(project.settings.get("model_version") or "")
        shown = now_shown != self.version and (not now_shown or now_shown.startswith(self.prefix))
        seen, unchanged = set(), 0
        for task in project.tasks():
            item, number = str(task["id"]), int(task["id"])
            ours = [each for each in task["predictions"] if str(each["model_version"]).startswith(self.prefix)]
            for prediction in ours:
                if prediction["model_version"] != self.version:
                    version = str(prediction["model_version"])
                    plan.replaced[version] = plan.replaced.get(version, 0) + 1
            own = [each for each in ours if each["model_version"] == self.version]
            if item in self.items:
                seen.add(item)
                wanted = self._prediction(number, item, task["data"].get(text))
                right = [each for each in own if _same(each, wanted)]
                plan.remove.extend(each["id"] for each in own if each not in right[:1])
                unchanged += bool(right)
                if not right:
                    plan.create.append(wanted)
            else:
                plan.remove.extend(each["id"] for each in own)
            fields = self.fields.get(item, {})
            if _queue_fields(task["data"]) != fields:
                plan.queue_fields[number] = fields
        gone = [item for item in self.items if item not in seen]
        if not seen:
            raise RealmError(
                f"{self.source}: none of its tasks is an item of {self.run.folder}. Was it trained on a table that "
                "`realm label-studio pull` wrote of this project?"
            )
        return replace(plan, shown=shown, unchanged=unchanged, gone=gone)

    def _prediction(self, number: int, item: str, text: Any) -> dict[str, Any]:
        ours, label, score = self.items[item]
        if str(text).split() != ours.split():  # spaces may have been trimmed on the way
            raise RealmError(
                f"{self.source}, task {item}: its text is not that of the item {item} of {self.run.folder}. The run "
                "is of another project, or the text was changed since: pull and train again."
            )
        result = [self.control.result(label)]
        return {"task": number, "model_version": self.version, "score": score, "result": result}


def _same(prediction: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a prediction on the server says what is wanted; the server adds fields of its own."""
    results = prediction.get("result")
    if not isinstance(results, list) or len(results) != len(wanted["result"]):
        return False
    score = prediction.get("score")
    return (
        isinstance(score, int | float)
        and math.isclose(score, wanted["score"], abs_tol=10.0**-SCORE_DIGITS)
        and all(
            isinstance(result, dict) and all(result.get(name) == value for name, value in expected.items())
            for result, expected in zip(results, wanted["result"], strict=True)
        )
    )


def _write(project: Project, plan: Plan, progress: Progress) -> None:
    """Write a plan: new predictions before the old ones go, so that at no moment one is missing."""
    address = f"/api/projects/{project.number}"
    batches = list(_batches(plan.create, BATCH))
    total, done = len(batches) + len(plan.queue_fields) + len(plan.remove) + len(plan.replaced) + plan.shown, 0

    def step() -> None:
        nonlocal done
        done += 1
        progress("writing", done, total)

    for batch in batches:
        answer = project.server.send("POST", f"{address}/import/predictions", batch, repeatable=False)
        if not isinstance(answer, dict) or answer.get("created") != len(batch):
            raise RealmError(f"{project.source}: the server took {answer} of {len(batch)} predictions.")
        step()
    for number, fields in plan.queue_fields.items():
        _write_fields(project, number, fields)
        step()
    for number in plan.remove:
        _remove(project, f"/api/predictions/{number}/", None)
        step()
    if plan.shown:  # scores are in the Data Manager's column only of the predictions that are shown
        project.server.send("PATCH", f"{address}/", {"model_version": plan.model_version})
        project.settings["model_version"] = plan.model_version
        step()
    for version in plan.replaced:
        _remove(project, f"{address}/model-versions/", {"model_version": version})
        step()


def _queue_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in (PRIORITY, ASK) if name in data}


def _write_fields(project: Project, number: int, fields: Mapping[str, Any]) -> None:
    """Write the data fields of the queue into a task. A PATCH replaces all of its data, so it is read just before: what
    people changed since the push began stays."""
    task = project.task(number)
    if task is not None and _queue_fields(task["data"]) != fields:
        others = {name: value for name, value in task["data"].items() if name not in (PRIORITY, ASK)}
        with suppress(NotFound):
            project.server.send("PATCH", f"/api/tasks/{number}/", {"data": {**others, **fields}})


def _remove(project: Project, path: str, body: Any) -> None:
    """Remove something that may be gone already."""
    with suppress(NotFound):
        project.server.send("DELETE", path, body)


def _batches(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
