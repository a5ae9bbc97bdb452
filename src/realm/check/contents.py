"""Labels and texts of a table: how often each label was given, names that look alike, texts that are there twice."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import Annotations
from realm.data.items import Items

IDS_LISTED = 5
"""Items that a finding names: enough to look at."""
# Letters of other scripts that are drawn as Latin ones.
_LATIN = dict(
    zip(
        "аеорсухкмтвнії" + "АВЕКМНОРСТХІ" + "αοενρτ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΧ",
        "aeopcyxkmtbhii" + "ABEKMHOPCTXI" + "aoevpt" + "ABEZHIKMNOPTX",
        strict=True,
    )
)


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


def look_alikes(labels: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of labels that differ only in case, spacing, Unicode form or in letters that look the same."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        normal = unicodedata.normalize("NFKC", label)
        latin = "".join(_LATIN.get(letter, letter) for letter in normal if unicodedata.category(letter) != "Cf")
        groups.setdefault(" ".join(latin.casefold().split()), []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]


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
