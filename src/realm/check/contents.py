"""Labels and texts of a table: how often each label was given, names that look alike, texts that are there twice, and
how both compare with those of a test table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.items import Items
from realm.data.spelling import folded, look_alikes

IDS_LISTED = 5
"""Items that a finding names: enough to look at."""


def label_counts(annotations: Annotations) -> dict[str, dict[str, int]]:
    """How often each label was given, by task; by its place in the list where items have their own options."""
    task_of = annotations.item_tasks[annotations.item]
    by_task = {}
    for index, task in enumerate(annotations.tasks):
        labels = annotations.label[task_of == index]
        names = task.labels
        if names is None:
            names = tuple(f"option {place + 1}" for place in range(int(labels.max(initial=0)) + 1))
        counts = np.bincount(labels, minlength=len(names)).tolist()
        by_task[task.name] = dict(zip(names, counts, strict=True))
    return by_task


def label_map(groups: Sequence[Sequence[str]], counts: Mapping[str, int]) -> dict[str, str]:
    """For each group of labels that look alike, the spelling that was given most often in place of the others."""
    best = {group[0]: max(group, key=lambda label: counts.get(label, 0)) for group in map(tuple, groups)}
    return {label: best[group[0]] for group in groups for label in group if label != best[group[0]]}


@dataclass(frozen=True)
class LabelDifference:
    """The labels of one task, in the table and in the gold of a test table.

    | field | meaning |
    |---|---|
    | task | its name |
    | only_in_test | labels of the test table that no annotator gave, with how many test items have each |
    | only_in_table | labels that annotators gave and no test item has |
    | variants | of those only in the test table, the label of the table that looks alike |
    """

    task: str
    only_in_test: dict[str, int]
    only_in_table: tuple[str, ...]
    variants: dict[str, str]


def compare_labels(annotations: Annotations, test: Annotations) -> list[LabelDifference]:
    """Tasks whose labels differ between table and test; tasks whose items list their own options are left out."""
    own = {task.name: task.labels for task in annotations.tasks}
    differences = []
    for index, task in enumerate(test.tasks):
        of_table = own.get(task.name, own[annotations.tasks[0].name] if len(own) == len(test.tasks) == 1 else None)
        if of_table is None or task.labels is None or test.gold is None:
            continue
        gold = test.gold[(test.item_tasks == index) & (test.gold != UNKNOWN)]
        counts = np.bincount(gold, minlength=len(task.labels)).tolist()
        spelled = {folded(label): label for label in of_table}  # as gold is read when a model is evaluated
        in_test: dict[str, int] = {}
        for label, count in zip(task.labels, counts, strict=True):
            own_label = label if label in of_table else spelled.get(folded(label), label)
            if count:
                in_test[own_label] = in_test.get(own_label, 0) + count
        only_in_test = {label: count for label, count in in_test.items() if label not in of_table}
        only_in_table = tuple(label for label in of_table if label not in in_test)
        given = label_counts(annotations)[annotations.tasks[0].name if task.name not in own else task.name]
        variants = {
            label: max(group[:-1], key=lambda each: given[each])
            for label in only_in_test
            for group in look_alikes([*of_table, label])
            if group[-1] == label
        }
        if only_in_test or only_in_table:
            differences.append(LabelDifference(task.name, only_in_test, only_in_table, variants))
    return differences


def repeated_texts(annotations: Annotations) -> tuple[int, tuple[str, ...]]:
    """How many items have a text that another item of their task has too, and the ids of the first few."""
    items = annotations.items
    if items.options is not None or items.contexts is not None:
        return 0, ()
    key = items.text_codes * len(items.tasks) + items.item_tasks
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[inverse] > 1)
    return len(repeated), _ids(items, repeated)


@dataclass(frozen=True)
class Leak:
    """Test items whose text is also in the table: word for word, and but for case and spacing."""

    exact: int
    loose: int
    ids: tuple[str, ...]


def find_leaks(annotations: Annotations, test: Items) -> Leak:
    """Which test items' texts are in the table too."""
    exact = pc.is_in(test.texts, value_set=annotations.texts)
    loose = np.asarray(pc.is_in(_normalised(test.texts), value_set=_normalised(annotations.texts)))
    return Leak(pc.sum(exact).as_py() or 0, int(loose.sum()), _ids(test, np.flatnonzero(loose)))


def _normalised(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Texts in lower case, in one Unicode form, with single spaces."""
    lowered = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(lowered, pattern=r"\s+", replacement=" "))


def _ids(items: Items, rows: np.ndarray) -> tuple[str, ...]:
    return tuple(items.ids.take(pa.array(rows[:IDS_LISTED])).to_pylist())
