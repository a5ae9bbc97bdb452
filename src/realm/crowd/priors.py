"""What is known before expertise is estimated: gold, experts, and the estimate of an earlier run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.joint import Joint
from realm.crowd.posterior import Floats
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Bools = npt.NDArray[np.bool_]

MOSTLY = 0.5
"""The share of a task's annotations that must lie on items with another one, or with gold, to fix its scale."""
CLIMB_PRIOR = (2.0, 2.0)
"""One label right and one wrong: keeps EM's starting point for the grid off 0 and 1."""


def with_gold(annotations: Annotations, log_probs: Floats, gold: npt.NDArray[np.integer] | None) -> Floats:
    """The model's P with gold in its place where it is known."""
    if gold is None:
        return log_probs
    if len(gold) != annotations.n_items or (np.asarray(gold) >= annotations.option_counts).any():
        raise RealmError(
            f"gold must hold one label for each of the {annotations.n_items} items: an index of its options, or -1."
        )
    known = np.flatnonzero(np.asarray(gold) != UNKNOWN)
    certain = log_probs.copy()
    certain[known] = -np.inf
    certain[known, np.asarray(gold)[known]] = 0.0
    return certain


def expert_rows(annotations: Annotations, names: Sequence[str]) -> list[int]:
    """The indices of annotators named as experts."""
    index = {name: row for row, name in enumerate(annotations.annotators)}
    if missing := [name for name in names if name not in index]:
        raise RealmError(
            f"--expert: no such annotator: {', '.join(missing)}. There are: {', '.join(annotations.annotators[:20])}"
            f"{' ...' if annotations.n_annotators > 20 else ''}."
        )
    return [index[name] for name in names]


def pinned_cells(annotations: Annotations, fixed: Sequence[str] | None) -> Bools:
    """The cells of annotators named as experts. Shape (cells,)."""
    pinned = np.zeros((annotations.n_annotators, len(annotations.tasks)), dtype=bool)
    pinned[expert_rows(annotations, fixed or ())] = True
    return pinned.reshape(-1)


