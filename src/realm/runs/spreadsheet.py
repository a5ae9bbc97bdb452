"""CSV files for people: whole or absent, and with no cell that a spreadsheet would run. We never read them back."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from realm.files import replacing, writing

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""Text that begins with marks already gets one more, so that taking one off always gives back what was there."""
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
    path = Path(path)
    with writing(path, advice=""), replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:

        def write(frame: pd.DataFrame) -> None:
            part = frame if raw else guarded(frame)
            texts = part.select_dtypes(exclude=["number", "bool", "datetime"]).to_numpy().ravel()
            # a carriage return is not quoted otherwise, and would begin a row of its own
            has_return = any(isinstance(text, str) and "\r" in text for text in texts)
            quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL
            part.to_csv(file, index=False, header=not file.tell(), lineterminator="\n", quoting=quoting)

        yield write


def guarded(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with a ' before every text, names of columns included, that a spreadsheet would run."""
    import pandas as pd

    changed = frame.copy(deep=False)
    for position, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") not in "biufcmM":
            cells = [_guarded(value) for value in frame.iloc[:, position]]
            changed.isetitem(position, pd.Series(cells, dtype=object).to_numpy())  # not floats where one is missing
    return changed.set_axis([_guarded(name) for name in frame.columns], axis=1)


def _guarded(value: Any) -> Any:
    is_formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value
