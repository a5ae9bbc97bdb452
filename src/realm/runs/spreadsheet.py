"""CSV files meant for people: whole or absent, and with no cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from realm.errors import RealmError
from realm.files import replaceable

if TYPE_CHECKING:
    import pandas as pd

# A cell that has marks already gets one more, so that taking one off always gives back what was there.
_RUNS = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]\d+(\.\d+)?([eE][+-]?\d+)?")


def write_csv(frame: pd.DataFrame, path: str | Path, raw: bool = False) -> None:
    """Write a DataFrame as CSV beside its place, then rename it there.

    Text that begins with =, +, -, @, tab, CR or LF gets a ' in front, so that a spreadsheet shows it instead of running
    it; `raw` leaves it as it is. Numbers stay numbers, those with a sign too.
    """
    with csv_in_parts(path, raw) as write:
        write(frame)


@contextmanager
def csv_in_parts(path: str | Path, raw: bool = False) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that appends frames of the same columns to a CSV file, which takes its place when all are written."""
    path = replaceable(Path(path))
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".csv")
        with open(handle, "w", encoding="utf-8", newline="") as file:

            def write(frame: pd.DataFrame) -> None:
                part = frame if raw else guarded(frame)
                part.to_csv(file, index=False, header=not file.tell(), lineterminator="\n", quoting=_quoting(part))

            yield write
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise RealmError(f"{path}: cannot be written: {error.strerror or error}.") from None
    finally:
        if name:
            Path(name).unlink(missing_ok=True)


def guarded(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with a ' before every text, names of columns included, that a spreadsheet would run."""
    return _mapped(frame, lambda text: f"'{text}" if _RUNS.match(text) and not _NUMBER.fullmatch(text) else text)


def read_csv(path: str | Path, text: Sequence[str]) -> pd.DataFrame:
    """The table that `write_csv` was given; the columns of `text` are text, whatever they look like."""
    import pandas as pd

    return unguarded(pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False))


def unguarded(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that `guarded` was given, for who reads such a file back."""
    return _mapped(frame, lambda text: text[1:] if text.startswith("'") and _RUNS.match(text) else text)


def _mapped(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    changed = frame.copy(deep=False)
    for position in _text_columns(frame):
        cells = [change(cell) if isinstance(cell, str) else cell for cell in frame.iloc[:, position]]
        changed.isetitem(position, cells)
    return changed.set_axis([change(name) if isinstance(name, str) else name for name in frame.columns], axis=1)


def _text_columns(frame: pd.DataFrame) -> list[int]:
    return [position for position, kind in enumerate(frame.dtypes) if getattr(kind, "kind", "O") not in "biufcmM"]


def _quoting(frame: pd.DataFrame) -> Literal[0, 2]:
    """Quote all text where any has a carriage return: it is not quoted otherwise, and would begin a row of its own."""
    returns = any(
        isinstance(cell, str) and "\r" in cell for position in _text_columns(frame) for cell in frame.iloc[:, position]
    )
    return csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
