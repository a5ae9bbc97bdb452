"""Annotators over time: changes found with known power and few false alarms; pace by closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

from realm.crowd.drift import accuracies, change_point, over_time
from realm.crowd.estimate import estimate
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


def flagged(table: Annotations) -> list[str]:
    return [each.annotator for each in over_time(table) if each.changed]


def test_who_slackened_halfway_is_found_and_nobody_else() -> None:
    table = crowd(40, 120, slack=3, seed=1)
    rows = {each.annotator: each for each in over_time(table)}
    found = flagged(table)
    assert {"a0", "a1", "a2"} <= set(found) and len(found) <= 4
    first = rows["a0"]
    assert first.before[0] == pytest.approx(0.9, abs=0.1) and first.after[0] == pytest.approx(0.55, abs=0.15)
    assert first.before[1] > first.after[2] and first.fell, "the intervals lie apart"
    assert abs(first.changed_at.timestamp() - (START + 60 * 60)) < 60 * 20, "halfway, within twenty labels"
    assert first.change.startswith("accuracy fell from") and "2026-" in first.change
    assert first.stretches.shape == (8, 4) and first.stretches[0, 1] > first.stretches[-1, 1]
    assert first.change in Screens(table, estimate(table)).notes[0, 0]
    assert pd.DataFrame(over_time(table))["changed"].sum() == len(found)


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
    assert np.flatnonzero(false_discoveries(np.array(p_values))).tolist() == [17] and abs(cuts[17] - 30) <= 4


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
    table = crowd(10, 10)
    times = np.full(table.n_annotations, np.nan)
    for who, moments in ((0, [0.0, 60.0, 120.0, 10_000.0, 10_060.0]), (1, [0.0, 9_000.0]), (2, [5.0])):
        times[np.flatnonzero(table.annotator == who)[: len(moments)]] = moments
    rows = over_time(replace(table, created_at=times))
    assert [each.labels for each in rows] == [5, 2, 1]
    assert rows[0].labels_per_hour == pytest.approx(60.0)
    assert np.isnan([each.labels_per_hour for each in rows[1:]]).all()


def test_without_times_nothing_is_said_and_few_labels_are_not_judged() -> None:
    table = crowd(6, 100)
    assert over_time(replace(table, created_at=None)) == []
    assert all(each.before is None for each in over_time(crowd(10, 10, per_item=5)))
    some = table.created_at.copy()
    some[table.annotator == 2] = np.nan
    assert "a2" not in {each.annotator for each in over_time(replace(table, created_at=some))}


@pytest.mark.slow
def test_power_by_how_far_accuracy_falls() -> None:
    """Of annotators who fall from .9 halfway through 120 labels, five to an item: how many are found."""
    found = {}
    for after in (0.55, 0.65):
        table = crowd(100, 120, slack=20, seed=5, after=after)
        found[after] = len({who for who in flagged(table) if int(who[1:]) < 20})
    assert found[0.55] >= 14 and found[0.65] >= 5, found  # docs/results.md: 85 and 45%
