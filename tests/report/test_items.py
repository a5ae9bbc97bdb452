"""The lists of items and disputes: what more labels buy, where model and votes differ, who agrees with whom."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
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
    listed = plan.items
    assert sum(count for _, count, _ in plan.workload) == len(listed) <= plan.rows[-1][0], "what is listed is priced"
    for name, count, accuracy in plan.workload:
        assert count == sum(item["ask"] == name for item in listed)
        assert accuracy == data.estimate.accuracy[table.annotators.index(name), 0]
    timed = replace(
        table, lead_time=np.full(table.n_annotations, 36.0), created_at=np.arange(table.n_annotations) * 60.0
    )
    assert Settling(data_of(timed, log_probs)).rows[0][3] == "15 min", "25 labels of 36 seconds"


def test_disagreements_show_texts_votes_and_whom_the_label_follows(plain_run: Path) -> None:
    data = read_run(plain_run)
    favourite, rows = data.model_probs.argmax(axis=1), np.arange(150)
    apart = np.flatnonzero(data.votes.max(axis=1) > data.votes[rows, favourite])
    found, total = disagreements(data)
    assert total == len(found) == len(apart)
    assert {item["text"] for item in found} == {f"review number {item}" for item in apart}
    for item in found:
        row = int(item["text"].split()[-1])
        assert item["model"] == LABELS[favourite[row]] and item["label"] == LABELS[data.labels[row]]
        assert (
            item["model_share"] == data.model_probs[row].max()
            and item["confidence"] == data.estimate.posterior[row].max()
        )
        assert (item["sides"] == "as the model") == (favourite[row] == data.labels[row])
        counts = [f"{LABELS[k]} {n}" for k, n in enumerate(data.votes[row]) if n]
        assert sorted(item["votes"].split(", ")) == sorted(counts)
    page = Page(render(data))
    listed = page.source.split('id="apart-list"')[1].split("</ul>")[0]
    assert f"On {len(apart)} items" in page.text and listed.count("<li ") == len(apart)


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
    page = Page(render(data)).text
    mine = table.annotator == table.annotators.index("w2")
    with_no = mine & (data.labels[table.item] == 0)
    [(times, of)] = re.findall(r"w2 no yes (\d+) of (\d+)", page)
    assert abs(int(of) - with_no.sum()) <= 5 and abs(int(times) - (with_no & (table.label == 1)).sum()) <= 5
    labels = table.label.reshape(300, 5)  # every item has one label of each, in order of annotators
    who = table.annotator.reshape(300, 5)
    assert (who == who[0]).all()
    same = {}
    for a, b in combinations(range(5), 2):
        names = frozenset((table.annotators[who[0, a]], table.annotators[who[0, b]]))
        same[names] = (labels[:, a] == labels[:, b]).mean()
    pairs = re.findall(r"(w\d) and (w\d) (\d+)% \d+–\d+% 300", page.split("Who agrees least")[1])
    assert len(pairs) == 10
    for one, other, share in pairs:
        assert int(share) == round(100 * same[frozenset((one, other))])
    assert all("w2" in pair[:2] for pair in pairs[:4])
    assert f"gave the same label {np.mean(list(same.values())):.0%} of the time (10 pairs of annotators" in page
