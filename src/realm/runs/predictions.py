"""A run's answers beside the table that was asked: every row its answer, in order, the table's own columns kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    """Refuse a text that is written as the path of a file, which is not there."""
    if PATH.fullmatch(text.strip()):
        raise RealmError(
            f"{text}: there is no such file. Check the path. If it is a text to be answered, put it into a table."
        )


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

    columns = {place: pd.Series(_values(column), dtype=object) for place, column in enumerate(table.columns)}
    return pd.DataFrame(columns).set_axis(table.column_names, axis=1)


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # times beyond those that Python knows
        return list(column.cast(pa.large_string()).to_pylist())
