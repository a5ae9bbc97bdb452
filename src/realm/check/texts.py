"""Texts that are there twice: in one table under two ids, or in the table and in the test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data import Annotations, Items


@dataclass(frozen=True)
class Leak:
    """Test items whose text is also in the table: word for word, and but for case and spacing."""

    exact: int
    loose: int
    test_items: int
    examples: tuple[str, ...]


def find_leaks(annotations: Annotations, test: Items) -> Leak:
    """Which test items' texts are in the table too."""
    exact = pc.is_in(test.texts, value_set=annotations.items.texts).to_numpy(zero_copy_only=False)
    loose = pc.is_in(loosened(test.texts), value_set=loosened(annotations.items.texts)).to_numpy(zero_copy_only=False)
    ids = test.ids.take(pa.array(np.flatnonzero(loose)[:5])).to_pylist()
    return Leak(int(exact.sum()), int(loose.sum()), len(test), tuple(ids))


def loosened(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Texts in lower case, in one Unicode form, with single spaces."""
    lowered = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(lowered, pattern=r"\s+", replacement=" "))


def repeated_texts(annotations: Annotations) -> tuple[int, tuple[str, ...]]:
    """How many items have a text that another item of their task has too, and the ids of the first few."""
    codes = annotations.texts.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if annotations.items.options is not None or annotations.items.contexts is not None:
        return 0, ()
    key = codes * len(annotations.tasks) + annotations.item_tasks
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    twice = np.flatnonzero(counts[inverse] > 1)
    return len(twice), tuple(annotations.item_ids.take(pa.array(twice[:5])).to_pylist())
