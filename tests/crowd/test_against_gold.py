"""Cleaned labels and estimates against gold: counted by hand, and never a part of what is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score

from realm.crowd.against_gold import aggregate_against_gold, estimate_against_gold, gold_sentences
from realm.crowd.aggregation import aggregate
from realm.crowd.estimate import estimate
from realm.data import Annotations
from tests.tiny import crowd


@pytest.fixture(scope="module")
def table() -> Annotations:
    return crowd(60, (0.95, 0.9, 0.6, 0.4, 0.3))


def test_an_estimate_against_gold_is_counted_as_by_hand(table: Annotations) -> None:
    estimates = estimate(table.without_gold())
    labels, accuracy = estimates.posterior.argmax(1), estimates.accuracy[:, 0]
    right = np.mean([labels[item] == table.gold[item] for item in range(60)])
    shares = np.array([
        np.mean([table.label[row] == table.gold[table.item[row]] for row in np.flatnonzero(table.annotator == who)])
        for who in range(5)
    ])  # fmt: skip
    held = int(((estimates.low[:, 0] <= shares) & (shares <= estimates.high[:, 0])).sum())
    found = estimate_against_gold(table, estimates)
    assert found is not None
    assert (found.items, found.right, found.n_right, found.annotators, found.held) == (60, right, 60 * right, 5, held)
    assert found.spearman == pytest.approx(spearmanr(accuracy, shares).statistic)
    assert found.macro_f1 == pytest.approx(f1_score(table.gold, labels, average="macro"))
    assert found.majority_right == pytest.approx((aggregate(table, "majority").labels == table.gold).mean())
    assert found.base_rate == np.bincount(table.gold).max() / 60
    confidence = estimates.posterior.max(1)
    for level, count, wrong, expected in found.sure:
        sure = confidence >= level
        assert (count, wrong) == (sure.sum(), (labels != table.gold)[sure].sum())
        assert expected == pytest.approx((1 - confidence[sure]).sum())
    assert found.sure[0][1] > found.sure[1][1]
    text = " ".join(gold_sentences(found))
    assert f"Wrong labels: {found.sure[0][2]} of the {found.sure[0][1]} with confidence 0.9 or more" in text
    assert f"{right:.1%} of the 60 labels with gold" in text and f"{held} of 5 95% intervals" in text


def test_items_without_gold_and_annotators_with_little_of_it_are_left_out(table: Annotations) -> None:
    gold = table.gold.copy()
    gold[15:] = -1
    estimates = estimate(table.without_gold())
    found = estimate_against_gold(replace(table, gold=gold), estimates)
    assert found is not None and found.items == 15 and found.annotators == 0 and found.spearman is None
    assert "intervals" not in " ".join(gold_sentences(found))
    assert estimate_against_gold(table.without_gold(), estimates) is None
    assert estimate_against_gold(replace(table, gold=np.full(60, -1, np.int32)), estimates) is None


def test_an_aggregation_is_judged_in_the_same_way(table: Annotations) -> None:
    result = aggregate(table, "dawid-skene")
    found = aggregate_against_gold(table, result)
    assert found is not None and found.right == pytest.approx((result.labels == table.gold).mean())
    by_name = result.annotators.set_index("annotator").loc[list(table.annotators)]
    shares = [
        np.mean(table.label[rows] == table.gold[table.item[rows]])
        for rows in (table.annotator == who for who in range(5))
    ]
    assert found.held == ((by_name["low"] <= shares) & (shares <= by_name["high"])).sum()
    assert found.spearman == pytest.approx(spearmanr(by_name["accuracy"], shares).statistic)


def test_one_annotation_per_item_has_no_majority(table: Annotations) -> None:
    sparse = table.sparse(0)
    found = estimate_against_gold(sparse, estimate(sparse.without_gold()))
    assert found is not None and found.majority_right is None and "majority" not in " ".join(gold_sentences(found))
