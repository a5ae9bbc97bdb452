"""The loop with Label Studio: a project's annotations pulled as a table, a run's labels and queue pushed back.

    server = Server("http://localhost:8080", os.environ["LABEL_STUDIO_API_KEY"])
    project = Project.open(server, 3)
    write_table(pull(project), "labels.parquet")
    push(project, Run.open("runs/monday"))

A push compares what the project holds with what it should hold and writes the difference, until there is none. So a
second push writes nothing, a push that was cut anywhere is finished by the same command, and nothing is there twice.
Only what REALM wrote is ever changed or removed: predictions whose `model_version` begins with `realm:CONTROL:`, and
the data fields `realm_priority` and `realm_ask`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from realm.data import Annotations
from realm.data.answers import answers_of
from realm.data.build import build
from realm.data.label_sets import sorted_labels
from realm.data.read_options import Multi, ReadOptions
from realm.data.readers import label_studio
from realm.data.readers.exports import Export
from realm.data.readers.files import SourceFile
from realm.data.readers.label_studio import ASK, PRIORITY
from realm.data.roles import check_word, listed
from realm.data.source import Source
from realm.errors import RealmError
from realm.files import MANIFEST, sha256
from realm.integrations.label_studio_server import NotFound, Server, UnknownOutcome
from realm.progress import Progress, ignore_progress
from realm.runs import Run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Control", "Plan", "Project", "Server", "pull", "push"]
OUR_VERSIONS = "realm:"  # what the `model_version` of every prediction that was pushed begins with
DRAFT = "draft that was not submitted"
WITHOUT_USER = "annotation of somebody whose account was deleted"
CONTROLS = {"Choices": "choices", "Rating": "rating"}
"""Control tags that give a label, and what their results are called."""
PAGE_SIZE, BATCH = 100, 200
"""Tasks of one request (Label Studio's own page), and predictions of one: below a second on a small server."""
ROUNDS = 10
"""How often what the project holds is read again after a connection was cut before we give up."""
SCORE_DIGITS, NAME_LENGTH = 6, 80
"""Decimals of a prediction's score, and characters of a run's name in `model_version`."""


@dataclass(frozen=True)
class Control:
    """A tag that gives labels, the tag and the data field it is about, and its labels: none where tasks list theirs."""

    name: str
    kind: str
    to_name: str
    field: str
    labels: tuple[str, ...]

    def result(self, label: str) -> dict[str, Any]:
        """The result that says this label, as an annotation or a prediction holds it."""
        value = {"choices": [label]} if self.kind == "choices" else {"rating": int(label)}
        return {"from_name": self.name, "to_name": self.to_name, "type": self.kind, "value": value}


@dataclass(frozen=True)
class Project:
    """One project on a server; `settings` is what the server says of it."""

    server: Server
    number: int
    settings: dict[str, Any]

    @classmethod
    def open(cls, server: Server, number: int) -> Project:
        """The project of this number."""
        try:
            settings = server.get(f"/api/projects/{number}/")
        except NotFound:
            raise RealmError(
                f"`project={number}`: there is no such project at {server.url}, or the key's owner may not see it."
            ) from None
        if not isinstance(settings, dict) or "label_config" not in settings:
            raise RealmError(f"{server.url} does not answer as Label Studio does. Is `url` right?")
        return cls(server, number, settings)

    @property
    def source(self) -> str:
        """What messages call it."""
        return f"{self.server.url} project {self.number}"

    def control(self, name: str | None = None) -> Control:
        """The control tag of this name, or the only one."""
        tags = self.settings.get("parsed_label_config") or {}
        there = {name: tag for name, tag in tags.items() if tag.get("type") in CONTROLS}
        if name is None and len(there) == 1:
            name = next(iter(there))
        if name is None or name not in there:
            raise RealmError(
                f"{self.source}: which tag is the label? Name one with `control`. Choices and Rating tags: "
                f"{listed(list(there))}."
            )
        tag = there[name]
        labels = tuple(map(str, tag.get("labels") or ())) if tag["type"] == "Choices" else ()
        shown = str((tag.get("inputs") or [{}])[0].get("value"))
        return Control(name, CONTROLS[tag["type"]], str((tag.get("to_name") or [""])[0]), shown, labels)

    @cached_property
    def annotators(self) -> dict[int, str]:
        """The e-mail addresses of those who annotated it, by the number that annotations have."""
        users = self.server.get(f"/api/projects/{self.number}/annotators/")
        return {user["id"]: str(user["email"]) for user in users if user.get("email")}

    def tasks(self, progress: Progress = ignore_progress) -> Iterator[dict[str, Any]]:
        """All tasks with their annotations and predictions, by rising number.

        Each page is asked for by the number of the last task before it, so that tasks which come or go meanwhile, and
        pages that had to be asked for twice, leave no gap and double nothing.
        """
        last = done = 0
        while True:
            page, total = self._page(last, PAGE_SIZE)
            for task in page:
                if task["id"] <= last:
                    raise RealmError(
                        f"{self.source}: the server does not sort tasks by number. Is it of version 1.20 or later?"
                    )
                last = task["id"]
                yield task
            if not page:
                return
            done += len(page)
            progress("tasks", done, done + total - len(page))

    def task(self, number: int) -> dict[str, Any] | None:
        """One task as it is now; None where it is gone."""
        page, _ = self._page(number - 1, 1)
        return page[0] if page and page[0]["id"] == number else None

    def _page(self, after: int, size: int) -> tuple[list[dict[str, Any]], int]:
        """The first tasks behind number `after`, and how many there are. Addresses in data come as they were stored."""
        behind = {"filter": "filter:tasks:id", "operator": "greater", "value": after, "type": "Number"}
        query = json.dumps({"filters": {"conjunction": "and", "items": [behind]}, "ordering": ["tasks:id"]})
        options = {"project": self.number, "page_size": size, "fields": "all", "resolve_uri": "false", "query": query}
        answer = self.server.get("/api/tasks", **options)
        return answer["tasks"], int(answer["total"])


# ---------------------------------------------------------------- pull


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
    """All annotations of a project, read as its export would be, with the ledger of what was left out or changed.

    Args:
        project: where they are.
        control: the tag that gives the label; may be left out where there is one.
        text: the data field with the text; by default the one that the control tag is about.
        multi: several choices in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        ground_truth: what annotations marked as ground truth are; Label Studio marks all that are imported with a task.
        predictions: also read predictions, by annotators of the name of their `model_version`, but for a run's own.
        progress: called with how many tasks have arrived.
    """
    chosen = project.control(control)
    check_word("ground_truth", ground_truth, ("gold", "annotations"))
    reasons: dict[str, list[int]] = {DRAFT: [], WITHOUT_USER: []}
    tasks: list[dict[str, Any]] = []
    for row, task in enumerate(project.tasks(progress), 1):
        annotations = []
        for annotation in task.get("annotations") or ():
            person = annotation.get("completed_by")
            if person is None:
                reasons[WITHOUT_USER].append(row)
                continue
            own = {"completed_by": project.annotators.get(person, person) if isinstance(person, int) else person}
            own |= {"ground_truth": False} if ground_truth == "annotations" else {}
            annotations.append({**annotation, **own})
        if predictions:
            for prediction in task.get("predictions") or ():
                if not str(prediction.get("model_version")).startswith(OUR_VERSIONS):
                    annotations.append(
                        {**prediction, "completed_by": prediction.get("model_version"), "lead_time": None}
                    )
        reasons[DRAFT] += [row] * len(task.get("drafts") or ())
        tasks.append({"id": task["id"], "data": task["data"], "annotations": annotations})
    given = [each for task in tasks for each in task["annotations"]]
    if not any(result.get("from_name") == chosen.name for each in given for result in each.get("result") or ()):
        raise RealmError(f"{project.source}: nobody has labelled anything with the tag {chosen.name} yet.")
    if all(each.get("ground_truth") for each in given):
        raise RealmError(
            f"{project.source}: all annotations are marked as ground truth, as Label Studio marks what is imported "
            'with a task. Give `ground_truth="annotations"` to read them as annotations.'
        )
    options = ReadOptions(text=text or chosen.field, label=chosen.name, multi=multi)
    long = label_studio.read(Export(SourceFile(Path(), Source(project.source), tasks), options))
    for reason, rows in reasons.items():
        long.ledger.add(reason, rows)
    occurring = {label for cell in long.columns["label"].to_pylist() for label in answers_of(cell)}
    labels = sorted_labels(chosen.labels) if occurring <= set(chosen.labels) else None
    return build(long, replace(options, labels=labels))


# ---------------------------------------------------------------- push


@dataclass(frozen=True)
class Plan:
    """What a push would write; `gone` are items of the run that are no task of the project any more."""

    model_version: str
    create: list[dict[str, Any]] = field(default_factory=list)  # predictions that are missing, as the API takes them
    remove: list[int] = field(default_factory=list)  # ids of this run's predictions that are wrong or there twice
    replaced: dict[str, int] = field(default_factory=dict)  # how many predictions each earlier run has
    queue_fields: dict[int, dict[str, Any]] = field(default_factory=dict)  # by task; empty: the fields go
    shown: bool = False  # whether the project is to show this run's predictions
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
        project: the project that the run's labels were pulled from.
        run: whose labels are written.
        queue: what to label again, as `Run.relabel` gives it, the most urgent first; None or empty clears it.
        control, text: as in `pull`.
        dry_run: write nothing.
        progress: called with how many requests are done.
    """
    chosen = project.control(control)
    first = plan = _plan(project, run, queue, chosen, text or chosen.field)
    for _ in range(ROUNDS):
        if dry_run or plan.is_empty:
            return first
        with suppress(UnknownOutcome):  # what has arrived is seen when the project is read again
            _write(project, plan, progress)
        plan = _plan(project, run, queue, chosen, text or chosen.field)
    raise RealmError(
        f"{project.source}: what was written was not there afterwards, {ROUNDS} times. Does somebody else write into "
        "it, or is the connection cut again and again? Give the same command again."
    )


def _plan(project: Project, run: Run, queue: pd.DataFrame | None, control: Control, text: str) -> Plan:
    """The difference between what the project holds and what it should: a prediction for every item, and the queue."""
    rows: list[Any] = run.labels.to_dict("records")
    if len({row["task"] for row in rows}) > 1:
        raise RealmError(f"{run.folder}: a run of several tasks; a project takes the labels of one.")
    for name in sorted({row["label"] for row in rows}):
        if (control.labels and name not in control.labels) or (control.kind == "rating" and not name.isdigit()):
            raise RealmError(
                f"{project.source}: its tag {control.name} has no label {name!r}, which the run {run.folder} has. "
                f"It has: {', '.join(control.labels) or 'numbers'}. Name another tag with `control`."
            )
    prefix = f"{OUR_VERSIONS}{control.name}:"
    version = f"{prefix}{run.folder.resolve().name[:NAME_LENGTH]}@{sha256(run.folder / MANIFEST)[:8]}"
    shown = str(project.settings.get("model_version") or "")
    items = {row["item"]: row for row in rows}
    queued = [] if queue is None else enumerate(zip(queue["item"], queue["ask"], strict=True), 1)
    fields = {item: {PRIORITY: place, ASK: ask} for place, (item, ask) in queued}
    is_shown = shown != version and (not shown or shown.startswith(prefix))
    plan, seen, unchanged = Plan(version, shown=is_shown, queue=len(fields)), set(), 0
    for task in project.tasks():
        item = str(task["id"])
        ours = [each for each in task["predictions"] if str(each["model_version"]).startswith(prefix)]
        for each in ours:
            if each["model_version"] != version:
                plan.replaced[each["model_version"]] = plan.replaced.get(each["model_version"], 0) + 1
        own, right = [each for each in ours if each["model_version"] == version], []
        if item in items:
            seen.add(item)
            row = items[item]
            if str(task["data"].get(text)).split() != row["text"].split():  # spaces may have been trimmed on the way
                raise RealmError(
                    f"{project.source}, task {item}: its text is not that of the item {item} of {run.folder}. The run "
                    "is of another project, or the text was changed since: pull and train again."
                )
            wanted = {"model_version": version, "score": round(float(row["confidence"]), SCORE_DIGITS)}
            wanted |= {"task": task["id"], "result": [control.result(row["label"])]}
            right = [each for each in own if _same(each, wanted)][:1]
            unchanged += len(right)
            plan.create.extend([] if right else [wanted])
        plan.remove.extend(each["id"] for each in own if each not in right)
        if _queue_fields(task["data"]) != fields.get(item, {}):
            plan.queue_fields[task["id"]] = fields.get(item, {})
    if not seen:
        raise RealmError(
            f"{project.source}: none of its tasks is an item of {run.folder}. Was it trained on a table that "
            "`realm label-studio pull` wrote of this project?"
        )
    return replace(plan, unchanged=unchanged, gone=[item for item in items if item not in seen])


def _same(prediction: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a prediction on the server says what is wanted; the server adds fields of its own to results."""
    results, score = prediction.get("result"), prediction.get("score")
    if not isinstance(results, list) or len(results) != 1 or not isinstance(score, int | float):
        return False
    says = isinstance(results[0], dict) and wanted["result"][0].items() <= results[0].items()
    return says and abs(score - wanted["score"]) <= 10.0**-SCORE_DIGITS


def _queue_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in (PRIORITY, ASK) if name in data}


