"""What is known of annotators beforehand: who is an expert, and what an earlier table of annotators says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realm.crowd.engine import Floats
from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

NORMAL_95 = 1.96  # an equal-tailed 95% interval is about this many standard deviations to either side
LEAST_SD = 1e-3  # A Beta distribution needs a spread: an interval of three decimals says no more than this


def expert_rows(annotations: Annotations, names: Sequence[str]) -> list[int]:
    """The indices of annotators named as experts."""
    index = {name: row for row, name in enumerate(annotations.annotators)}
    if missing := [name for name in names if name not in index]:
        raise RealmError(
            f"`experts`: no such annotator: {', '.join(missing)}. There are: {', '.join(list(index)[:20])}."
        )
    return [index[name] for name in names]


@dataclass(frozen=True, eq=False)
class EarlierEstimates:
    """A Beta distribution for each annotator and task, NaN: none. Both are (annotators, tasks)."""

    mean: Floats
    weight: Floats  # how many labels it is worth

    @classmethod
    def none(cls, annotations: Annotations) -> EarlierEstimates:
        """Nothing is known of anybody."""
        return cls(*np.full((2, annotations.n_annotators, len(annotations.tasks)), np.nan))

    @classmethod
    def from_table(cls, annotations: Annotations, table: pd.DataFrame) -> EarlierEstimates:
        """From an earlier table of annotators (`expertise.csv` of a run): accuracy, low and high of those it names."""
        annotators = {name: row for row, name in enumerate(annotations.annotators)}
        tasks = {task.name: row for row, task in enumerate(annotations.tasks)}
        try:
            place = [table["annotator"].map(str).map(annotators), table["task"].map(str).map(tasks)]
            figures = [table[name].replace("", np.nan).astype(np.float64) for name in ("accuracy", "low", "high")]
        except (KeyError, ValueError) as error:
            raise RealmError(
                "`prior`: it needs annotator, task, and numbers in accuracy, low and high, as the expertise.csv of an "
                f"earlier run has them: {error}."
            ) from None
        rows = np.stack([*place, *figures], axis=1)
        annotator, task, accuracy, low, high = rows[np.isfinite(rows).all(axis=1)].T
        if not len(annotator):
            raise RealmError(
                f"`prior`: none of its annotators ({', '.join(table['annotator'].map(str).unique()[:10])}) is in the "
                f"table, which has: {', '.join(list(annotators)[:10])}; or no task is. Give the expertise.csv of a run "
                "with the same names."
            )
        estimates, at = cls.none(annotations), (annotator.astype(int), task.astype(int))
        mean, spread = np.clip(accuracy, LEAST_SD, 1 - LEAST_SD), np.maximum((high - low) / (2 * NORMAL_95), LEAST_SD)
        estimates.mean[at], estimates.weight[at] = mean, np.maximum(mean * (1 - mean) / spread**2 - 1, 1.0)
        return estimates

    @property
    def annotators_named(self) -> int:
        """How many annotators have an earlier estimate."""
        return int(np.isfinite(self.mean).any(axis=1).sum())
