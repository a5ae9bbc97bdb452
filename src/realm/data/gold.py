"""Gold labels from a file of their own: item, [task,] gold."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.columns import as_text
from realm.data.readers.files import open_file
from realm.data.roles import listed
from realm.errors import RealmError


def read_gold(annotations: Annotations, path: Path) -> Annotations:
    """The same table with the gold of the items that the file names (and no other gold).

    Labels are names (or, for items with their own options, the option's text). An unknown item or label is an error.
    """
    if os.path.isdir(path):
        raise RealmError(f"`gold_items`: {path} is a folder, not a file with the columns item and gold.")
    table, items = open_file(path).table(), annotations.items
    task_names = [task.name for task in items.tasks]
    for name in ("item", "gold", *(["task"] if len(task_names) > 1 else [])):
        if name not in table.column_names:
            raise RealmError(f"`gold_items`: {path} has no column '{name}'; there are: {listed(table.column_names)}.")
    columns = {
        name: as_text(table.column(name), name, str(path)).to_pylist()
        for name in ("item", "task", "gold")
        if name in table.column_names
    }
    tasks = columns.get("task", task_names[:1] * len(table))
    item_tasks = [task_names[task] for task in items.item_tasks]
    index_of = {item: index for index, item in enumerate(zip(items.ids.to_pylist(), item_tasks, strict=True))}
    gold = np.full(len(items), UNKNOWN, dtype=np.int32)
    row_of: dict[int, int] = {}
    for row, (item, task, label) in enumerate(zip(columns["item"], tasks, columns["gold"], strict=True), 1):
        if not label:
            continue
        if (index := index_of.get((item, task))) is None:
            raise RealmError(f"`gold_items`: {path}, row {row}: no item {item!r} in task {task!r}.")
        if label not in (options := items.options_of(index)):
            raise RealmError(
                f"`gold_items`: {path}, row {row}: {label!r} is not one of the item's labels ({', '.join(options)})."
            )
        if gold[index] not in (UNKNOWN, options.index(label)):
            raise RealmError(
                f"`gold_items`: {path}, rows {row_of[index]} and {row}: the gold of the item {item!r} is "
                f"{options[gold[index]]!r} on one and {label!r} on the other. Keep the right one."
            )
        gold[index] = options.index(label)
        row_of.setdefault(index, row)
    return replace(annotations, gold=gold)
