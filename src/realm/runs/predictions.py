"""A run's answers beside the table that was asked: every row its answer, in order, the table's own columns kept."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

ANSWER = ("label", "confidence", "probabilities")
"""The columns of an answer."""
PREFIX = "predicted_"
ENDING = r"\.(csv|tsv|txt|json|jsonl|ndjson|parquet|xlsx|xls|zip|gz|feather|arrow)"
FILE_NAME = re.compile(rf"\S+{ENDING}", re.IGNORECASE)
"""A text of one word that ends as a table's file does."""
PATH = re.compile(rf"(~|\.{{0,2}})[/\\].*|[A-Za-z]:[/\\].*|\S*[/\\]\S*|.*{ENDING}", re.IGNORECASE | re.DOTALL)
"""What is written as a path is: from a root, a home or here on, one word with a separator, or a table's ending."""
LONGEST_PATH = 4096  # bytes, on Linux


def asked_table(asked: Any) -> pd.DataFrame | pa.Table | None:
    """What is asked, if it is a table: a DataFrame, an Arrow table, a `datasets.Dataset` or a list of dictionaries."""
    import pandas as pd

    if isinstance(asked, pa.Table | pd.DataFrame):
        return asked
    if hasattr(asked, "column_names") and hasattr(asked, "to_pandas"):  # a `datasets.Dataset`
        frame: pd.DataFrame = asked.to_pandas()
        return frame
    if isinstance(asked, list | tuple) and asked and all(isinstance(row, Mapping) for row in asked):
        return pd.DataFrame(list(asked))
    return None


def refuse_file_name(text: str, argument: str) -> None:
    """Refuse a text that is the name of a file, which somebody wants read rather than judged as a text."""
    if FILE_NAME.fullmatch(text.strip()):
        raise RealmError(
            f"`{argument}={text}` looks like a file. Give `Run.predict` its `Path({text!r})` for its rows, or "
            f"`[{text!r}]` for the text itself."
        )


def refuse_path(text: str) -> None:
    """Refuse a text that somebody means as the path of a file, which is not there.

    It is written as a path is; or it lies in a folder that is there; or it is a file's name but for the ending.
    """
    name = text.strip()
    folder, stem = os.path.split(name)
    if len(name) > LONGEST_PATH:
        return
    beside = _file_names(folder or ".")
    same_stem = [file for file in beside if stem and os.path.splitext(file)[0] == stem]
    if PATH.fullmatch(name) or (folder and beside) or same_stem:
        near = same_stem or difflib.get_close_matches(stem, beside, n=1)
        hint = f" Did you mean {os.path.join(folder, near[0])}?" if near else ""
        raise RealmError(
            f"{text}: there is no such file. Check the path.{hint} If it is a text to be answered, put it into a table."
        )


def _file_names(folder: str) -> list[str]:
    """What lies in a folder; nothing where there is none, or none that may be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def answer_names(own: Iterable[Any]) -> dict[str, str]:
    """What the columns of an answer are called beside a table's own: `predicted_label` where it has a `label`.

    Examples:
        >>> answer_names(["text", "label"])
        {'label': 'predicted_label', 'confidence': 'confidence', 'probabilities': 'probabilities'}
    """
    taken, names = set(own), {}
    for name in ANSWER:
        names[name] = name
        while names[name] in taken:
            names[name] = PREFIX + names[name]
        taken.add(names[name])
    return names


def with_answers(table: pd.DataFrame | pa.Table, answers: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table, and behind them the answers to its rows (rows,)."""
    import pandas as pd

    own = frame_of(table) if isinstance(table, pa.Table) else table
    columns = answers[list(ANSWER)].rename(columns=answer_names(own.columns)).set_axis(own.index)
    joined: pd.DataFrame = pd.concat([own, columns], axis=1)
    return joined


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The columns of an Arrow table as they are: whole numbers beside missing ones stay whole, lists stay lists."""
    import pandas as pd

    columns = [_values(table, position) for position in range(table.num_columns)]
    frame = pd.DataFrame({position: pd.Series(values, dtype=object) for position, values in enumerate(columns)})
    return frame.set_axis(table.column_names, axis=1)


def _values(table: pa.Table, position: int) -> Sequence[Any]:
    column = table.column(position)
    try:
        try:
            return list(column.to_pylist())
        except (ValueError, OverflowError):  # times beyond those that Python knows
            return list(column.cast(pa.large_string()).to_pylist())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        name = table.column_names[position]
        reason = str(error).split("\n", 1)[0]
        raise RealmError(f"the column '{name}' holds values that cannot be written again ({reason}).") from None
