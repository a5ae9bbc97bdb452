"""The rows of a spec with their results, finished or not, and one method against another in a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import METHODS
from realm.comparison.results import Results
from realm.comparison.significance import LEVEL, paired_bootstrap, paired_t_test
from realm_lab.datasets import TITLES
from realm_lab.specs import Spec, key_of, spec_rows

CONFIGURATION = ["model", "benchmark", "noise", "pool", "regime", "steps"]
"""What distinguishes configurations, beside method, seed and the settings of which a spec lists several values."""
FLAN = "google/flan-t5-"
WORDS = {
    **TITLES, **{name: method.title for name, method in METHODS.items()}, "realm-scalar": "REALM, one number each",
    "realm-paper": "REALM, paper's setting", "crowd-layer": "Crowd layer", "trace-confusion": "Trace",
    "expertise_learning_rate": "rate",
}  # fmt: skip
"""What the paper calls things."""


Store = Results | Any
"""Where finished cells are: `Results`, or `Recorded` with the same `frame`, `correct` and `table`."""


def display(value: object) -> str:
    """A value as the tables write it; tasks of a benchmark and joined benchmarks part by part."""
    text = f"{value:g}" if isinstance(value, float) else str("" if value is None else value)
    for separator in ("+", "/"):
        if separator in text and not text.endswith(separator):
            return separator.join(display(part) for part in text.split(separator))
    return WORDS.get(text, text.rpartition(":")[2] if ".py:" in text else text)


def load_results(spec: Spec, store: Store | None) -> pd.DataFrame:
    """A row per configuration, method and seed: `CONFIGURATION`, the settings of which the spec lists several values,
    method, seed, id, accuracy and the other metrics; NaN where a cell is not finished."""
    frame = pd.DataFrame(list(spec_rows(spec)), dtype=object)  # or text would turn None into NaN
    compared = [name for name in frame if name not in (*CONFIGURATION, "method", "seed", "cell")]
    frame = frame[[*CONFIGURATION, *compared, "method", "seed", "cell"]]
    frame = frame.assign(key=frame["cell"].map(key_of), model=frame["model"].str.removeprefix(FLAN))
    frame = frame.drop_duplicates([*CONFIGURATION, *compared, "method", "seed", "key"])
    cells = dict(zip(frame["key"], frame["cell"], strict=True))
    done = pd.DataFrame() if store is None else store.frame(list(cells.values()))
    if len(done):
        done["key"] = done["id"].map({cell.id: key for key, cell in cells.items()})
        known = set(frame) | {name for cell in cells.values() for name in (*cell.fields(), *cell.settings)} - {"key"}
        frame = frame.merge(done[["key", *(name for name in done if name not in known)]], on="key", how="left")
    frame = frame if "accuracy" in frame else frame.assign(accuracy=np.nan, id=None)
    return frame.drop(columns=["cell", "key"]).astype({"steps": int, "seed": int, "accuracy": float})


def fields_of(frame: pd.DataFrame) -> list[str]:
    """What distinguishes the configurations of a spec: the columns before the method."""
    return list(frame.columns[: frame.columns.get_loc("method")])


def configurations(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each configuration that has `realm`, with its rows."""
    names = fields_of(rows)
    for values, part in rows.groupby(names, sort=False, dropna=False):
        if (part["method"] == "realm").any():
            plain = [None if value != value else value for value in values]
            yield dict(zip(names, plain, strict=True)), part


@dataclass(frozen=True)
class Contrast:
    """`realm` against another method in one configuration, paired by seed and by test item."""

    second: str
    gaps: npt.NDArray[np.float64]  # difference of accuracy on each seed that both have
    p_seeds: float | None  # two-sided paired t-test over seeds (the paper's); None with one seed
    low: float | None = None  # paired bootstrap over test items, 95%; None without answers
    high: float | None = None
    p_items: float | None = None

    @property
    def delta(self) -> float:
        return float(self.gaps.mean())

    @property
    def significant(self) -> bool:
        """By the test over seeds."""
        return self.p_seeds is not None and self.p_seeds < LEVEL

    @property
    def surely(self) -> bool:
        """By the test over seeds and by that over test items."""
        return self.significant and self.p_items is not None and self.p_items < LEVEL

    def __str__(self) -> str:
        known = self.low is not None and self.high is not None
        interval = f" ({100 * self.low:+.1f} to {100 * self.high:+.1f})" if known else ""  # type: ignore[operator]
        return f"{100 * self.delta:+.1f}{interval}{'*' if self.surely else ''}"


def compare_methods(store: Store | None, rows: pd.DataFrame, second: str) -> Contrast | None:
    """`realm` and another method of one configuration; None where no seed has both."""
    done = rows[rows["accuracy"].notna()]
    both = [done[done["method"] == name].set_index("seed") for name in ("realm", second)]
    seeds = both[0].index.intersection(both[1].index).sort_values()
    if not len(seeds):
        return None
    accuracies = [part.loc[seeds, "accuracy"].to_numpy(dtype=np.float64) for part in both]
    answers = [None if store is None else store.correct(part.loc[seeds, "id"].tolist()) for part in both]
    over_items: tuple[Any, ...] = ()
    if answers[0] is not None and answers[1] is not None and answers[0].shape == answers[1].shape:
        over_items = paired_bootstrap(answers[0], answers[1])
    return Contrast(second, accuracies[0] - accuracies[1], paired_t_test(*accuracies), *over_items)
