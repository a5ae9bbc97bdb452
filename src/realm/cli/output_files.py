"""Where a command may write: never over what it reads, and over what is there only if asked to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from realm.cli.terminal import note
from realm.errors import RealmError
from realm.files import is_being_written

if TYPE_CHECKING:
    from realm.data import Annotations


def check_outputs(
    *outputs: Path | None,
    reads: Sequence[Path | None] = (),
    overwrite: bool = False,
    own: Path | None = None,
    flag: str = "--output",
) -> None:
    """Refuse an output that would replace something; None is no output. The rule of every command that writes a file:

    | the output is | refused |
    |---|---|
    | a file that the command reads, or one in a folder that it reads | always |
    | a run's own file, or in its folders model/ and checkpoints/, whichever run it is | always |
    | any other file that exists | unless `overwrite` |
    | a file that another process is writing | always |

    `own` is the one file of what is read that the command is there to write: a run's report. `flag` names the output.
    """
    for output in outputs:
        if output is None or (own is not None and os.path.realpath(output) == os.path.realpath(own)):
            continue
        if os.path.isdir(output):
            raise RealmError(f"{flag} {output} is a folder; name a file.")
        _refuse_run_file(output, flag)
        for path in reads:
            if path is not None and os.path.exists(output) and _is_in(output, path):
                raise RealmError(
                    f"{flag} {output}: the command reads this file, and would replace it. Name another file."
                )
        if os.path.exists(output) and not overwrite:  # not `Path.exists`, which raises where a name is too long
            raise RealmError(f"{flag} {output}: exists already. Give --overwrite to replace it.")
        if is_being_written(output):
            raise RealmError(f"{flag} {output}: another process is writing it. Wait for it, or name another file.")


def refuse_inside(output: Path, reads: Sequence[Path]) -> None:
    """Refuse an output folder within a folder that is read: what is written there would be read the next time."""
    for path in reads:
        if os.path.isdir(path) and Path(os.path.realpath(output)).is_relative_to(os.path.realpath(path)):
            raise RealmError(f"--output {output} is in {path}, which is read as a table. Name a folder elsewhere.")


def _refuse_run_file(output: Path, flag: str) -> None:
    """Refuse one of a run's own files; others may lie in its folder."""
    from realm.runs.folder import CHECKPOINTS, MODEL, RUN_FILES, holds_run

    place = Path(os.path.realpath(output))
    for folder in place.parents:
        inside = place.relative_to(folder).parts
        is_own = inside[0] in (MODEL, CHECKPOINTS) or inside in [(name,) for name in RUN_FILES]
        if is_own and holds_run(folder):
            raise RealmError(f"{flag} {output}: this is a file of the run itself. Name another file.")


def _is_in(output: Path, path: Path) -> bool:
    """Whether a file that exists is another one, or lies in a folder."""
    if os.path.isdir(path):
        return Path(os.path.realpath(output)).is_relative_to(os.path.realpath(path))
    return os.path.exists(path) and os.path.samefile(output, path)


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
        note("Some labels do not occur in the table: when it is read, each task has only the labels that do.")
