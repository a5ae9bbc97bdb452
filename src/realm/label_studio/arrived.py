"""What has arrived of a pull, kept in a file beside its output until all of it has.

A pull that was killed, or whose server stayed away, goes on from there. The file has a header, which says of which
project it is and when the pull began, and a line for each task as the server sent it; a line that was cut is not
counted. It is gone when every task has arrived.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from realm.errors import RealmError
from realm.files import writing
from realm.label_studio.project import Project
from realm.locks import claim
from realm.progress import Progress, ignore_progress

logger = logging.getLogger(__name__)

FORMAT = 1
MOST_AGE = 3600.0
"""Seconds after its beginning that a pull is gone on with: annotations that are given meanwhile to tasks which have
arrived come with the next pull, as those do that are given while a long pull is under way."""
_ADVICE = " Mend that, and give the same command again."


def arrived_path(output: Path) -> Path:
    """Where the tasks of a pull to this file are kept meanwhile."""
    return output.with_name(f".{output.name}.realm-pull.jsonl")


def kept_tasks(project: Project, path: Path, progress: Progress = ignore_progress) -> Iterator[dict[str, Any]]:
    """All tasks of a project by rising number, those first that an earlier pull left in the file at `path`.

    Whatever ends it before all tasks have arrived leaves them in the file.
    """
    with writing(path, _ADVICE):
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.fdopen(os.open(path, flags, 0o600), "r+b")
    with file:
        if claim(file.fileno()) is False:
            raise RealmError(f"{path}: another pull to the same `output` is under way. Wait for it, or name another.")
        tasks, is_whole = _arrived(file, path, project), False
        last = int(tasks[-1]["id"]) if tasks else 0
        counted = len(tasks)
        try:
            yield from tasks
            for task in project.tasks(progress, after=last, done=len(tasks)):
                with writing(path, _ADVICE):
                    file.write(json.dumps(task).encode() + b"\n")
                    file.flush()
                counted += 1
                yield task
            is_whole = True
        finally:
            if is_whole or not counted:
                path.unlink(missing_ok=True)


def _arrived(file: IO[bytes], path: Path, project: Project) -> list[dict[str, Any]]:
    """The tasks that the file has of this project; where it has none that count it begins anew."""
    ours = {"format": FORMAT, "url": project.server.url, "project": project.number}
    began, tasks, length = _read(file, ours)
    age = time.time() - began
    if tasks and 0 <= age <= MOST_AGE:
        logger.warning(
            f"going on with {len(tasks):,} tasks of {project.source} that arrived {age / 60:.0f} minutes ago."
        )
    else:
        tasks, length = [], 0
    with writing(path, _ADVICE):
        file.truncate(length)
        file.seek(length)
        if not length:
            file.write(json.dumps({**ours, "began": time.time()}).encode() + b"\n")
            file.flush()
    return tasks


def _read(file: IO[bytes], ours: dict[str, Any]) -> tuple[float, list[dict[str, Any]], int]:
    """When the pull began, its whole tasks, and how many bytes these take; no tasks where it is another project's."""
    file.seek(0)
    header = _parsed(file.readline())
    began = header.pop("began", None)
    if header != ours or not isinstance(began, int | float):
        return 0.0, [], 0
    tasks: list[dict[str, Any]] = []
    length, last = file.tell(), 0
    for line in file:
        task = _parsed(line)
        number = task.get("id")
        if not isinstance(number, int) or number <= last:
            break
        tasks.append(task)
        length, last = length + len(line), number
    return float(began), tasks, length


def _parsed(line: bytes) -> dict[str, Any]:
    """What a whole line says; nothing where it was cut."""
    try:
        content = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
