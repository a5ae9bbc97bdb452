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
from realm.data.source import Source
from realm.data.spelling import folded, plain
from realm.errors import RealmError


def read_gold(annotations: Annotations, path: Path) -> Annotations:
    """The same table with the gold of the items that the file names (and no other gold).

    Labels are names, renamed as those of the table were (or, for items with their own options, the option's text). An
    unknown item or label is an error.
    """
    source = Source(f"`gold_items`: {path}")
    if os.path.isdir(path):
        raise RealmError(f"{source} is a folder, not a file with the columns item and gold.")
    table, items = open_file(path).table(), annotations.items
    task_names = [task.name for task in items.tasks]
    for name in ("item", "gold", *(["task"] if len(task_names) > 1 else [])):
        if name not in table.column_names:
            raise RealmError(f"{source} has no column '{name}'; there are: {listed(table.column_names)}.")
    names = [name for name in ("item", "task", "gold") if name in table.column_names]
    columns = {name: as_text(table.column(name), name, source).to_pylist() for name in names}
    tasks = columns.get("task", task_names[:1] * len(table))
    item_tasks = [task_names[task] for task in items.item_tasks]
    index_of = {item: index for index, item in enumerate(zip(items.ids.to_pylist(), item_tasks, strict=True))}
    gold = np.full(len(items), UNKNOWN, dtype=np.int32)
    row_of: dict[int, int] = {}
    for row, (item, task, label) in enumerate(zip(columns["item"], tasks, columns["gold"], strict=True), 1):
        if not label:
            continue
        if (index := index_of.get((item, task))) is None:
            raise source.error(f"no item {item!r} in task {task!r}.", [row])
        options = items.options_of(index)
        number = _number(annotations.corrections.map_labels.get(label, label), options)
        if number is None:
            raise source.error(f"{label!r} is not one of the item's labels ({', '.join(options)}).", [row])
        if gold[index] not in (UNKNOWN, number):
            raise RealmError(
                f"{source.both(row_of[index], row)}: the gold of the item {item!r} is {options[gold[index]]!r} on one "
                f"and {label!r} on the other. Keep the right one."
            )
        gold[index] = number
        row_of.setdefault(index, row)
    return replace(annotations, gold=gold)


def _number(label: str, options: list[str]) -> int | None:
    """The option of this name, or the only one that is spelled so but for case, spaces and 1.0 for 1."""
    if label in options:
        return options.index(label)
    alike = [number for number, option in enumerate(options) if folded(plain(option)) == folded(plain(label))]
    return alike[0] if len(alike) == 1 else None
