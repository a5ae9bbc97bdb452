"""Where a command may write: never over what it reads, and over what is there only if asked to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from realm.cli.screen import note
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.data import Annotations


def refuse_existing(output: Path, overwrite: bool) -> None:
    """Refuse an output that is there already, unless it is to be replaced."""
    if os.path.exists(output) and not overwrite:  # not `Path.exists`, which raises where a name is too long
        raise RealmError(f"--output {output}: exists already. Give --overwrite to replace it.")


def refuse_input(output: Path, *read: Path | None) -> None:
    """Refuse an output that is one of the files a command reads, or a file of a folder that it reads."""
    for path in read:
        if path is None:
            continue
        files = [path, *(path.iterdir() if os.path.isdir(path) else ())]
        if any(_same(output, file) for file in files):
            raise RealmError(f"--output {output}: this is what is read, and would be replaced. Name another file.")


def refuse_run_file(output: Path, run: Path) -> None:
    """Refuse an output that is one of a run's own files; others may lie in its folder."""
    from realm.runs.folder import RUN_FILES

    if not (place := output.resolve()).is_relative_to(run.resolve()):
        return
    inside = place.relative_to(run.resolve()).parts
    if inside and (inside[0] in ("model", "checkpoints") or inside in [(name,) for name in RUN_FILES]):
        raise RealmError(f"--output {output}: this is a file of the run itself. Name another file.")


def note_inventory(annotations: Annotations) -> None:
    """Say which --labels a table that was written needs, where their order does not follow from it."""
    from realm.data.write import labels_hint

    if hint := labels_hint(annotations):
        note(f"When reading it, give --labels {shlex.quote(hint)}: their order does not follow from the table alone.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a disk into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise RealmError(f"{path}: cannot be written: {error.strerror or error}.") from None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
