"""The label set of each task, in which order, and the number of each row's label and gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from realm.data.annotations import UNKNOWN
from realm.data.categorical import Categorical, Codes
from realm.data.columns import Mask, Rows, name_rows
from realm.data.comma_lists import join_list
from realm.data.items import Task
from realm.data.options import LabelForm, read_labels
from realm.errors import RealmError

LABELS_SHOWN = 20
"""Labels that a message lists: the whole of a usual label set."""
LabelSet = tuple[str, ...] | None


@dataclass(frozen=True)
class NumberedLabels:
    """The tasks, and the number of each row's label and gold among its item's options (-1: none). Shapes (rows,)."""

    tasks: tuple[Task, ...]
    label: Codes
    gold: Codes | None


@dataclass(frozen=True)
class LabelledRows:
    """Rows whose labels are to be numbered. Rows with options of their own are read against these, the others against
    the label set of their task.

    | field | shape | meaning |
    |---|---|---|
    | columns | (rows,) each | `label` and `gold`, as far as they are there |
    | options | (rows,) or None | the row's own options |
    | numbers | (rows,) | the number of the row in its source, for messages |
    | task_of_row | (rows,) | index into `task_names` |
    | annotated | (rows,) | whether the row has a label |
    """

    columns: Mapping[str, Categorical]
    options: pa.LargeListArray | None
    numbers: Rows
    task_of_row: Codes
    task_names: Sequence[str]
    annotated: Mask
    wants_annotations: bool
    source: str

    def number(
        self, labels: Sequence[str] | None, tasks: Sequence[Task] | None, label_form: LabelForm
    ) -> NumberedLabels:
        """Number the labels: by the label sets of `tasks`, or by `labels`, or by the labels that were given, sorted."""
        n_rows, options = len(self.numbers), self.options
        own = np.zeros(n_rows, bool) if options is None else options.is_valid().to_numpy(zero_copy_only=False)
        own_options = self._tasks_with_own_options(own, tasks)
        present = {"label": self.annotated}
        if "gold" in self.columns:
            present["gold"] = self.columns["gold"].is_valid()
        label_sets = self._label_sets(present, own, own_options, labels, tasks)
        remedy = "" if tasks is not None else " If it is a label all the same, list them all with `labels`."
        numbered = {role: np.full(n_rows, UNKNOWN, dtype=np.int64) for role in present}
        for role, mask in present.items():
            if (mask & own).any():
                numbered[role][own] = read_labels(
                    self.columns[role].text(), mask & own, options, self.numbers,
                    label_form=label_form, role=role, source=self.source,
                )[own]  # fmt: skip
            if (mask & ~own).any():
                numbered[role][mask & ~own] = self._look_up(role, mask & ~own, label_sets, remedy)
        own_tasks = tuple(Task(name, label_sets[index]) for index, name in enumerate(self.task_names))
        return NumberedLabels(own_tasks if tasks is None else tuple(tasks), numbered["label"], numbered.get("gold"))

    def _tasks_with_own_options(self, own: Mask, tasks: Sequence[Task] | None) -> Mask:
        """Which tasks' items list their own options: all items of a task do, or none. Shape (tasks,)."""
        names = self.task_names
        if not own.any() and (tasks is None or all(task.labels is not None for task in tasks)):
            return np.zeros(len(names), dtype=bool)
        with_options = np.bincount(self.task_of_row, own, minlength=len(names)) > 0
        without = np.bincount(self.task_of_row, ~own, minlength=len(names)) > 0
        expected = with_options if tasks is None else np.array([task.labels is None for task in tasks])
        for task in range(len(names)):
            of_task = self.task_of_row == task
            if expected[task] and without[task]:
                raise RealmError(
                    f"{self.source}, {name_rows(self.numbers[of_task & ~own])}: the items of task '{names[task]}' list "
                    "their own options, and here there are none. Name the options column with `options`."
                )
            if not expected[task] and with_options[task]:
                raise RealmError(
                    f"{self.source}, {name_rows(self.numbers[of_task & own])}: the run's task '{names[task]}' has "
                    "fixed labels; leave the options out."
                )
        return np.asarray(expected, dtype=bool)

    def _label_sets(
        self,
        present: Mapping[str, Mask],
        own: Mask,
        own_options: Mask,
        labels: Sequence[str] | None,
        tasks: Sequence[Task] | None,
    ) -> list[LabelSet]:
        """The label set of each task; None where its items list their own options."""
        if tasks is not None:
            return [task.labels for task in tasks]
        if labels is not None:
            _check_labels(labels, self.source)
            return [None if listed else tuple(labels) for listed in own_options]
        # A test table on its own has no annotations to take the labels from, and nothing is trained on it.
        role = "label" if self.wants_annotations else "gold"
        if role not in self.columns:
            return [None if listed else () for listed in own_options]
        column, rows = self.columns[role], present[role] & ~own
        texts = column.values.to_pylist()
        occurs = np.zeros((len(self.task_names), max(len(texts), 1)), dtype=bool)
        occurs[self.task_of_row[rows], column.codes[rows]] = True
        label_sets: list[LabelSet] = []
        for task, name in enumerate(self.task_names):
            label_set = sorted_labels([texts[code] for code in np.flatnonzero(occurs[task])])
            if len(label_set) == 1 and self.wants_annotations and not own_options[task]:
                raise RealmError(
                    f"{self.source}: {'' if len(self.task_names) == 1 else f'task {name!r}: '}every label is "
                    f"'{label_set[0]}'. There is nothing to learn from a single class. If there are others, list them "
                    "all with `labels`."
                )
            label_sets.append(None if own_options[task] else label_set)
        return label_sets

    def _look_up(self, role: str, rows: Mask, label_sets: Sequence[LabelSet], remedy: str) -> Codes:
        """The number of each of these rows' labels in the label set of its task."""
        column = self.columns[role]
        codes, texts = column.codes, column.values.to_pylist()
        table = np.full((len(label_sets), max(len(texts), 1)), UNKNOWN, dtype=np.int64)
        for task, label_set in enumerate(label_sets):
            position = {label: index for index, label in enumerate(label_set or ())}
            table[task, : len(texts)] = [position.get(text, UNKNOWN) for text in texts]
        numbered = table[self.task_of_row[rows], codes[rows]]
        if (unknown := np.flatnonzero(rows)[numbered == UNKNOWN]).size:
            row = int(unknown[0])
            task = int(self.task_of_row[row])
            names = label_sets[task] or ()
            shown = ", ".join(names[:LABELS_SHOWN]) + (", ..." if len(names) > LABELS_SHOWN else "")
            of_task = "" if len(label_sets) == 1 else f" of task '{self.task_names[task]}'"
            raise RealmError(
                f"{self.source}, {name_rows(self.numbers[unknown[codes[unknown] == codes[row]]])}: the {role} "
                f"'{column.at(row)}' is not among the labels{of_task}: {shown}.{remedy}"
            )
        return np.asarray(numbered)


def _check_labels(labels: Sequence[str], source: str) -> None:
    start = f"{source}: `labels={join_list(labels)}`:"
    if any(not label.strip() for label in labels):
        raise RealmError(f"{start} a label is blank. Is there a comma too many?")
    if len(set(labels)) < len(labels):
        raise RealmError(f"{start} a label is listed twice.")
    if len(labels) < 2:
        raise RealmError(f"{start} two labels or more are needed.")


def sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorted by number where all are numbers, else as text."""
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    except ValueError:
        return tuple(sorted(labels))
