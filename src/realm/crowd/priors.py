"""What is known before expertise is estimated: gold, experts, and the estimate of an earlier run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import lowest_expertise
from realm.crowd.evidence import Bools, Floats
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

MOSTLY = 0.5
"""The share of a task's annotations that must lie on items with another one, or with gold, to fix its scale: a half,
so that the scale rests on more annotations than not."""
START = 0.5
"""The expertise that EM starts from, half-way from chance to always right: below it the flipped labelling is nearer."""
EM_PRIOR = (2.0, 2.0)
"""One label right and one wrong: keeps the skills that EM hands to the grid off 0 and 1."""
LEAST_SPREAD = 1e-3
"""An earlier estimate's mean and its standard deviation are kept this far from 0 (and the mean from 1): a Beta needs
both, and an interval of three decimals says no more."""
ALWAYS_RIGHT = 1 - 1e-9
"""An accuracy above this is 1 but for rounding, and has no distance from 1 to divide by."""
NORMAL_95 = 1.96
"""An equal-tailed 95% interval is about this many standard deviations to either side."""


def with_gold(annotations: Annotations, log_probs: Floats, gold: npt.NDArray[np.integer] | None) -> Floats:
    """The model's P with gold in its place where it is known."""
    if gold is None:
        return log_probs
    if len(gold) != annotations.n_items or (np.asarray(gold) >= annotations.option_counts).any():
        raise RealmError(
            f"`gold` must hold one label for each of the {annotations.n_items} items: an index of its options, or -1."
        )
    items = np.flatnonzero(np.asarray(gold) != UNKNOWN)
    scores = log_probs.copy()
    scores[items] = -np.inf
    scores[items, np.asarray(gold)[items]] = 0.0
    return scores


def expert_rows(annotations: Annotations, names: Sequence[str]) -> list[int]:
    """The indices of annotators named as experts."""
    index = {name: row for row, name in enumerate(annotations.annotators)}
    if missing := [name for name in names if name not in index]:
        raise RealmError(
            f"`experts`: no such annotator: {', '.join(missing)}. There are: {', '.join(annotations.annotators[:20])}"
            f"{' ...' if annotations.n_annotators > 20 else ''}."
        )
    return [index[name] for name in names]


def expert_pairs(annotations: Annotations, experts: Sequence[str] | None) -> Bools:
    """The (annotator, task) pairs of annotators named as experts. Shape (pairs,)."""
    pinned = np.zeros((annotations.n_annotators, len(annotations.tasks)), dtype=bool)
    pinned[expert_rows(annotations, experts or ())] = True
    return pinned.reshape(-1)


def relative_tasks(annotations: Annotations, gold: npt.NDArray[np.integer] | None) -> Bools:
    """The tasks in which little but the model's calibration fixes the scale of expertise. Shape (tasks,).

    An item with one annotation is judged by the model alone, so a few with more do not make a task absolute.
    """
    anchored = annotations.annotations_per_item > 1
    if gold is not None:
        anchored |= np.asarray(gold) != UNKNOWN
    task, tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    share = np.bincount(task, anchored[annotations.item], minlength=tasks)
    return np.asarray(share < MOSTLY * np.maximum(np.bincount(task, minlength=tasks), 1))


# -------------------------------------------------------------------- the estimate of an earlier run


@dataclass(frozen=True, eq=False)
class EarlierEstimate:
    """An earlier estimate as a Beta(a, b) on the skill of each pair; NaN where there is none. Shapes (pairs,)."""

    a: Floats
    b: Floats

    @property
    def present(self) -> Bools:
        """Which pairs have an earlier estimate. Shape (pairs,)."""
        return np.isfinite(self.a)

    def start(self, skill: Floats) -> Floats:
        """The mean of the earlier estimate where there is one, else `skill`. Shape (pairs,)."""
        return np.where(self.present, self.a / (self.a + self.b), skill)

    def prior(self, default: tuple[float, float]) -> tuple[Floats, Floats]:
        """The Beta of each pair, `default` where there is none. Shapes (pairs,)."""
        return np.where(self.present, self.a, default[0]), np.where(self.present, self.b, default[1])

    @classmethod
    def from_table(cls, annotations: Annotations, table: pd.DataFrame | None) -> EarlierEstimate:
        """The estimates of an earlier expertise table, none where it is None."""
        lowest = lowest_expertise(annotations)
        a, b = np.full(len(lowest), np.nan), np.full(len(lowest), np.nan)
        if table is not None:
            for (annotator, task), numbers in earlier_estimates(annotations, table).items():
                pair = annotator * len(annotations.tasks) + task
                a[pair], b[pair] = _beta_distribution(float(lowest[pair]), *numbers)
        return cls(a, b)


