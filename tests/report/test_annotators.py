"""The table of annotators and what its rows open to, against the run's own table and counts by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.report import annotators
from realm.report.annotators import AnnotatorTable
from realm.report.run_data import RunData, read_run
from realm.report.run_page import render
from tests.crowd.test_drift import crowd as drifting
from tests.report.folders import crowd, data_of, guessers
from tests.report.reader import Page

LABELS = ("no", "yes", "maybe")


def test_the_table_holds_what_expertise_csv_holds(plain_run: Path) -> None:
    page = Page(render(read_run(plain_run)))
    people = pd.read_csv(plain_run / "expertise.csv").sort_values("accuracy", ascending=False)
    rows = pd.DataFrame(page.annotators)
    assert rows["annotator"].tolist() == people["annotator"].tolist()
    assert rows["verdict"].tolist() == people["verdict"].tolist()
    assert rows["n"].astype(int).tolist() == people["annotations"].tolist()
    for name in ("accuracy", "low", "high", "expertise", "agreement"):
        np.testing.assert_allclose(rows[name].astype(float), people[name], atol=6e-5, err_msg=name)
    for name, accuracy, low, high in zip(*(people[c] for c in ("annotator", "accuracy", "low", "high")), strict=True):
        assert f"{name} {accuracy:.0%}, 95% interval {100 * low:.0f}–{high:.0%}" in page.text


def test_a_row_opens_to_confusion_peers_and_examples() -> None:
    table, log_probs = guessers()
    data = data_of(table, log_probs)
    made = AnnotatorTable(data)
    assert made.n_detailed == 6 and made.shown_items
    for row in made.rows:
        pair, details = int(row["id"].split("-")[1]), row["details"]
        rows = table.annotator == pair
        counts = np.zeros((3, 3), int)
        np.add.at(counts, (data.labels[table.item[rows]], table.label[rows]), 1)
        assert details["confusion"] == list(zip(LABELS, counts.tolist(), strict=True))
        own = dict(zip(table.item[rows].tolist(), table.label[rows].tolist(), strict=True))
        assert len(details["peers"]) == 5 and row["name"] not in [name for name, _, _ in details["peers"]]
        for name, share, shared in details["peers"]:
            theirs = table.annotator == table.annotators.index(name)
            met = [(own[i], k) for i, k in zip(table.item[theirs], table.label[theirs], strict=True) if i in own]
            assert (share, shared) == (pytest.approx(np.mean([a == b for a, b in met])), len(met))
        for text, given, cleaned, confidence in details["examples"]:
            item = int(text.split()[-1])
            assert given == LABELS[own[item]] and cleaned == LABELS[data.labels[item]] != given
            assert confidence == data.confidence[item] >= 0.8


def test_without_room_those_with_the_most_labels_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those at the head of the ranking, who are looked for; details are first of those at chance level."""
    table, log_probs = crowd(n_items=600, accuracies=(0.9,) * 50 + (1 / 3,) * 10, per_item=6)
    few = (table.annotator % 2 == 0) & (np.arange(len(table.annotator)) % 4 > 0)
    data = data_of(table.keep_annotations(~few), log_probs)
    monkeypatch.setattr(annotators, "ROWS", 40)
    monkeypatch.setattr(annotators, "DETAILED", 12)
    rows = AnnotatorTable(data).rows
    counts = np.sort(data.estimate.annotations[data.estimate.annotations > 0])[::-1]
    assert sorted((row["n"] for row in rows), reverse=True) == counts[:40].tolist()
    accuracies = [row["accuracy"] for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    detailed = {row["id"] for row in rows if row["details"]}
    bad = {f"annotator-{pair}" for pair in data.bad_pairs} & {row["id"] for row in rows}
    assert len(detailed) == 12 and 0 < len(bad) < 12 and bad <= detailed
    page = Page(render(data)).text
    assert f"{len(counts) - 40} more, those with the fewest labels, are not in this file" in page
    assert "28 annotators with the fewest labels have no details" in page


def test_changes_over_time_are_drawn_and_listed() -> None:
    table = drifting(12, 120, slack=1, seed=4)
    page = Page(render(data_of(table, np.full((table.n_items, 2), np.log(0.5)))))
    notes = {row["annotator"]: row["notes"] for row in page.annotators}
    assert notes.pop("a0").startswith("accuracy fell from") and not any("accuracy" in note for note in notes.values())
    assert "The accuracy of 1 annotator has fallen" in page.text
    assert "The accuracy of 1 of 12 annotators with enough labels" in page.text
    assert len(annotators.changes_over_time(data_of(table))) == 1
    assert "Annotators over time" not in render(data_of(replace(table, created_at=None)))


def test_the_heat_map_shows_the_accuracy_of_every_pair(hostile_run: Path, plain_run: Path) -> None:
    data = read_run(hostile_run)
    figure = annotators.heat_map(data)
    assert figure is not None and annotators.heat_map(read_run(plain_run)) is None
    shown = [part.split("<")[0] for part in str(figure.picture).split('class="heat')[1:]]
    figures = [text.split(">")[1] for text in shown]
    order = np.argsort(-np.nansum(data.estimate.expertise * data.estimate.annotations, axis=1)
                       / data.estimate.annotations.sum(axis=1), kind="stable")  # fmt: skip
    assert figures == [f"{share:.0%}" for share in data.estimate.accuracy[order].reshape(-1)]


def judges() -> RunData:
    """Two judges who nearly always say `toxic`, and four who read, each with two copies."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)
    read = rng.random((600, 6)) < np.array([0.2, 0.2, 0.6, 0.7, 0.75, 0.65])
    guess = np.where(np.arange(6) < 2, rng.random((600, 6)) < 0.95, rng.random((600, 6)) < 0.5).astype(int)
    label = np.where(read, truth[:, None], guess)[:, [0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]]
    rows = [(str(i), f"judge {a}", ["fine", "toxic"][label[i, a]]) for i in range(600) for a in range(14)]
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    return data_of(table, np.log(np.full((600, 2), 0.5)))


def test_habits_dependence_and_copies_are_told_in_words(plain_run: Path) -> None:
    page = Page(render(judges()))
    assert "Annotators make the same mistakes: 14 annotators per item are worth about " in page.text
    assert "The labels of 12 annotators show a pattern" in page.text and "and 8 more" in page.text
    notes = {row["annotator"]: row["notes"] for row in page.annotators}
    for name in ("judge 0", "judge 1"):
        assert notes[name].startswith("answers “toxic” 9")
        assert notes[name].endswith("% of the time when not answering from the item")
    assert notes["judge 2"].startswith("gives the same labels as “judge 3” on 100% of 600 shared items")
    plain = Page(render(read_run(plain_run)))
    assert not any(row["notes"] for row in plain.annotators) and "show a pattern" not in plain.text
