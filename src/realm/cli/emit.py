"""What a command gives back: tables in files, JSON for a script, CSV in a pipe, tables for a person."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.cli.terminal import note, note_ledger, write_out
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations


def emit(
    table: pd.DataFrame,
    show: Callable[[], None],
    files: Mapping[Path | None, pd.DataFrame],
    figures: Mapping[str, Any],
    *,
    as_json: bool,
    raw: bool,
) -> None:
    """Write the tables of `files` (None: no file is asked for), then print one thing to standard output.

    That is `figures` under `--json`; in a terminal, or where files are written, what `show` prints; in a pipe `table`
    as CSV. `raw` leaves in CSV what a spreadsheet would run.
    """
    from realm.runs.spreadsheet import guarded, write_csv

    for path, frame in files.items():
        if path is not None:
            write_csv(frame, path, raw=raw)
            note(f"{counted(len(frame), 'row')} in {path}")
    if as_json:
        print_json(figures)
    elif sys.stdout.isatty() or None not in files:
        show()
    else:
        write_out((table if raw else guarded(table)).to_csv(index=False), end="")


def beside(output: Path | None, what: str) -> Path | None:
    """The file of a second table: NAME.what.csv beside NAME.csv."""
    return None if output is None else output.with_name(f"{output.stem}.{what}{output.suffix or '.csv'}")


def print_json(value: Any, indent: int | None = None) -> None:
    """Print strict JSON; a table is a list of its rows."""
    write_out(to_json(value, indent))


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, which has no NaN (`realm.files.as_json`): tables are lists of rows, what is no JSON is its text."""
    from realm.files import as_json

    def plain(each: Any) -> Any:
        if hasattr(each, "to_dict"):  # a DataFrame
            return as_json(each.astype(object).where(each.notna(), None).to_dict("records"))
        return as_json(each.tolist()) if hasattr(each, "tolist") else str(each)

    return json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, indent=indent, default=plain)


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write the canonical table, and say what is in it and which labels it needs to be read back."""
    from realm.data.label_sets import join_list
    from realm.data.write import labels_follow, write_table

    write_table(annotations, path)
    note_ledger(annotations.ledger)
    if not labels_follow(annotations):
        sets = sorted({join_list(task.labels) for task in annotations.tasks if task.labels is not None})
        flags = " or ".join(f"--labels {shlex.quote(labels)}" for labels in sets)
        note(f"The order of the labels does not follow from the table alone. When reading it, give {flags}")
    note(f"{counted(annotations.n_annotations, 'annotation')} of {counted(annotations.n_items, 'item')} in {path}")


# -------------------------------------------------------------------- where a command may write


def check_outputs(
    *outputs: Path | None, reads: Sequence[Path | None] = (), overwrite: bool = False, own: Path | None = None
) -> None:
    """Refuse an output (None is none) that is a folder, that the command reads, or that is a file of any run.

    Another file that exists is replaced only if asked to. `own` is the one file of what is read that the command is
    there to write: a run's report.
    """
    for output in outputs:
        if output is None or (own is not None and os.path.realpath(output) == os.path.realpath(own)):
            continue
        if os.path.isdir(output):
            raise RealmError(f"{output} is a folder; name a file to write.")
        if _is_run_file(output):
            raise RealmError(f"{output}: this is a file of the run itself. Name another file to write.")
        if any(path is not None and _is_in(output, path) for path in reads):
            raise RealmError(f"{output}: the command reads this file, and would replace it. Name another to write.")
        if os.path.exists(output) and not overwrite:  # not `Path.exists`, which raises where a name is too long
            raise RealmError(f"{output}: exists already. Give --overwrite to replace it.")


def refuse_inside(output: Path, reads: Sequence[Path]) -> None:
    """Refuse an output folder within a folder that is read: what is written there would be read the next time."""
    for path in reads:
        if os.path.isdir(path) and _is_in(output, path):
            raise RealmError(f"--output {output} is in {path}, which is read as a table. Name a folder elsewhere.")


def _is_run_file(output: Path) -> bool:
    from realm.runs.folder import CHECKPOINTS, MODEL, RUN_FILES, holds_run

    place = Path(os.path.realpath(output))
    for folder in place.parents:
        first, *more = place.relative_to(folder).parts
        if (first in (MODEL, CHECKPOINTS) or (first in RUN_FILES and not more)) and holds_run(folder):
            return True
    return False


def _is_in(output: Path, path: Path) -> bool:
    """Whether a path is another one, or lies in a folder."""
    return Path(os.path.realpath(output)).is_relative_to(os.path.realpath(path))