def earlier_estimates(annotations: Annotations, table: pd.DataFrame) -> dict[tuple[int, int], list[float]]:
    """(annotator, task) to expertise, accuracy, low and high of an earlier expertise table, where it has all four.

    A table that names nobody of these annotations is an error: another table was meant, or other names.
    """
    needed = ["annotator", "task", "expertise", "accuracy", "low", "high"]
    if missing := [name for name in needed if name not in table.columns]:
        raise RealmError(
            f"`prior`: the table lacks {', '.join(missing)}; give the expertise.csv of an earlier run "
            f"(columns {', '.join(needed)})."
        )
    try:
        numbers = table[needed[2:]].replace("", np.nan).to_numpy(np.float64)
    except ValueError as error:
        raise RealmError(f"`prior`: {', '.join(needed[2:])} must be numbers: {error}.") from None
    annotators = {name: i for i, name in enumerate(annotations.annotators)}
    tasks = {task.name: i for i, task in enumerate(annotations.tasks)}
    estimates = {}
    for annotator, task, row in zip(table["annotator"].map(str), table["task"].map(str), numbers, strict=True):
        if annotator in annotators and task in tasks and np.isfinite(row).all():
            estimates[annotators[annotator], tasks[task]] = row.tolist()
    if not estimates:
        raise RealmError(f"`prior`: {_mismatch(annotations, table)}. Give the expertise.csv of a run with the same.")
    return estimates


def expertise_prior(
    estimates: dict[tuple[int, int], list[float]], shape: tuple[int, int], default: tuple[float, float]
) -> tuple[Floats, Floats]:
    """The a and b of a Beta on expertise for each pair, most probable at the earlier estimate. Shapes (pairs,)."""
    a, b = (np.full(shape, number) for number in default)
    for pair, numbers in estimates.items():
        more, less = _beta_distribution(0.0, *numbers)
        a[pair], b[pair] = 1 + more, 1 + less
    return a.reshape(-1), b.reshape(-1)


def _mismatch(annotations: Annotations, table: pd.DataFrame) -> str:
    """Why an expertise table says nothing of these annotators."""
    for column, names in (("annotator", annotations.annotators), ("task", [task.name for task in annotations.tasks])):
        others = list(dict.fromkeys(table[column].map(str)))
        if not set(others) & set(names):
            return f"none of its {column}s ({_first_names(others)}) is in the table, which has: {_first_names(names)}"
    return "no annotator of the table has expertise, accuracy, low and high in it"


def _first_names(names: Collection[str]) -> str:
    return ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")


def _beta_distribution(
    lowest: float, expertise: float, accuracy: float, low: float, high: float
) -> tuple[float, float]:
    """The Beta on skill (expertise from `lowest` to 1) with the mean and the width of an earlier estimate."""
    mean = float(np.clip((expertise - lowest) / (1 - lowest), LEAST_SPREAD, 1 - LEAST_SPREAD))
    # Accuracy and skill are both straight lines in expertise through (1, 1): a ratio turns one width into the other.
    stretch = (1 - mean) / (1 - accuracy) if accuracy < ALWAYS_RIGHT else 1.0
    spread = max((high - low) * stretch / (2 * NORMAL_95), LEAST_SPREAD)
    # At least one label's worth of weight, however wide the interval.
    weight = max(mean * (1 - mean) / spread**2 - 1, 1.0)
    return mean * weight, (1 - mean) * weight
