"""Label sets: as they are typed, which one each task has, and the number of each row's label and gold in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from realm.data.annotations import UNKNOWN
from realm.data.columns import Codes, Mask, encode
from realm.data.items import Task
from realm.data.long_table import SourceRows
from realm.data.options import read_choices
from realm.data.roles import listed


def split_list(text: str) -> list[str]:
    """Comma separated names, without the spaces around them; one in double quotes may have commas.

    Examples:
        >>> split_list('neg, "so, so", pos')
        ['neg', 'so, so', 'pos']
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def join_list(names: Iterable[str]) -> str:
    """The names in the form that `split_list` reads back.

    Examples:
        >>> join_list(["neg", "so, so"])
        'neg,"so, so"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorted by number where all are numbers, else as text."""
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    except ValueError:
        return tuple(sorted(labels))


def number_labels(
    rows: SourceRows, task_of_row: Codes, task_names: Sequence[str]
) -> tuple[tuple[Task, ...], Codes, Codes | None]:
    """The tasks, and the number of each row's label and gold among its item's options (-1: none). Shapes (rows,).

    `task_of_row` (rows,) indexes `task_names`. Rows that list options are read against these, the others against the
    label set of their task: that of the run, or the one that is listed, or the labels of its annotations, sorted.
    """
    own = rows.columns["options"].codes >= 0 if "options" in rows.columns else np.zeros(len(rows), dtype=bool)
    lists_options = _lists_options(rows, own, task_of_row, task_names)
    given = {"label": rows.annotated}
    if "gold" in rows.columns:
        given["gold"] = rows.columns["gold"].codes >= 0
    tasks = rows.options.tasks
    if tasks is None:
        sets: list[tuple[str, ...]] = [tuple(rows.labels or ())] * len(task_names)
        role = (
            "label" if rows.options.wants_annotations else "gold"
        )  # a test table has no annotations to take them from
        labels = list(rows.labels or ())
        if rows.labels is not None and (len(set(labels)) < max(len(labels), 2) or not all(map(str.strip, labels))):
            message = "two labels or more are needed, none of them blank or listed twice."
            raise rows.source.error(f"`labels={join_list(labels)}`: {message}")
        if rows.labels is None and role in given:
            sets = _label_sets(rows, role, given[role] & ~own, task_of_row, task_names)
        every = zip(task_names, sets, lists_options, strict=True)
        tasks = [Task(name, None if lists else labels) for name, labels, lists in every]
    numbers = {role: _numbers(rows, role, mask, own, task_of_row, tasks) for role, mask in given.items()}
    return tuple(tasks), numbers["label"], numbers.get("gold")


def _lists_options(rows: SourceRows, own: Mask, task_of_row: Codes, task_names: Sequence[str]) -> list[bool]:
    """Which tasks' items list their own options: all items of a task do, or none. Shape (tasks,)."""
    tasks = rows.options.tasks
    with_options = np.bincount(task_of_row[own], minlength=len(task_names)) > 0
    lists = with_options if tasks is None else np.array([task.labels is None for task in tasks])
    if (wrong := own != lists[task_of_row]).any():
        task = task_of_row[wrong][0]
        message = f"the run's task '{task_names[task]}' has fixed labels; leave the options out."
        if lists[task]:
            message = f"the items of task '{task_names[task]}' list their own options, and here there are none. "
            message += "Name the options column with `options`."
        raise rows.error(wrong & (task_of_row == task), message)
    return [bool(each) for each in lists]


def _label_sets(
    rows: SourceRows, role: str, mask: Mask, task_of_row: Codes, task_names: Sequence[str]
) -> list[tuple[str, ...]]:
    """The labels that occur in each task, sorted. Shape (tasks,)."""
    column = rows.columns[role]
    labels: list[list[str]] = [[] for _ in task_names]
    for pair in encode(pa.array(task_of_row[mask] * len(column.values) + column.codes[mask]))[1].to_pylist():
        labels[pair // len(column.values)].append(column.values[pair % len(column.values)])
    for name, of_task in zip(task_names, labels, strict=True):
        if len(of_task) == 1 and rows.options.wants_annotations:
            raise rows.source.error(
                f"{'' if len(task_names) == 1 else f'task {name!r}: '}every label is '{of_task[0]}'. There is nothing "
                "to learn from a single class. If there are others, list them all with `labels`."
            )
    return [sorted_labels(of_task) for of_task in labels]


def _numbers(rows: SourceRows, role: str, mask: Mask, own: Mask, task_of_row: Codes, tasks: Sequence[Task]) -> Codes:
    """The place of each label in its item's options or in the label set of its task; -1 without. Shape (rows,)."""
    numbers = np.full(len(rows), UNKNOWN, dtype=np.int64)
    form = rows.long.label_form if rows.options.label_form == "auto" else rows.options.label_form
    for with_own in (True, False):
        here = np.flatnonzero(mask & (own == with_own))
        if not len(here):
            continue
        column = rows.columns[role]
        where = rows.columns["options"].codes if with_own else task_of_row
        # each pair of a label and what it is looked up in once
        pair_of_row, codes = encode(pa.array(where[here] * len(column.values) + column.codes[here]))
        places, labels = np.divmod(np.asarray(codes), len(column.values))
        texts = [column.values[label] for label in labels]
        if with_own:
            options = [rows.columns["options"].values[place] for place in places]
            of_pair, wrong, message = read_choices(list(zip(options, texts, strict=True)), form)
        else:
            of_pair, wrong, message = _look_up([tasks[place] for place in places], texts)
            if wrong is not None and rows.options.tasks is None:
                message += " If it is a label all the same, list them all with `labels`."
                message += " If it is no answer (a tie, a refusal), leave it out with `unanswered`."
        if wrong is not None:
            raise rows.error(here[pair_of_row == wrong], f"the {role} '{texts[wrong]}' {message}")
        numbers[here] = np.array(of_pair, dtype=np.int64)[pair_of_row]
    return numbers


def _look_up(tasks: Sequence[Task], labels: Sequence[str]) -> tuple[list[int], int | None, str]:
    """The place of each label in the label set of its task; and which has none first, and what is wrong."""
    places = {task: {name: place for place, name in enumerate(task.labels or ())} for task in tasks}
    numbers = [places[task].get(label, UNKNOWN) for task, label in zip(tasks, labels, strict=True)]
    if UNKNOWN not in numbers:
        return numbers, None, ""
    task = tasks[wrong := numbers.index(UNKNOWN)]
    of_task = "" if len(places) == 1 else f" of task '{task.name}'"
    names = listed(task.labels) if task.labels else ""
    return numbers, wrong, f"is not among the labels{of_task}: {names}."
