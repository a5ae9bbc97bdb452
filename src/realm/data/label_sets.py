"""Label sets: as they are typed, which one each task has, and the number of each row's label and gold in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realm.data.annotations import UNKNOWN
from realm.data.columns import Codes, Mask
from realm.data.items import Task
from realm.data.options import read_labels
from realm.data.read_options import LabelForm
from realm.data.roles import listed
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.data.rows import SourceRows

LABELS_SHOWN = 20
"""Labels that a message lists: the whole of a usual label set."""
LabelSet = tuple[str, ...] | None
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(,|\Z)')
_NEEDS_QUOTES = re.compile(r'[,"]|^\s|\s$|^$')


def split_list(text: str) -> list[str]:
    """Comma separated names, without the spaces around them; one in double quotes may have commas and spaces.

    Examples:
        >>> split_list('neg, "so, so", pos')
        ['neg', 'so, so', 'pos']
    """
    names, position, comma = [], 0, ","
    while comma and (match := _NAME.match(text, position)):
        quoted, plain, comma = match.groups()
        names.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        position = match.end()
    return names


def join_list(names: Iterable[str]) -> str:
    """The names in the form that `split_list` reads back.

    Examples:
        >>> join_list(["neg", "so, so"])
        'neg,"so, so"'
    """
    return ",".join('"' + name.replace('"', '""') + '"' if _NEEDS_QUOTES.search(name) else name for name in names)


def sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorted by number where all are numbers, else as text."""
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    except ValueError:
        return tuple(sorted(labels))


@dataclass(frozen=True)
class LabelNumbers:
    """The tasks, and the number of each row's label and gold among its item's options (-1: none). Shapes (rows,)."""

    tasks: tuple[Task, ...]
    label: Codes
    gold: Codes | None


def number_labels(
    rows: SourceRows,
    task_of_row: Codes,
    task_names: Sequence[str],
    labels: Sequence[str] | None,
    tasks: Sequence[Task] | None,
    label_form: LabelForm,
) -> LabelNumbers:
    """Number the labels and gold of the rows. `task_of_row` (rows,) indexes `task_names`.

    Rows that list options are read against these, the others against the label set of their task: that of `tasks`, or
    `labels`, or the labels that the task's annotations give, sorted.
    """
    own = np.zeros(len(rows), bool) if rows.options is None else np.asarray(rows.options.is_valid())
    present = {"label": rows.annotated}
    if "gold" in rows.columns:
        present["gold"] = rows.columns["gold"].is_valid()
    lists_options = _lists_options(rows, own, task_of_row, task_names, tasks)
    if tasks is None:
        label_sets = _label_sets(rows, present, own, lists_options, task_of_row, task_names, labels)
        tasks = tuple(map(Task, task_names, label_sets))
        remedy = " If it is a label all the same, list them all with `labels`."
        if rows.wants_annotations:
            remedy += " If it is no answer (a tie, a refusal), leave it out with `unanswered`."
    else:
        remedy = ""
    numbers = {role: np.full(len(rows), UNKNOWN, dtype=np.int64) for role in present}
    for role, mask in present.items():
        if (mask & own).any():
            numbers[role][own] = read_labels(
                rows.columns[role].text(), mask & own, rows.options, rows.numbers,
                label_form=label_form, role=role, source=rows.source,
            )[own]  # fmt: skip
        if (mask & ~own).any():
            numbers[role][mask & ~own] = _look_up(rows, role, mask & ~own, task_of_row, tasks, remedy)
    return LabelNumbers(tuple(tasks), numbers["label"], numbers.get("gold"))


