"""Where a command may write: never over what it reads."""

from __future__ import annotations

import os
from pathlib import Path

from realm.errors import RealmError


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
    from realm.training.run_folder import WRITTEN

    if not (place := output.resolve()).is_relative_to(run.resolve()):
        return
    inside = place.relative_to(run.resolve()).parts
    if inside and (inside[0] in ("model", "checkpoints") or inside in [(name,) for name in WRITTEN]):
        raise RealmError(f"--output {output}: this is a file of the run itself. Name another file.")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from realm.training.files import write_text as write

    try:
        write(path, text)
    except OSError as error:
        raise RealmError(f"{path}: cannot be written: {error.strerror or error}.") from None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