def _write(project: Project, plan: Plan, progress: Progress) -> None:
    """Write a plan: new predictions before the old ones go, so that at no moment one is missing."""
    address, send = f"/api/projects/{project.number}", project.server.send
    total, done = len(plan.create) + len(plan.queue_fields) + len(plan.remove) + len(plan.replaced), 0

    def step(count: int = 1) -> None:
        nonlocal done
        done += count
        progress("writing", done, total)

    for start in range(0, len(plan.create), BATCH):
        batch = plan.create[start : start + BATCH]
        answer = send("POST", f"{address}/import/predictions", batch, repeatable=False)
        if not isinstance(answer, dict) or answer.get("created") != len(batch):
            raise RealmError(f"{project.source}: the server took {answer} of {len(batch)} predictions.")
        step(len(batch))
    for number, fields in plan.queue_fields.items():
        # a PATCH replaces all data of a task, so it is read just before: what people changed meanwhile stays
        task = project.task(number)
        if task is not None and _queue_fields(task["data"]) != fields:
            others = {name: value for name, value in task["data"].items() if name not in (PRIORITY, ASK)}
            with suppress(NotFound):
                send("PATCH", f"/api/tasks/{number}/", {"data": {**others, **fields}})
        step()
    for number in plan.remove:
        with suppress(NotFound):
            send("DELETE", f"/api/predictions/{number}/", None)
        step()
    if plan.shown:  # scores are in the Data Manager's column only of the predictions that are shown
        send("PATCH", f"{address}/", {"model_version": plan.model_version})
        project.settings["model_version"] = plan.model_version
    for version in plan.replaced:
        with suppress(NotFound):
            send("DELETE", f"{address}/model-versions/", {"model_version": version})
        step()