def _lists_options(
    rows: SourceRows, own: Mask, task_of_row: Codes, task_names: Sequence[str], tasks: Sequence[Task] | None
) -> Mask:
    """Which tasks' items list their own options: all items of a task do, or none. Shape (tasks,)."""
    with_options = np.bincount(task_of_row[own], minlength=len(task_names)) > 0
    expected = with_options if tasks is None else np.array([task.labels is None for task in tasks], dtype=bool)
    if not expected.any() and not with_options.any():
        return expected
    without = np.bincount(task_of_row[~own], minlength=len(task_names)) > 0
    for task, name in enumerate(task_names):
        if expected[task] and without[task]:
            raise rows.error(
                (task_of_row == task) & ~own,
                f"the items of task '{name}' list their own options, and here there are none. Name the options column "
                "with `options`.",
            )
        if with_options[task] and not expected[task]:
            message = f"the run's task '{name}' has fixed labels; leave the options out."
            raise rows.error((task_of_row == task) & own, message)
    return expected


def _label_sets(
    rows: SourceRows,
    present: Mapping[str, Mask],
    own: Mask,
    lists_options: Mask,
    task_of_row: Codes,
    task_names: Sequence[str],
    labels: Sequence[str] | None,
) -> list[LabelSet]:
    """The label set of each task; None where its items list their own options."""
    if labels is not None:
        _check_labels(labels, str(rows.source))
        return [None if listed else tuple(labels) for listed in lists_options]
    # A test table on its own has no annotations to take the labels from, and nothing is trained on it.
    role = "label" if rows.wants_annotations else "gold"
    if role not in rows.columns:
        return [None if listed else () for listed in lists_options]
    column, mask = rows.columns[role], present[role] & ~own
    texts = column.values.to_pylist()
    occurs = np.zeros((len(task_names), max(len(texts), 1)), dtype=bool)
    occurs[task_of_row[mask], column.codes[mask]] = True
    label_sets: list[LabelSet] = []
    for task, name in enumerate(task_names):
        label_set = sorted_labels([texts[code] for code in np.flatnonzero(occurs[task])])
        if len(label_set) == 1 and rows.wants_annotations and not lists_options[task]:
            raise RealmError(
                f"{rows.source}: {'' if len(task_names) == 1 else f'task {name!r}: '}every label is "
                f"'{label_set[0]}'. There is nothing to learn from a single class. If there are others, list them "
                "all with `labels`."
            )
        label_sets.append(None if lists_options[task] else label_set)
    return label_sets


def _check_labels(labels: Sequence[str], source: str) -> None:
    start = f"{source}: `labels={join_list(labels)}`:"
    if any(not label.strip() for label in labels):
        raise RealmError(f"{start} a label is blank. Is there a comma too many?")
    if len(set(labels)) < len(labels):
        raise RealmError(f"{start} a label is listed twice.")
    if len(labels) < 2:
        raise RealmError(f"{start} two labels or more are needed.")


def _look_up(rows: SourceRows, role: str, mask: Mask, task_of_row: Codes, tasks: Sequence[Task], remedy: str) -> Codes:
    """The number of each label in the label set of its task, of the rows in `mask`."""
    column = rows.columns[role]
    codes, texts = column.codes, column.values.to_pylist()
    table = np.full((len(tasks), max(len(texts), 1)), UNKNOWN, dtype=np.int64)
    for index, task in enumerate(tasks):
        position = {label: number for number, label in enumerate(task.labels or ())}
        table[index, : len(texts)] = [position.get(text, UNKNOWN) for text in texts]
    numbers = table[task_of_row[mask], codes[mask]]
    if (unknown := np.flatnonzero(mask)[numbers == UNKNOWN]).size:
        row = int(unknown[0])
        task = tasks[task_of_row[row]]
        names = task.labels or ()
        names_text = listed(names, LABELS_SHOWN) if names else ""
        of_task = "" if len(tasks) == 1 else f" of task '{task.name}'"
        raise rows.error(
            unknown[codes[unknown] == codes[row]],
            f"the {role} '{column.at(row)}' is not among the labels{of_task}: {names_text}.{remedy}",
        )
    return np.asarray(numbers)
