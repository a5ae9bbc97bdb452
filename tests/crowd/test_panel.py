"""Panels of judges: what each adds and the cheapest part, against brute force; copies, costs, gold, humans."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.crowd.panel import Panel
from realm.data import Annotations
from realm.errors import RealmError


def judged(
    accuracies: list[float], *, items: int = 60, options: int = 2, share: float = 1.0, gold: bool = True, seed: int = 0
) -> Annotations:
    """Independent judges of these accuracies, each of whom labels this share of the items."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(options, size=items)
    rows = [
        (f"t{i}", f"j{j}", str(t if draw.random() < accuracy else (t + draw.integers(1, options)) % options), str(t))
        for i, t in enumerate(truth)
        for j, accuracy in enumerate(accuracies)
        if draw.random() < share or j == i % len(accuracies)
    ]
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label", "gold"])
    return Annotations.from_pandas(frame if gold else frame.drop(columns="gold"), labels=list("0123")[:options])


def by_hand(panel: Panel, members: tuple[int, ...]) -> tuple[float, float]:
    """Expected and measured accuracy of a part, item by item and annotation by annotation."""
    table = panel.annotations
    expected, right = 0.0, 0
    result = panel.estimate
    evidence = result.exponent[0] * result.evidence(table)
    for item in range(table.n_items):
        scores = result.log_prior[item].copy()
        for row in range(table.offsets[item], table.offsets[item + 1]):
            if int(table.annotator[row]) in members:
                scores = scores + evidence[row]
        label = int(np.round(scores, 9).argmax())
        expected += float(result.posterior[item, label])
        right += label == table.gold[item]  # type: ignore[index]
    return expected / table.n_items, right / table.n_items


@pytest.mark.parametrize(("options", "share"), [(2, 1.0), (3, 0.7)])
def test_what_each_adds_is_the_panel_less_the_panel_without_them(options: int, share: float) -> None:
    panel = Panel(judged([0.9, 0.8, 0.7, 0.6, 0.55], options=options, share=share))
    everybody = (0, 1, 2, 3, 4)
    whole = by_hand(panel, everybody)
    assert (panel.whole.expected, panel.whole.measured) == pytest.approx(whole)
    table = panel.table().set_index("annotator")
    assert len(table) == 5
    for judge in everybody:
        rest = by_hand(panel, tuple(other for other in everybody if other != judge))
        row = table.loc[panel.annotations.annotators[judge]]
        assert row["adds"] == pytest.approx(whole[0] - rest[0]) and row["adds"] >= -1e-12
        assert row["adds_measured"] == pytest.approx(whole[1] - rest[1])
        assert row["low"] <= row["accuracy"] <= row["high"]


def test_the_cheap_part_is_as_good_as_asked_and_hardly_dearer_than_the_cheapest_of_all_parts() -> None:
    ratios = []
    for seed in range(6):
        draw = np.random.default_rng(seed)
        table = judged(draw.uniform(0.5, 0.95, size=6).tolist(), seed=seed)
        costs = {name: float(draw.lognormal(0, 1)) for name in table.annotators}
        panel = Panel(table, costs=costs)
        parts = [
            panel.part(np.isin(np.arange(6), members))
            for size in range(1, 7)
            for members in combinations(range(6), size)
        ]
        for within in (0.0, 0.02, 0.1):
            good = [part.cost for part in parts if part.expected >= panel.whole.expected - within - 1e-9]
            found = panel.cheapest(within)
            assert found.cost in good and found.cost == sum(costs[name] for name in found.members)
            ratios.append(found.cost / min(good))
            for name in found.members if len(found.members) > 1 else ():
                rest = np.isin(table.annotators, [other for other in found.members if other != name])
                assert panel.part(rest).expected < panel.whole.expected - within, "nobody can be spared"
    assert np.mean(np.array(ratios) < 1 + 1e-9) >= 0.8 and np.mean(ratios) < 1.1


def test_the_path_leads_from_the_whole_panel_to_one_judge() -> None:
    panel = Panel(judged([0.9, 0.8, 0.7, 0.6]))
    path = panel.path()
    assert path[0] == panel.whole and [len(part.members) for part in path] == [4, 3, 2, 1]
    for before, after in pairwise(path):
        assert set(after.members) < set(before.members)
    # each step leaves out who is spared best
    spared = max(panel.part(np.arange(4) != judge).expected for judge in range(4))
    assert path[1].expected == pytest.approx(spared)


def with_copy(table: Annotations) -> Annotations:
    frame = table.to_pandas()
    copy = frame[frame["annotator"] == "j2"].assign(annotator="copy")
    return Annotations.from_pandas(pd.concat([frame, copy]), labels=["0", "1"])


def test_a_copy_adds_nothing_and_the_cheaper_of_the_two_is_in_the_panel() -> None:
    table = with_copy(judged([0.85, 0.8, 0.7, 0.75], items=400))
    panel = Panel(table)
    assert panel.whole.members == ("j0", "j1", "j2", "j3")
    assert panel.table().set_index("annotator").loc["copy", "adds"] == 0
    costs = {**dict.fromkeys(table.annotators, 1.0), "j2": 5.0}
    assert "copy" in Panel(table, costs=costs).whole.members
    assert "j2" not in Panel(table, costs=costs).whole.members


def test_gold_is_measured_against_and_not_used_unless_it_is_given() -> None:
    table = judged([0.9, 0.7, 0.6, 0.6])
    without = Panel(table.without_gold())
    assert Panel(table).estimate.posterior.tolist() == without.estimate.posterior.tolist()
    assert without.whole.measured is None and "adds_measured" not in without.table()
    gold = np.where(np.arange(table.n_items) < 20, table.gold, -1)
    used = Panel(table, gold=gold)
    assert used.whole.measured is None and (used.estimate.posterior[np.arange(20), gold[:20]] == 1).all()
    assert not set(used.for_a_human(60)["text"]) & {f"t{i}" for i in range(20)}


def test_the_least_sure_items_are_for_a_human() -> None:
    panel = Panel(judged([0.8, 0.7, 0.6], share=0.7))
    confidence = panel.estimate.posterior.max(axis=1)
    table = panel.for_a_human(10)
    assert table["confidence"].tolist() == sorted(confidence)[:10]
    expected = (confidence.sum() + (1 - np.sort(confidence)[:10]).sum()) / len(confidence)
    assert panel.expected_with_humans(10) == pytest.approx(expected)
    assert panel.expected_with_humans(0) == pytest.approx(panel.whole.expected)
    assert panel.expected_with_humans(10_000) == pytest.approx(1)


@pytest.mark.parametrize(
    ("costs", "message"),
    [({"j0": 1.0}, "no price for j1"), ({"j0": 1, "j1": 0, "j2": 1}, "see annotator j1")],
)
def test_costs_that_cannot_be(costs: dict[str, Any], message: str) -> None:
    with pytest.raises(RealmError, match=message):
        Panel(judged([0.8, 0.7, 0.6]), costs=costs)
    with pytest.raises(RealmError, match=r"`within=1\.5`"):
        Panel(judged([0.8, 0.7, 0.6])).cheapest(1.5)
