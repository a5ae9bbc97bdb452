"""The labels themselves: how often each was given, and names that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from realm.data.annotations import Annotations

# Letters of other scripts that are drawn as Latin ones.
_LOOKS = dict(
    zip(
        "аеорсухкмтвнії" + "АВЕКМНОРСТХІ" + "αοενρτ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΧ",
        "aeopcyxkmtbhii" + "ABEKMHOPCTXI" + "aoevpt" + "ABEZHIKMNOPTX",
        strict=True,
    )
)


def balance(annotations: Annotations) -> dict[str, dict[str, int]]:
    """How often each label was given, by task; by its place in the list where items have their own options."""
    task_of = annotations.item_tasks[annotations.item]
    told = {}
    for index, task in enumerate(annotations.tasks):
        labels = annotations.label[task_of == index]
        names = task.labels
        if names is None:
            names = tuple(f"option {place + 1}" for place in range(int(labels.max(initial=0)) + 1))
        counts = np.bincount(labels, minlength=len(names))
        told[task.name] = {name: int(count) for name, count in zip(names, counts, strict=True)}
    return told


def look_alikes(labels: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of labels that differ only in case, spacing, Unicode form or in letters that look the same."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        form = unicodedata.normalize("NFKC", label)
        seen = "".join(_LOOKS.get(letter, letter) for letter in form if unicodedata.category(letter) != "Cf")
        groups.setdefault(" ".join(seen.casefold().split()), []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]
