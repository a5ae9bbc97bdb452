"""Where a command may write: never over what it reads, and over what is there only if asked to."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from realm.cli.terminal import note
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.data import Annotations


def refuse_existing(output: Path, overwrite: bool) -> None:
    """Refuse an output that is there already, unless it is to be replaced."""
    if os.path.exists(output) and not overwrite:  # not `Path.exists`, which raises where a name is too long
        raise RealmError(f"--output {output}: exists already. Give --overwrite to replace it.")


def refuse_input(output: Path | None, file: Path | None) -> None:
    """Refuse an output that is the file a command reads, or a file of the folder that it reads."""
    if output is None or file is None:
        return
    if any(_same(output, each) for each in [file, *(file.iterdir() if os.path.isdir(file) else ())]):
        raise RealmError(f"--output {output}: this is what is read, and would be replaced. Name another file.")


def refuse_run_file(output: Path | None, run: Path) -> None:
    """Refuse an output that is one of a run's own files; others may lie in its folder."""
    from realm.runs.folder import CHECKPOINTS, MODEL, RUN_FILES

    if output is None or not output.resolve().is_relative_to(run.resolve()):
        return
    inside = output.resolve().relative_to(run.resolve()).parts
    if inside and (inside[0] in (MODEL, CHECKPOINTS) or inside in [(name,) for name in RUN_FILES]):
        raise RealmError(f"--output {output}: this is a file of the run itself. Name another file.")


def note_labels(annotations: Annotations) -> None:
    """Say which --labels a table that was written needs, where they do not follow from it."""
    from realm.data.label_sets import join_list
    from realm.data.write import labels_follow

    if labels_follow(annotations):
        return
    label_sets = {task.labels for task in annotations.tasks if task.labels is not None}
    if len(label_sets) == 1:
        labels = shlex.quote(join_list(label_sets.pop()))
        note(f"When reading it, give --labels {labels}: their order does not follow from the table alone.")
    else:
        note("Some labels of its tasks do not occur in it: read back, each task has the labels that do.")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
