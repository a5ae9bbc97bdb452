"""Every figure that the paper prints, transcribed once into `figures.csv`, in the words of the lab.

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

What the paper leaves unsaid was filled in: the model, noise and budget of the tables of expertise and aggregation are
those of the experiments beside them (base, uniform, 200 steps). Rows that the paper's source has commented out are not
here.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

MODELS = {size: f"google/flan-t5-{size}" for size in ("small", "base", "large")}
"""The hub ids of the paper's models."""


def paper_figures(table: str | None = None) -> pd.DataFrame:
    """The figures of one table, or all of them: a row per figure, with the columns above.

    Example:
        >>> figures = paper_figures("tab:results_multi")
        >>> oracles = figures[figures["method"] == "oracle"]
        >>> oracles["mean"].tolist()
        [28.57, 46.05, 64.76]
    """
    import pandas as pd

    with files("realm.lab.paper").joinpath("figures.csv").open(encoding="utf-8") as file:
        figures = pd.read_csv(file, dtype={"annotator": "object", "rate": "float64", "steps": "Int64"})
    if table is None:
        return figures
    chosen = figures[figures["table"] == table]
    if chosen.empty:
        raise RealmError(f"The paper has no table '{table}'. There are: {', '.join(figures['table'].unique())}.")
    return chosen.reset_index(drop=True)
