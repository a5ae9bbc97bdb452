"""The lists of items and disputes: what more labels buy, where model and votes differ, who agrees with whom."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.report.disputes import Disputes
from realm.report.items import Settling, disagreements
from realm.report.run_data import read_run
from realm.report.run_page import render
from tests.report.folders import crowd, data_of
from tests.report.reader import Page

LABELS = ("no", "yes", "maybe")


def test_settling_prices_more_labels_and_says_who_gives_them() -> None:
    table, log_probs = crowd(n_items=200, accuracies=(0.8, 0.75, 0.7, 0.8, 0.7, 0.8))
    data = data_of(table, log_probs)
    plan = Settling(data)
    gains = [gain for _, gain, _, _ in plan.rows]
    assert gains == sorted(gains) and gains[-1] > 0 and plan.seconds_per_label is None
    assert plan.wrong == pytest.approx((1 - data.estimate.posterior.max(axis=1)).sum())
    for size, gain, left, _ in plan.rows:
        assert gain == pytest.approx(plan.queue["gain_labels"][:size].sum()) and gain + left == pytest.approx(
            plan.wrong
        )
    listed = plan.items.items
    assert sum(count for _, count, _ in plan.workload) == len(listed) <= plan.rows[-1][0], "what is listed is priced"
    for name, count, accuracy in plan.workload:
        assert count == sum(item.ask == name for item in listed)
        assert accuracy == data.estimate.accuracy[table.annotators.index(name), 0]
    timed = replace(
        table, lead_time=np.full(table.n_annotations, 36.0), created_at=np.arange(table.n_annotations) * 60.0
    )
    assert Settling(data_of(timed, log_probs)).rows[0][3] == "15 min", "25 labels of 36 seconds"


def test_disagreements_show_texts_votes_and_whom_the_label_follows(plain_run: Path) -> None:
    data = read_run(plain_run)
    favourite, rows = data.model_probs.argmax(axis=1), np.arange(150)
    apart = np.flatnonzero(data.votes.max(axis=1) > data.votes[rows, favourite])
    found = disagreements(data)
    assert found.total == len(found.items) == len(apart)
    assert {item.text for item in found.items} == {f"review number {item}" for item in apart}
    for item in found.items:
        row = int(item.text.split()[-1])
        assert item.model == LABELS[favourite[row]] and item.label == LABELS[data.labels[row]]
        assert item.model_share == data.model_probs[row].max() and item.confidence == data.estimate.posterior[row].max()
        assert (item.sides == "as the model") == (favourite[row] == data.labels[row])
        counts = [f"{LABELS[k]} {n}" for k, n in enumerate(data.votes[row]) if n]
        assert sorted(item.votes.split(", ")) == sorted(counts)
    page = Page(render(data))
    listed = page.source.split('id="apart-list"')[1].split("</ul>")[0]
    assert f"On {len(apart)} items" in page.text and listed.count("<li ") == len(apart)
    pairs = {(LABELS[data.votes[i].argmax()], LABELS[favourite[i]]) for i in apart}
    drawn = "Labels by majority → by model"
    assert drawn in page.text and all(f"<title>{a} → {b}: " in page.source for a, b in list(pairs)[:6])


def test_ids_are_shown_where_the_table_has_them(plain_run: Path) -> None:
    data = read_run(plain_run)
    assert 'class="id"' in render(replace(data, config={**data.config, "columns": {"text": "t", "item": "i"}}))
    hashed = render(replace(data, config={**data.config, "columns": {"text": "t"}}))
    assert 'class="id"' not in hashed and 'data-item="' in hashed


def confusing() -> Annotations:
    """Five annotators who read, of whom w2 takes most `no` for `yes`."""
    rng = np.random.default_rng(0)
    rows = []
    for item, right in enumerate(rng.integers(3, size=300)):
        for who in range(5):
            label = right if rng.random() < 0.95 else rng.integers(3)
            if who == 2 and right == 0 and rng.random() < 0.7:
                label = 1
            rows.append((f"t{item}", f"w{who}", LABELS[label]))
    return Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]), labels=list(LABELS))


def test_disputes_are_counted_as_by_hand() -> None:
    table = confusing()
    data = data_of(table)
    found = Disputes(data)
    [row], more = found.confused
    assert row[:3] == ["w2", "no", "yes"] and more == 0
    mine = table.annotator == table.annotators.index("w2")
    with_no = mine & (data.labels[table.item] == 0)
    times, of = row[3].split(" of ")
    assert abs(int(of) - with_no.sum()) <= 5 and abs(int(times) - (with_no & (table.label == 1)).sum()) <= 5
    labels = table.label.reshape(300, 5)  # every item has one label of each, in order of annotators
    who = table.annotator.reshape(300, 5)
    assert (who == who[0]).all()
    pairs = list(combinations(range(5), 2))
    same = {frozenset((table.annotators[who[0, a]], table.annotators[who[0, b]])): (labels[:, a] == labels[:, b]).mean()
            for a, b in pairs}  # fmt: skip
    assert found.pairs == 10 and found.share_same == pytest.approx(np.mean(list(same.values())))
    least, most = found.peers
    for shown in (least, most):
        for pair in shown:
            assert pair["same"] == f"{same[frozenset((pair['first'], pair['second']))]:.0%}" and pair["shared"] == "300"
    shares = [same[frozenset((pair["first"], pair["second"]))] for pair in least]
    assert shares == sorted(shares) and all("w2" in (pair["first"], pair["second"]) for pair in least[:4])
    picture = str(found.matrix())
    assert all(f"{round(100 * share)}%" in picture for share in same.values())
