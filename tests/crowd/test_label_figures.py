"""Labels counted against a truth and against each other, held against plain loops over the rows."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd

from realm.crowd.label_figures import count_confusions, peer_agreement, share_right
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
        tuple(sorted((names[row["one"]], names[row["other"]]))): (row["shared"], row["same"])
        for row in found.to_dict("records")
    }
    assert pairs == {pair: (n, same[pair]) for pair, n in shared.items() if n >= 12}
    assert 0 < len(pairs) < len(shared), "some pairs have too few items in common"
    assert ((found["low"] <= found["share"]) & (found["share"] <= found["high"])).all()
    assert len(peer_agreement(annotations.sparse())) == 0


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
            own = counts[(counts["annotator"] == who) & (counts["task"] == task)]
            found = np.zeros((3, 3), int)
            found[own["truth"], own["given"]] = own["count"]
            np.testing.assert_array_equal(found, expected)
            assert compared[who, task] == expected.sum()
            np.testing.assert_allclose(shares[who, task], np.trace(expected) / expected.sum())
