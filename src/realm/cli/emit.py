"""What a command gives back: tables in files, JSON for a script, CSV in a pipe, tables for a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.cli.terminal import write_out

if TYPE_CHECKING:
    import pandas as pd


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

    written = {path: frame for path, frame in files.items() if path is not None}
    for path, frame in written.items():
        write_csv(frame, path, raw=raw)
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
