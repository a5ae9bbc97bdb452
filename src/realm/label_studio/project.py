"""A Label Studio project: its control tags, its annotators, and its tasks page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from realm.data.roles import listed
from realm.errors import RealmError
from realm.label_studio.client import NotFound, Server
from realm.progress import Progress, ignore_progress

PAGE_SIZE = 100
"""Tasks of one request: Label Studio's own page."""
CONTROLS = {"Choices": "choices", "Rating": "rating"}
"""Control tags that give a label, and what their results are called."""
LISTED_PROJECTS = 20
"""Projects that a message names."""


@dataclass(frozen=True)
class Control:
    """A control tag that gives labels: its name, the tag it is about, the data field that tag shows, its labels.

    `labels` is empty where every task lists its own (`<Choices value="$options">`), and for a rating.
    """

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
        """The project of this number; a wrong one is an error that names those there are."""
        try:
            settings = server.get(f"/api/projects/{number}/")
        except NotFound:
            there = _projects(server)
            raise RealmError(
                f"`project={number}`: there is no such project at {server.url}, or the key's owner may not see it. "
                f"There are: {listed(there) if there else 'none'}."
            ) from None
        if not isinstance(settings, dict) or "label_config" not in settings:
            raise RealmError(f"{server.url} does not answer as Label Studio does. Is `url` right?")
        return cls(server, number, settings)

    @property
    def source(self) -> str:
        """What messages call it."""
        return f"{self.server.url} project {self.number}"

    @cached_property
    def controls(self) -> dict[str, Control]:
        """Its control tags that give labels, by name."""
        controls = {}
        for name, tag in (self.settings.get("parsed_label_config") or {}).items():
            inputs = tag.get("inputs") or [{}]
            if tag.get("type") in CONTROLS:
                labels = tuple(map(str, tag.get("labels") or ())) if tag["type"] == "Choices" else ()
                to_name = str((tag.get("to_name") or [""])[0])
                controls[name] = Control(name, CONTROLS[tag["type"]], to_name, str(inputs[0].get("value")), labels)
        return controls

    def control(self, name: str | None = None) -> Control:
        """The control tag of this name, or the only one."""
        tags = self.settings.get("parsed_label_config") or {}
        if name is None and len(self.controls) == 1:
            return next(iter(self.controls.values()))
        if name in self.controls:
            return self.controls[name]
        there = listed(list(self.controls)) if self.controls else "none"
        if name is not None and name in tags:
            reason = f"`control={name}`: a tag of the kind {tags[name].get('type')}, which gives no label"
        elif name is not None:
            reason = f"`control={name}`: there is no such tag"
        elif self.controls:
            raise RealmError(f"{self.source}: which tag is the label? Name one with `control`: {there}.")
        else:
            reason = "no tag gives a label"
        raise RealmError(f"{self.source}: {reason}. Choices and Rating tags: {there}.")

    @cached_property
    def annotators(self) -> dict[int, str]:
        """The e-mail addresses of those who annotated it, by the number that annotations have."""
        try:
            users = self.server.get(f"/api/projects/{self.number}/annotators/")
        except NotFound:  # a server before 1.21
            users = self.server.get("/api/users/")
        return {user["id"]: str(user["email"]) for user in users if user.get("email")}

    def tasks(self, progress: Progress = ignore_progress, page_size: int = PAGE_SIZE) -> Iterator[dict[str, Any]]:
        """All tasks with their annotations and predictions, by rising number.

        Each page is asked for by the number of the last task before it, so that tasks which come or go meanwhile, and
        pages that had to be asked for twice, leave no gap and double nothing.
        """
        last = done = 0
        while True:
            page, total = self._page(last, page_size)
            numbers = [int(task["id"]) for task in page]
            if any(number <= before for before, number in zip([last, *numbers], numbers, strict=False)):
                raise RealmError(
                    f"{self.source}: the server does not sort tasks by number. Is it of version 1.20 or later?"
                )
            yield from page
            if not page:
                return
            last, done = numbers[-1], done + len(page)
            progress("tasks", done, done + total - len(page))

    def task(self, number: int) -> dict[str, Any] | None:
        """One task as it is now; None where it is gone."""
        page, _ = self._page(number - 1, 1)
        return page[0] if page and int(page[0]["id"]) == number else None

    def _page(self, after: int, size: int) -> tuple[list[dict[str, Any]], int]:
        """The first tasks behind number `after`, and how many there are. Addresses in data come as they were stored:
        the address of one task (`/api/tasks/N/`) would give them resolved."""
        behind = {"filter": "filter:tasks:id", "operator": "greater", "value": after, "type": "Number"}
        query = {"filters": {"conjunction": "and", "items": [behind]}, "ordering": ["tasks:id"]}
        answer = self.server.get(
            "/api/tasks",
            project=self.number,
            page_size=size,
            fields="all",
            resolve_uri="false",
            query=json.dumps(query),
        )
        return answer["tasks"], int(answer["total"])


def _projects(server: Server) -> list[str]:
    answer = server.get("/api/projects/", page_size=LISTED_PROJECTS)
    projects = answer.get("results", []) if isinstance(answer, dict) else answer
    return [f"{project['id']} ({project['title']})" for project in projects]
