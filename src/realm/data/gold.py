"""Gold labels from a file of their own: item, [task,] gold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError


def read_gold(annotations: Annotations, path: Path) -> Annotations:
    """The same table with the gold of the items that the file names, and no other gold; not for items with options."""
    from realm.data.readers import read_test

    renamed = annotations.corrections.map_labels
    table = read_test(path, text="item", item="item", tasks=annotations.tasks, map_labels=renamed)
    places = {key: row for row, key in enumerate(_keys(annotations))}
    gold = np.full(annotations.n_items, UNKNOWN, dtype=np.int32)
    assert table.gold is not None
    for key, label in zip(_keys(table), table.gold, strict=True):
        if key not in places:
            raise RealmError(f"`gold_items`: {path}: no item '{key[1]}' in task '{annotations.tasks[key[0]].name}'.")
        gold[places[key]] = label
    return replace(annotations, gold=gold)


def _keys(table: Annotations) -> list[tuple[int, str]]:
    return list(zip(table.item_tasks.tolist(), table.item_ids.to_pylist(), strict=True))
