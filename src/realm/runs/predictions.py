"""A run's answers beside the table that was asked: every row its answer, in order, the table's own columns kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

ANSWER = ("label", "confidence", "probabilities")
"""The columns of an answer."""
PREFIX = "predicted_"
"""Before the name of a column of answers where the table has a column of that name."""

_FILE = re.compile(
    r"(~|\.{0,2})[/\\].*|\S*[/\\]\S*|.*\.(csv|tsv|txt|json|jsonl|ndjson|parquet|xlsx|xls|zip|gz|feather|arrow)",
    re.IGNORECASE | re.DOTALL,
)
"""A text that begins as a path does, is one word with a separator, or ends as the name of a table's file."""


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
    if _FILE.fullmatch(text.strip()):
        raise RealmError(
            f"`{argument}`: {text} looks like a file. Check the path and, in Python, give it as a `Path`. If it is a "
            "text to be answered, put it into a list or a table."
        )


def with_answers(table: pd.DataFrame | pa.Table, answers: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table, and behind them the answers to its rows (rows,)."""
    import pandas as pd

    if isinstance(table, pa.Table):  # whole numbers beside missing ones stay whole, lists stay lists
        own = {place: pd.Series(column.to_pylist(), dtype=object) for place, column in enumerate(table.columns)}
        table = pd.DataFrame(own).set_axis(table.column_names, axis=1)
    columns: pd.DataFrame = answers[list(ANSWER)].set_axis(table.index)
    while taken := set(table.columns) & set(columns.columns):
        columns = columns.rename(columns={name: PREFIX + name for name in taken})
    joined: pd.DataFrame = pd.concat([table, columns], axis=1)
    return joined
