"""The labels of each task: which there are, in which order, and what number each row's label and gold have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from realm.data.annotations import UNKNOWN
from realm.data.choices import LabelForm, read_labels
from realm.data.coded import Coded, Codes
from realm.data.columns import Mask, Rows, name_rows
from realm.data.comma_lists import join_list
from realm.data.items import Task
from realm.errors import RealmError


@dataclass(frozen=True)
class ReadTasks:
    """The tasks, and the number of each row's label and gold among its item's options (-1: none). Shapes (rows,)."""

    tasks: tuple[Task, ...]
    label: Codes
    gold: Codes | None


def read_tasks(
    columns: Mapping[str, Coded],
    options: pa.LargeListArray | None,
    number: Rows,
    task_of_row: Codes,
    task_names: Sequence[str],
    *,
    annotated: Mask,
    labels: Sequence[str] | None,
    tasks: Sequence[Task] | None,
    form: LabelForm,
    need: str,
    source: str,
) -> ReadTasks:
    """Number the labels. Rows with options of their own are read against them, the others against the inventory."""
    n_rows = len(number)
    own = np.zeros(n_rows, dtype=bool)
    if options is not None:
        own = options.is_valid().to_numpy(zero_copy_only=False)
    own_task = _tasks_with_own_options(own, task_of_row, task_names, tasks, number, source)
    given = {"label": annotated}
    if "gold" in columns:
        given["gold"] = columns["gold"].given()
    read = {role: np.full(n_rows, UNKNOWN, dtype=np.int64) for role in given}
    for role, is_given in given.items():
        if (is_given & own).any():
            found = read_labels(
                columns[role].text(), is_given & own, options, number, form=form, role=role, source=source
            )
            read[role][own] = found[own]
    inventories = _inventories(columns, given, own, own_task, task_of_row, task_names, labels, tasks, need, source)
    remedy = "" if tasks is not None else " If it is a label all the same, list them all with --labels."
    for role, is_given in given.items():
        if (is_given & ~own).any():
            asked = is_given & ~own
            read[role][asked] = _number(
                columns[role], asked, inventories, task_of_row, task_names, number, role, source, remedy
            )
    made = tuple(Task(name, inventories[index]) for index, name in enumerate(task_names))
    return ReadTasks(made if tasks is None else tuple(tasks), read["label"], read.get("gold"))


def _tasks_with_own_options(
    own: Mask, task_of_row: Codes, names: Sequence[str], tasks: Sequence[Task] | None, number: Rows, source: str
) -> Mask:
    """Which tasks' items list their own options: all items of a task do, or none. Shape (tasks,)."""
    if not own.any() and (tasks is None or all(task.labels is not None for task in tasks)):
        return np.zeros(len(names), dtype=bool)
    with_options = np.bincount(task_of_row, own, minlength=len(names)) > 0
    without = np.bincount(task_of_row, ~own, minlength=len(names)) > 0
    expected = with_options if tasks is None else np.array([task.labels is None for task in tasks])
    for task in range(len(names)):
        rows = task_of_row == task
        if expected[task] and without[task]:
            at = name_rows(number[rows & ~own])
            raise RealmError(
                f"{source}, {at}: the items of task '{names[task]}' list their own options, and here there are none. "
                "Name the options column with --options."
            )
        if not expected[task] and with_options[task]:
            at = name_rows(number[rows & own])
            raise RealmError(f"{source}, {at}: the run's task '{names[task]}' has fixed labels; leave the options out.")
    return np.asarray(expected, dtype=bool)


def _inventories(
    columns: Mapping[str, Coded],
    given: Mapping[str, Mask],
    own: Mask,
    own_task: Mask,
    task_of_row: Codes,
    names: Sequence[str],
    labels: Sequence[str] | None,
    tasks: Sequence[Task] | None,
    need: str,
    source: str,
) -> list[tuple[str, ...] | None]:
    if tasks is not None:
        return [task.labels for task in tasks]
    if labels is not None:
        _check_given(labels, source)
        return [None if own_task[task] else tuple(labels) for task in range(len(names))]
    # A test table on its own has no annotations to take the inventory from, and nothing is trained on it.
    role = "gold" if need == "gold" else "label"
    asked = given.get(role, np.zeros(len(own), dtype=bool)) & ~own
    made: list[tuple[str, ...] | None] = []
    texts = columns[role].values.to_pylist() if role in columns else []
    width = max(len(texts), 1)
    met = np.zeros(len(names) * width, dtype=bool)
    if role in columns:
        met[task_of_row[asked] * width + columns[role].codes[asked]] = True
    for task, name in enumerate(names):
        if own_task[task]:
            made.append(None)
            continue
        found = in_order([texts[code] for code in np.flatnonzero(met[task * width : (task + 1) * width])])
        if len(found) == 1 and need == "annotations":
            raise RealmError(
                f"{source}: {'' if len(names) == 1 else f'task {name!r}: '}every label is '{found[0]}'. There is "
                "nothing to learn from a single class. If there are others, list them all with --labels."
            )
        made.append(found)
    return made


def _check_given(labels: Sequence[str], source: str) -> None:
    if any(not label.strip() for label in labels):
        raise RealmError(f"{source}: --labels {join_list(labels)}: a label is blank. Is there a comma too many?")
    if len(set(labels)) < len(labels):
        raise RealmError(f"{source}: --labels {join_list(labels)}: a label is listed twice.")
    if len(labels) < 2:
        raise RealmError(f"{source}: --labels {join_list(labels)}: two labels or more are needed.")


def in_order(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorted by number where all are numbers, else as text."""
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    except ValueError:
        return tuple(sorted(labels))


def _number(
    column: Coded,
    asked: Mask,
    inventories: Sequence[tuple[str, ...] | None],
    task_of_row: Codes,
    names: Sequence[str],
    number: Rows,
    role: str,
    source: str,
    remedy: str,
) -> Codes:
    codes, texts = column.codes, column.values.to_pylist()
    lookup = np.full((len(names), max(len(texts), 1)), UNKNOWN, dtype=np.int64)
    for task, inventory in enumerate(inventories):
        place = {label: index for index, label in enumerate(inventory or ())}
        lookup[task, : len(texts)] = [place.get(text, UNKNOWN) for text in texts]
    found = lookup[task_of_row[asked], codes[asked]]
    if (unknown := np.flatnonzero(found == UNKNOWN)).size:
        at = np.flatnonzero(asked)[unknown]
        row, inventory = int(at[0]), inventories[task_of_row[at[0]]] or ()
        shown = ", ".join(inventory[:20]) + (", ..." if len(inventory) > 20 else "")
        of_task = "" if len(names) == 1 else f" of task '{names[task_of_row[row]]}'"
        same = at[codes[at] == codes[row]]
        raise RealmError(
            f"{source}, {name_rows(number[same])}: the {role} '{column.at(row)}' is not among the labels"
            f"{of_task}: {shown}.{remedy}"
        )
    return found
