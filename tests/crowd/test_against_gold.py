"""Cleaned labels and estimates against gold: counted by hand, and never a part of what is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score

from realm.crowd.against_gold import (
    against_gold,
    aggregate_against_gold,
    estimate_against_gold,
    gold_sentences,
)
from realm.crowd.aggregation import aggregate
from realm.crowd.estimate import estimate
from tests.tiny import crowd


@pytest.fixture(scope="module")
def table():
    return crowd(60, (0.95, 0.9, 0.6, 0.4, 0.3))


def counted(table, labels, confidence, accuracy, low, high):
    """The same by loops over items and annotators."""
    items = [item for item in range(table.n_items) if table.gold[item] >= 0]
    right = [labels[item] == table.gold[item] for item in items]
    wrong = {level: sum(confidence[i] >= level and labels[i] != table.gold[i] for i in items) for level in (0.9, 0.99)}
    shares = []
    for who in range(table.n_annotators):
        rows = [row for row in range(table.n_annotations) if table.annotator[row] == who]
        rows = [row for row in rows if table.gold[table.item[row]] >= 0]
        shares.append(np.mean([table.label[row] == table.gold[table.item[row]] for row in rows]))
    held = sum(low[who, 0] <= share <= high[who, 0] for who, share in enumerate(shares))
    return np.mean(right), wrong, held, spearmanr(accuracy[:, 0], shares).statistic


def test_an_estimate_against_gold_is_counted_as_by_hand(table) -> None:
    estimates = estimate(table.without_gold())
    found = estimate_against_gold(table, estimates)
    assert found is not None
    labels, confidence = estimates.posterior.argmax(1), estimates.posterior.max(1)
    right, wrong, held, spearman = counted(table, labels, confidence, estimates.accuracy, estimates.low, estimates.high)
    assert (found.items, found.right, found.annotators, found.held) == (60, right, 5, held)
    assert {sure.confidence: sure.wrong for sure in found.sure} == wrong
    assert found.sure[0].labels == (confidence >= 0.9).sum() > found.sure[1].labels
    assert found.sure[0].expected == pytest.approx((1 - confidence[confidence >= 0.9]).sum())
    assert found.spearman == pytest.approx(spearman)
    assert found.macro_f1 == pytest.approx(f1_score(table.gold, labels, average="macro"))
    majority = aggregate(table, "majority").labels
    assert found.majority_right == pytest.approx((majority == table.gold).mean())
    assert found.majority_macro_f1 == pytest.approx(f1_score(table.gold, majority, average="macro"))
    assert found.base_rate == np.bincount(table.gold).max() / 60 and found.all_labels
    text = " ".join(gold_sentences(found))
    assert f"{right:.1%} of the 60 labels with gold" in text and f"{held} of 5 95% intervals" in text
    assert f"{wrong[0.9]} of the {found.sure[0].labels}" in text and "a part of their labels" not in text


def test_items_without_gold_and_annotators_with_little_of_it_are_left_out(table) -> None:
    gold = table.gold.copy()
    gold[15:] = -1
    few = replace(table, gold=gold)
    estimates = estimate(table.without_gold())
    found = estimate_against_gold(few, estimates)
    assert found is not None and found.items == 15 and found.annotators == 0 and found.spearman is None
    assert "intervals" not in " ".join(gold_sentences(found))
    gold = table.gold.copy()
    gold[25:] = -1
    found = estimate_against_gold(replace(table, gold=gold), estimates)
    assert found is not None and found.annotators == 5 and not found.all_labels
    assert "a part of their labels" in gold_sentences(found)[-1]


def test_without_gold_there_is_nothing_to_say(table) -> None:
    estimates = estimate(table.without_gold())
    assert estimate_against_gold(table.without_gold(), estimates) is None
    assert estimate_against_gold(replace(table, gold=np.full(60, -1, np.int32)), estimates) is None


def test_an_aggregation_is_judged_in_the_same_way(table) -> None:
    result = aggregate(table, "dawid-skene")
    found = aggregate_against_gold(table, result)
    assert found is not None and found.right == pytest.approx((result.labels == table.gold).mean())
    columns = [np.full((5, 1), np.nan) for _ in range(3)]
    for column, name in zip(columns, ("accuracy", "low", "high"), strict=True):
        for row in result.annotators.itertuples():
            column[table.annotators.index(row.annotator), 0] = getattr(row, name)
    assert found == against_gold(table, result.labels, result.confidence, *columns)


def test_one_annotation_per_item_has_no_majority(table) -> None:
    sparse = table.sparse(0)
    estimates = estimate(sparse.without_gold())
    found = estimate_against_gold(sparse, estimates)
    assert found is not None and found.majority_right is None and "majority" not in " ".join(gold_sentences(found))
