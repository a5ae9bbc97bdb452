"""Which items of one table are in another too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from realm.data.columns import Mask
from realm.data.corrections import folded
from realm.data.items import Items


def shown_in(items: Items, others: Items) -> Mask:
    """Which of the items show what one of the others does, but for case and spaces. Shape (items,).

    Compared are task, text, context and the options that an item lists: one hypothesis under two premises is two items.
    """
    known = set(_keys(others))
    return np.array([key in known for key in _keys(items)], dtype=bool)


def _keys(items: Items) -> Iterator[tuple[object, ...]]:
    own = [None] * len(items) if items.options is None else items.options.to_pylist()
    for task, item, options in zip(items.item_tasks, items, own, strict=True):
        options = options and tuple(sorted(map(folded, options)))
        yield items.tasks[task].name, folded(item.text), folded(item.context or ""), options
