"""What is known of annotators beforehand: who is an expert, and what an earlier table of annotators says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realm.crowd.engine import Floats
from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("annotator", "task", "accuracy", "low", "high")
"""The columns of a table of annotators that serve as a prior."""
NORMAL_95 = 1.96
"""An equal-tailed 95% interval is about this many standard deviations to either side."""
LEAST_SD = 1e-3
"""A Beta distribution needs a spread: an interval of three decimals says no more than this."""


def expert_rows(annotations: Annotations, names: Sequence[str]) -> list[int]:
    """The indices of annotators named as experts."""
    index = {name: row for row, name in enumerate(annotations.annotators)}
    if missing := [name for name in names if name not in index]:
        raise RealmError(
            f"`experts`: no such annotator: {', '.join(missing)}. There are: {', '.join(annotations.annotators[:20])}"
            f"{' ...' if annotations.n_annotators > 20 else ''}."
        )
    return [index[name] for name in names]


@dataclass(frozen=True, eq=False)
class EarlierEstimates:
    """A Beta distribution for each annotator and task: its mean and how many labels it is worth; NaN: none.

    Both are (annotators, tasks).
    """

    mean: Floats
    weight: Floats

    @classmethod
    def none(cls, annotations: Annotations) -> EarlierEstimates:
        """Nothing is known of anybody."""
        empty = np.full((annotations.n_annotators, len(annotations.tasks)), np.nan)
        return cls(empty, empty)

    @classmethod
    def from_table(cls, annotations: Annotations, table: pd.DataFrame) -> EarlierEstimates:
        """From an earlier table of annotators (`expertise.csv` of a run): accuracy, low and high of those it names.

        A table that names nobody of these annotations is an error: another table was meant, or other names.
        """
        if missing := [name for name in NEEDED if name not in table.columns]:
            raise RealmError(
                f"`prior`: the table lacks {', '.join(missing)}; give the expertise.csv of an earlier run "
                f"(columns {', '.join(NEEDED)})."
            )
        try:
            numbers = table[list(NEEDED[2:])].replace("", np.nan).to_numpy(np.float64)
        except ValueError as error:
            raise RealmError(f"`prior`: {', '.join(NEEDED[2:])} must be numbers: {error}.") from None
        annotators = {name: i for i, name in enumerate(annotations.annotators)}
        tasks = {task.name: i for i, task in enumerate(annotations.tasks)}
        estimates = cls(*(np.full((len(annotators), len(tasks)), np.nan) for _ in range(2)))
        for annotator, task, row in zip(table["annotator"].map(str), table["task"].map(str), numbers, strict=True):
            if annotator in annotators and task in tasks and np.isfinite(row).all():
                accuracy, low, high = row
                mean = float(np.clip(accuracy, LEAST_SD, 1 - LEAST_SD))
                spread = max((high - low) / (2 * NORMAL_95), LEAST_SD)
                place = annotators[annotator], tasks[task]
                estimates.mean[place] = mean
                estimates.weight[place] = max(mean * (1 - mean) / spread**2 - 1, 1.0)
        if np.isnan(estimates.mean).all():
            raise RealmError(
                f"`prior`: {_mismatch(annotations, table)}. Give the expertise.csv of a run with the same."
            )
        return estimates

    @property
    def annotators_named(self) -> int:
        """How many annotators have an earlier estimate."""
        return int(np.isfinite(self.mean).any(axis=1).sum())


def _mismatch(annotations: Annotations, table: pd.DataFrame) -> str:
    """Why a table of annotators says nothing of these."""
    for column, names in (("annotator", annotations.annotators), ("task", [task.name for task in annotations.tasks])):
        others = list(dict.fromkeys(table[column].map(str)))
        if not set(others) & set(names):
            return f"none of its {column}s ({_first_names(others)}) is in the table, which has: {_first_names(names)}"
    return "no annotator of the table has accuracy, low and high in it"


def _first_names(names: Collection[str]) -> str:
    return ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")
