"""Every figure that the paper prints, transcribed once into `paper_figures.csv`, in the words of the lab.

| column | meaning |
|---|---|
| table | the label of the table in the paper's source; for figures in running text, of the section, or `abstract` |
| model | `small`, `base` or `large` of Flan-T5 |
| benchmark | as `load_benchmark` knows it; several trained jointly are joined by `+`; `average`, `all`: over all |
| noise, pool, regime, method | as in a grid; empty where they do not apply (an oracle knows neither noise nor pool) |
| quantity | `accuracy` (percent), `delta` (points), `expertise` (sigma of omega), `spearman`, or a count by its name |
| steps, rate | training steps; learning rate of omega where the table is about it |
| annotator | `a1`, `a2`, ... in the order of the pool |
| mean, std | as printed; std is that of the population of seeds |

Where the paper does not name a field, it was filled in: the model, noise and budget of the tables of expertise and
aggregation are those of the experiments beside them (base, uniform, 200 steps). Rows that the paper's source has
commented out are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from realm import RealmError

FIGURES = Path(__file__).with_name("paper_figures.csv")
FIELDS = ("model", "benchmark", "noise", "pool", "regime", "method", "quantity", "steps", "rate", "annotator")
SAME_POOL = {"D3": "graded:3", "D1": "one-reliable:3"}
"""Pools that are one and the same, under the names that different tables of the paper give them."""


def paper_figures(table: str | None = None) -> pd.DataFrame:
    """The figures of one table, or all of them: a row per figure, with the columns above.

    Examples:
        >>> figures = paper_figures("tab:results_multi")
        >>> oracles = figures[figures["method"] == "oracle"]
        >>> oracles["mean"].tolist()
        [28.57, 46.05, 64.76]
    """
    figures = _all_figures()
    if table is None:
        return figures.copy()
    rows = figures[figures["table"] == table]
    if rows.empty:
        raise RealmError(f"The paper has no table '{table}'. There are: {', '.join(figures['table'].unique())}.")
    return rows.reset_index(drop=True)


@lru_cache(maxsize=1)
def _all_figures() -> pd.DataFrame:
    return pd.read_csv(FIGURES, dtype={"annotator": "object", "rate": "float64", "steps": "Int64"})


class PaperTable:
    """The figures of a table of the paper, or of several separated by commas; none for None.

    An entry of ours corresponds to a figure where it agrees in every field that the figure's row has. A small variant
    of a spec names no table, so that nothing is set beside it.
    """

    def __init__(self, table: str | None) -> None:
        names = [] if table is None else [name.strip() for name in table.split(",")]
        self.rows = [row for name in names for row in records(paper_figures(name))]

    def __len__(self) -> int:
        return len(self.rows)

    def figure(self, method: str | None, quantity: str, **fields: Any) -> tuple[float, float | None] | None:
        """Mean and standard deviation (None where not given) in the paper's unit; None where nothing corresponds."""
        entry = {"method": method, "quantity": quantity, **fields}
        matches = [row for row in self.rows if corresponds(row, entry)]
        return (float(matches[0]["mean"]), matches[0]["std"]) if len(matches) == 1 else None


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain values, None where there is none."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def corresponds(row: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether an entry agrees with the row of a figure in every field that the row has."""
    return all(row[name] is None or _same(name, row[name], entry.get(name)) for name in FIELDS)


def _same(name: str, printed: Any, value: Any) -> bool:
    if name in ("steps", "rate"):
        return value is not None and not isinstance(value, str) and float(printed) == float(value)
    return bool(printed == value or (name == "pool" and printed == SAME_POOL.get(value)))
