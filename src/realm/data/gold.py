"""Gold labels from a file of their own: item, [task,] gold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError


def read_gold(annotations: Annotations, path: Path) -> Annotations:
    """The same table with the gold of the items that the file names (and no other gold).

    Labels are names (or, for items with their own options, the option's text). An unknown item or label is an error.
    """
    columns = _read(path)
    if missing := [name for name in ("item", "gold") if name not in columns]:
        raise RealmError(f"`gold_items`: {path} has no column {missing[0]!r}; there are: {', '.join(columns)}.")
    has_task = "task" in columns
    if not has_task and len(annotations.tasks) > 1:
        raise RealmError(f"`gold_items`: {path} needs a column 'task', since the table has several tasks.")
    names = [task.name for task in annotations.tasks]
    items = annotations.items
    index_of = {
        (item, names[task]): index
        for index, (item, task) in enumerate(zip(items.ids.to_pylist(), items.item_tasks.tolist(), strict=True))
    }
    gold = np.full(annotations.n_items, UNKNOWN, dtype=np.int32)
    tasks = columns["task"] if has_task else [names[0]] * len(columns["item"])
    for number, (item, task, label) in enumerate(zip(columns["item"], tasks, columns["gold"], strict=True), 1):
        if label == "":
            continue
        index = index_of.get((item, task))
        if index is None:
            raise RealmError(f"`gold_items`: {path}, row {number}: no item {item!r} in task {task!r}.")
        options = items.options_of(index)
        if label not in options:
            raise RealmError(
                f"`gold_items`: {path}, row {number}: {label!r} is not one of the item's labels ({', '.join(options)})."
            )
        gold[index] = options.index(label)
    return replace(annotations, gold=gold)


def _read(path: Path) -> dict[str, list[str]]:
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, sep="\t" if path.suffix == ".tsv" else ",")
    except FileNotFoundError:
        raise RealmError(f"`gold_items`: no such file: {path}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise RealmError(f"`gold_items`: {path} is not readable as a table: {error}") from None
    return {str(name): [str(value) for value in frame[name]] for name in frame.columns}