def anchored_annotations(joint: Joint, pinned: Bools, gold: npt.NDArray[np.integer] | None) -> Bools:
    """The annotations of items whose truth is known: gold, or the word of a pinned expert. Shape (annotations,)."""
    table = joint.annotations
    known = np.zeros(table.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
    known[table.item[pinned[joint.cell]]] = True
    anchored: Bools = known[table.item]
    return anchored


def from_anchors(joint: Joint, skill: Floats, pinned: Bools, carried: Carried, anchored: Bools) -> Floats:
    """A start from the items whose truth is known alone. Shape (cells,).

    Annotators who agree on the same wrong labels outvote everyone from the first step if all items count at once.
    """
    items = np.unique(joint.annotations.item[anchored])
    part = Joint(joint.annotations.take_items(items), joint.log_probs[items])
    found = part.climb(part.skill(joint.beta(skill)), prior=carried.or_else(CLIMB_PRIOR), fixed=pinned)
    return joint.skill(part.beta(found))


def relative_tasks(annotations: Annotations, gold: npt.NDArray[np.integer] | None) -> Bools:
    """The tasks in which little but the model's calibration fixes the scale of expertise. Shape (tasks,).

    An item with one annotation is judged by the model alone, so a few with more do not make a task absolute.
    """
    anchored = annotations.annotations_per_item > 1
    if gold is not None:
        anchored |= np.asarray(gold) != UNKNOWN
    task, tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    share = np.bincount(task, anchored[annotations.item], minlength=tasks)
    relative: Bools = share < MOSTLY * np.maximum(np.bincount(task, minlength=tasks), 1)
    return relative


@dataclass(frozen=True, eq=False)
class Carried:
    """An earlier estimate as a Beta of its own for each cell; NaN where there is none. Shapes (cells,)."""

    right: Floats
    wrong: Floats

    @property
    def known(self) -> Bools:
        return np.isfinite(self.right)

    def into(self, skill: Floats) -> Floats:
        """Skills with the mean of the earlier estimate where there is one."""
        return np.where(self.known, self.right / (self.right + self.wrong), skill)

    def or_else(self, prior: tuple[float, float]) -> tuple[Floats, Floats]:
        """The Beta of each cell, `prior` where there is none."""
        return np.where(self.known, self.right, prior[0]), np.where(self.known, self.wrong, prior[1])

    @classmethod
    def read(cls, annotations: Annotations, joint: Joint, table: pd.DataFrame | None) -> Carried:
        right, wrong = np.full(joint.n_cells, np.nan), np.full(joint.n_cells, np.nan)
        if table is None:
            return cls(right, wrong)
        for (person, task), numbers in earlier_estimates(annotations, table).items():
            cell = person * len(annotations.tasks) + task
            right[cell], wrong[cell] = _beta_of(float(joint.lowest[cell]), *numbers)
        return cls(right, wrong)


def earlier_estimates(annotations: Annotations, table: pd.DataFrame) -> dict[tuple[int, int], list[float]]:
    """(annotator, task) to expertise, accuracy, low and high of an earlier expertise table, where it has all four.

    A table that says nothing of anybody here is an error: the person meant another one, or other names.
    """
    needed = ["annotator", "task", "expertise", "accuracy", "low", "high"]
    if missing := [name for name in needed if name not in table.columns]:
        raise RealmError(
            f"--prior: the table lacks {', '.join(missing)}; give the expertise.csv of an earlier run "
            f"(columns {', '.join(needed)})."
        )
    try:
        numbers = table[needed[2:]].replace("", np.nan).to_numpy(np.float64)
    except ValueError as error:
        raise RealmError(f"--prior: {', '.join(needed[2:])} must be numbers: {error}.") from None
    cells = named_cells(annotations, table)
    told = (cells != UNKNOWN) & np.isfinite(numbers).all(axis=1)
    found = {
        divmod(int(cell), len(annotations.tasks)): row.tolist()
        for cell, row in zip(cells[told], numbers[told], strict=True)
    }
    if not found:
        raise RealmError(f"--prior: {_why_nobody(annotations, table)}. Give the expertise.csv of a run with the same.")
    return found


def expertise_prior(
    found: dict[tuple[int, int], list[float]], shape: tuple[int, int], otherwise: tuple[float, float]
) -> tuple[Floats, Floats]:
    """The a and b of a Beta on expertise for each cell, most probable at the earlier estimate. Shapes (cells,)."""
    right, wrong = (np.full(shape, number) for number in otherwise)
    for cell, numbers in found.items():
        more, less = _beta_of(0.0, *numbers)
        right[cell], wrong[cell] = 1 + more, 1 + less
    return right.reshape(-1), wrong.reshape(-1)


def named_cells(annotations: Annotations, table: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The cell of each row of an expertise table, found by annotator and task; -1 where it is not here. (rows,)"""
    people = {name: i for i, name in enumerate(annotations.annotators)}
    tasks = {task.name: i for i, task in enumerate(annotations.tasks)}
    rows = [(str(person), str(task)) for person, task in zip(table["annotator"], table["task"], strict=True)]
    cells = [
        people[person] * len(tasks) + tasks[task] if person in people and task in tasks else UNKNOWN
        for person, task in rows
    ]
    return np.array(cells, dtype=np.int64)


def _why_nobody(annotations: Annotations, table: pd.DataFrame) -> str:
    for column, here in (("annotator", annotations.annotators), ("task", [task.name for task in annotations.tasks])):
        named = list(dict.fromkeys(str(name) for name in table[column]))
        if not set(named) & set(here):
            return f"none of its {column}s ({_some(named)}) is in the table, which has: {_some(here)}"
    return "no annotator of the table has expertise, accuracy, low and high in it"


def _some(names: Collection[str]) -> str:
    return ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")


def _beta_of(lowest: float, expertise: float, accuracy: float, low: float, high: float) -> tuple[float, float]:
    """The Beta on skill with the mean and (by its width) the spread of an earlier estimate."""
    mean = float(np.clip((expertise - lowest) / (1 - lowest), 1e-3, 1 - 1e-3))
    # Accuracy and skill are both straight lines in expertise through (1, 1): a ratio turns one width into the other.
    stretch = (1 - mean) / (1 - accuracy) if accuracy < 1 - 1e-9 else 1.0
    spread = max((high - low) * stretch / (2 * 1.96), 1e-3)
    weight = max(mean * (1 - mean) / spread**2 - 1, 1.0)
    return mean * weight, (1 - mean) * weight
