"""Which items of one table are in another too."""

from __future__ import annotations

import numpy as np

from realm.data.columns import Mask
from realm.data.items import Items

Key = tuple[str, str, str, tuple[str, ...] | None]


def shown_in(items: Items, others: Items) -> Mask:
    """Which of the items show what one of the others does, but for case and spaces. Shape (items,).

    Compared are the task, the text, the context and the options that an item lists for itself: one hypothesis under
    two premises is two items.
    """
    known = set(_keys(others))
    return np.fromiter((key in known for key in _keys(items)), dtype=bool, count=len(items))


def _keys(items: Items) -> list[Key]:
    names = [task.name for task in items.tasks]
    listed = [None] * len(items) if items.options is None else items.options.to_pylist()
    return [
        (
            names[task],
            _normalised(item.text),
            _normalised(item.context or ""),
            None if own is None else tuple(sorted(map(_normalised, own))),
        )
        for task, item, own in zip(items.item_tasks.tolist(), items, listed, strict=True)
    ]


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
