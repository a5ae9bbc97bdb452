"""Annotators over time: changes found with known power and few false alarms; pace by closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binom

from realm.crowd.drift import LEAST_SEGMENT, accuracies, change_point, labels_per_hour, over_time
from realm.crowd.estimate import estimate
from realm.crowd.notes import annotator_notes, drift_in_words
from realm.crowd.screens import Screens
from realm.crowd.verdicts import false_discoveries
from realm.data import Annotations, Items, Task

DAY = 86_400.0
START = 1_772_000_000.0


def crowd(
    n_annotators: int, labels_each: int, *, slack: int = 0, per_item: int = 5, seed: int = 0, after: float = 0.55
) -> Annotations:
    """Annotators of accuracy .9; the first `slack` of them fall to `after` halfway. Two options, a label a minute."""
    rng = np.random.default_rng(seed)
    n_items = n_annotators * labels_each // per_item
    truth = rng.integers(2, size=n_items)
    slots = np.concatenate([rng.permutation(n_items) for _ in range(per_item)])
    annotator = np.repeat(np.arange(n_annotators), labels_each)[: len(slots)]
    position = np.tile(np.arange(labels_each), n_annotators)[: len(slots)]
    _, first = np.unique(slots * n_annotators + annotator, return_index=True)  # nobody labels an item twice
    slots, annotator, position = slots[first], annotator[first], position[first]
    accuracy = np.where((annotator < slack) & (position >= labels_each // 2), after, 0.9)
    label = np.where(rng.random(len(slots)) < accuracy, truth[slots], 1 - truth[slots])
    order = np.argsort(slots, kind="stable")
    names = tuple(f"a{i}" for i in range(n_annotators))
    ids = [f"i{i}" for i in range(n_items)]
    items = Items.from_texts(ids, [Task("t", ("no", "yes"))])
    return Annotations(
        items,
        names,
        slots[order].astype(np.int32),
        annotator[order].astype(np.int32),
        label[order].astype(np.int32),
        created_at=START + 60.0 * position[order],
    )


def flagged(table: Annotations) -> list[int]:
    return [each.annotator for each in over_time(table) if each.drift is not None and each.drift.flagged]


def test_who_slackened_halfway_is_found_and_nobody_else() -> None:
    table = crowd(40, 120, slack=3, seed=1)
    rows = {each.annotator: each for each in over_time(table)}
    found = [who for who, each in rows.items() if each.drift.flagged]
    assert {0, 1, 2} <= set(found) and len(found) <= 4
    drift = rows[0].drift
    assert drift.before[0] == pytest.approx(0.9, abs=0.1) and drift.after[0] == pytest.approx(0.55, abs=0.15)
    assert drift.before[1] > drift.after[2], "the intervals lie apart"
    assert abs(drift.time - (START + 60 * 60)) < 60 * 20, "halfway, within twenty labels"
    assert "accuracy fell from" in drift_in_words(drift) and "2026-" in drift_in_words(drift)
    assert "accuracy fell from" in annotator_notes(Screens(table, estimate(table)))[0, 0]


def test_two_hundred_steady_annotators_are_hardly_ever_flagged() -> None:
    """At a false discovery rate of 5% a table without drift has a false alarm once in twenty; here ten are asked."""
    alarms = [len(flagged(crowd(200, 40, seed=seed))) for seed in range(3)]
    assert sum(alarms) <= 0.05 * 200 * len(alarms) / 10, alarms


@pytest.mark.parametrize(("accuracy", "n"), [(0.6, 20), (0.8, 40), (0.9, 120), (0.97, 300)])
def test_p_values_of_steady_annotators_are_no_smaller_than_chance_makes_them(accuracy: float, n: int) -> None:
    rng = np.random.default_rng(3)
    p_values = np.array([change_point((rng.random(n) < accuracy).astype(float))[1] for _ in range(3000)])
    for level in (0.2, 0.05, 0.01, 0.002):
        assert (p_values <= level).sum() <= binom.ppf(0.999, 3000, level), level
    assert (p_values <= 0.2).any(), "and not only large ones"


def test_a_clear_change_is_found_among_thousands_of_annotators() -> None:
    """A p-value by permutations is never below one in as many as were made: among 5,000 nobody could be named."""
    rng = np.random.default_rng(0)
    right = (rng.random((5000, 60)) < 0.9).astype(float)
    right[17, 30:] = rng.random(30) < 0.2
    cuts, p_values = zip(*(change_point(each) for each in right), strict=True)
    assert np.flatnonzero(false_discoveries(np.array(p_values), 0.05)).tolist() == [17] and abs(cuts[17] - 30) <= 4


def test_the_cut_is_that_of_the_largest_bernoulli_ratio() -> None:
    def best(values: np.ndarray) -> float:
        p = values.mean()
        return float(sum(np.log(p if value else 1 - p) for value in values)) if 0 < p < 1 else 0.0

    for seed in range(5):
        right = (np.random.default_rng(seed).random(30) < 0.7).astype(float)
        cut, _ = change_point(right)
        cuts = range(LEAST_SEGMENT, 30 - LEAST_SEGMENT + 1)
        assert best(right[:cut]) + best(right[cut:]) == pytest.approx(
            max(best(right[:c]) + best(right[c:]) for c in cuts)
        )
    assert np.isnan(change_point(right[:4])[1])


def test_the_interval_of_a_stretch_is_about_that_of_its_labels_and_wide_where_nobody_can_judge_them() -> None:
    """As a Beta of the counts where every label is surely right or wrong: the pool of 40 alike changes little."""
    right = np.tile([1.0] * 80 + [0.0] * 20, 40)
    parts = [np.arange(100 * i, 100 * (i + 1)) for i in range(40)]
    share, low, high = accuracies(parts, right, np.full(4000, 2))[0]
    assert share == pytest.approx(0.8, abs=0.02) and beta.ppf(0.025, 81, 21) < low < share < high < beta.ppf(
        0.975, 81, 21
    )
    unsure = accuracies([np.arange(20)], np.full(20, 0.5), np.full(20, 2))[0]
    assert unsure[2] - unsure[1] > 0.4, "labels that nobody can judge say nothing"


def test_pace_leaves_pauses_out() -> None:
    times = np.array([0.0, 60.0, 120.0, 10_000.0, 10_060.0])
    assert labels_per_hour(times) == pytest.approx(60.0)
    assert np.isnan(labels_per_hour(np.array([0.0, 9_000.0]))) and np.isnan(labels_per_hour(np.array([5.0])))


def test_without_times_nothing_is_said_and_few_labels_are_not_judged() -> None:
    table = crowd(6, 100)
    assert over_time(replace(table, created_at=None)) == []
    few = [each for each in over_time(crowd(10, 10, per_item=5)) if each.drift is not None]
    assert few == []
    some = table.created_at.copy()
    some[table.annotator == 2] = np.nan
    assert 2 not in {each.annotator for each in over_time(replace(table, created_at=some))}


@pytest.mark.slow
def test_power_by_how_far_accuracy_falls() -> None:
    """Of annotators who fall from .9 halfway through 120 labels, five to an item: how many are found."""
    found = {}
    for after in (0.55, 0.65):
        table = crowd(100, 120, slack=20, seed=5, after=after)
        found[after] = len({who for who in flagged(table) if who < 20})
    assert found[0.55] >= 14 and found[0.65] >= 5, found  # docs/over-time.md: 85 and 48%
