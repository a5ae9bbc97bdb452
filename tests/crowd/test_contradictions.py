from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from realm.crowd.contradictions import LEVEL, broken_items, errors_or_more
from realm.crowd.estimate import estimate
from realm.data import Annotations


def crowd(broken: int = 0, n_items: int = 200, seed: int = 0) -> Annotations:
    """Six annotators who are right 95% of the time; of the first `broken` items they know nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    rows = []
    for item in range(n_items):
        for who in range(6):
            label = who % 3 if item < broken else truth[item] if rng.random() < 0.95 else (truth[item] + 1) % 3
            rows.append((f"t{item}", f"w{who}", "abc"[label]))
    return Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]), labels=list("abc"))


def test_the_tail_is_that_of_all_outcomes() -> None:
    table = crowd(n_items=3).keep_annotations(np.array([0, 1, 2, 3, 6, 7, 12, 13, 14, 15, 16]))
    error = np.random.default_rng(1).uniform(0.05, 0.9, size=table.n_annotations)
    least = np.array([2, 1, 3])
    found = errors_or_more(table, error, least, np.arange(3))
    for item in range(3):
        rates = error[table.item == item]
        expected = sum(
            np.prod(np.where(outcome, rates, 1 - rates))
            for outcome in product([0, 1], repeat=len(rates))
            if sum(outcome) >= least[item]
        )
        assert found[item] == pytest.approx(expected, rel=1e-9)


def test_items_on_which_reliable_annotators_contradict_each_other_are_found() -> None:
    table = crowd(broken=4)
    found = broken_items(table, estimate(table))
    assert set(found.items[:4].tolist()) == {0, 1, 2, 3}, "the least probable first"
    assert len(found.items) <= 4 + 200 * LEVEL and (found.probability < LEVEL).all()
    assert (found.against[:4] == 4).all() and (found.reliable == 6).all()


def test_an_item_on_which_the_model_alone_is_wrong_is_not_broken() -> None:
    table = crowd()
    truth = estimate(table).posterior.argmax(axis=1)
    wrong = np.full((200, 3), 0.01)
    wrong[np.arange(200), (truth + 1) % 3] = 0.98
    assert len(broken_items(table, estimate(table, wrong)).items) <= 200 * LEVEL
    fair = broken_items(table, estimate(table))
    assert len(fair.items) <= 200 * LEVEL
