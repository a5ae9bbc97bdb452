"""Who agrees with whom and which labels meet, held against plain loops over the rows."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd

from realm.crowd.label_figures import count_confusions, share_right
from realm.crowd.peers import disputed_labels, peer_agreement
from realm.data import Annotations

LABELS = ("a", "b", "c")


def table(seed: int = 0, n_items: int = 120, tasks: int = 2) -> tuple[Annotations, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    rows = [
        (f"t{i}", f"task {i % tasks}", f"w{who}", LABELS[rng.integers(3)])
        for i in range(n_items)
        for who in rng.choice(6, size=rng.integers(1, 5), replace=False)
    ]
    frame = pd.DataFrame(rows, columns=["text", "task", "annotator", "label"])
    return Annotations.from_pandas(frame, labels=list(LABELS)), frame


def test_pairs_are_counted_as_a_loop_counts_them() -> None:
    annotations, frame = table()
    shared: Counter[tuple[str, str]] = Counter()
    same: Counter[tuple[str, str]] = Counter()
    for _, rows in frame.groupby("text"):
        given = dict(zip(rows["annotator"], rows["label"], strict=True))
        for one, other in combinations(sorted(given), 2):
            shared[one, other] += 1
            same[one, other] += given[one] == given[other]
    found = peer_agreement(annotations, least_shared=12)
    names = annotations.annotators
    pairs = {
        tuple(sorted((names[a], names[b]))): (n, k)
        for a, b, n, k in zip(found.first, found.second, found.shared, found.same, strict=True)
    }
    assert pairs == {pair: (n, same[pair]) for pair, n in shared.items() if n >= 12}
    assert 0 < len(pairs) < len(shared), "some pairs have too few items in common"
    low, high = found.bounds()
    assert ((low <= found.share) & (found.share <= high) & (low >= 0) & (high <= 1)).all()
    others, rows = found.of(int(found.first[0]))
    assert found.second[0] in others and len(others) == len(rows)


def test_nobody_to_compare_with() -> None:
    annotations, _ = table()
    assert len(peer_agreement(annotations.sparse()).first) == 0
    alone = disputed_labels(annotations.sparse(), np.zeros(annotations.n_items, np.int64))
    assert len(alone.items) == 0


def test_disputed_labels_are_counted_as_a_loop_counts_them() -> None:
    annotations, frame = table(seed=1)
    labels = np.random.default_rng(3).integers(3, size=annotations.n_items)
    cleaned = dict(zip(annotations.texts.to_pylist(), labels.tolist(), strict=True))
    items: Counter[tuple[str, int, int]] = Counter()
    by_first: Counter[tuple[str, int, int]] = Counter()
    for (task, text), rows in frame.groupby(["task", "text"]):
        for one, other in combinations(sorted({LABELS.index(label) for label in rows["label"]}), 2):
            items[task, one, other] += 1
            by_first[task, one, other] += cleaned[text] == one
    found = disputed_labels(annotations, labels)
    names = [task.name for task in annotations.tasks]
    keys = [(names[t], a, b) for t, a, b in zip(found.task, found.first, found.second, strict=True)]
    assert dict(zip(keys, found.items.tolist(), strict=True)) == dict(items)
    assert dict(zip(keys, found.cleaned_first.tolist(), strict=True)) == {key: by_first[key] for key in items}
    assert found.items.tolist() == sorted(found.items.tolist(), reverse=True)


def test_what_each_gave_against_a_truth_is_counted_as_a_loop_counts_it() -> None:
    annotations, _ = table(seed=2)
    truth = np.random.default_rng(3).integers(-1, 3, annotations.n_items)
    counts = count_confusions(annotations, truth[annotations.item])
    shares, compared = share_right(annotations, truth)
    for who in range(annotations.n_annotators):
        for task in range(2):
            expected = np.zeros((3, 3), int)
            for row in np.flatnonzero(annotations.annotator == who):
                item = annotations.item[row]
                if annotations.item_tasks[item] == task and truth[item] >= 0:
                    expected[truth[item], annotations.label[row]] += 1
            np.testing.assert_array_equal(counts.matrix(2 * who + task), expected)
            assert compared[who, task] == expected.sum()
            np.testing.assert_allclose(shares[who, task], np.trace(expected) / expected.sum())
