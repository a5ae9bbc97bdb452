"""Every figure that the paper prints, transcribed once into `paper_figures.csv`, in the words of the lab.

| column | meaning |
|---|---|
| table | the label of the table in the paper's source; for figures in running text, of the section, or `abstract` |
| model | `small`, `base` or `large` of Flan-T5 |
| benchmark | as `load_benchmark` knows it; several trained jointly are joined by `+`; `average`, `all`: over all |
| noise, pool, regime, method | as in a spec; empty where they do not apply (an oracle knows neither noise nor pool) |
| quantity | `accuracy` (percent), `delta` (points), `expertise` (sigma of omega), `spearman`, or a count by its name |
| steps, rate | training steps; learning rate of omega where the table is about it |
| annotator | `a1`, `a2`, ... in the order of the pool |
| mean, std | as printed; std is that of the population of seeds |

Where the paper does not name a field, it was filled in: the model, noise and budget of the tables of expertise and
aggregation are those of the experiments beside them (base, uniform, 200 steps). Rows that the paper's source has
commented out are not here.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pandas as pd

from realm import RealmError


def paper_figures(tables: str | None = None) -> pd.DataFrame:
    """The figures of a table, of several separated by commas, or all of them: a row per figure, with the columns above.

    Examples:
        >>> figures = paper_figures("tab:results_multi")
        >>> figures[figures["method"] == "oracle"]["mean"].tolist()
        [28.57, 46.05, 64.76]
    """
    figures = _all_figures()
    if tables is None:
        return figures.copy()
    names = [name.strip() for name in tables.split(",")]
    if unknown := [name for name in names if name not in set(figures["table"])]:
        raise RealmError(f"The paper has no table '{unknown[0]}'. There are: {', '.join(figures['table'].unique())}.")
    return pd.concat([figures[figures["table"] == name] for name in names], ignore_index=True)


@lru_cache(maxsize=1)
def _all_figures() -> pd.DataFrame:
    file = Path(__file__).with_name("paper_figures.csv")
    return pd.read_csv(file, dtype={"annotator": "object", "rate": "float64", "steps": "Int64"})
