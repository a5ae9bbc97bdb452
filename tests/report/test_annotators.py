"""The table of annotators and what its rows open to, against the run's own table and counts by hand."""

from __future__ import annotations

import json
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
    data = page.data
    people = pd.read_csv(plain_run / "expertise.csv").sort_values("accuracy", ascending=False)
    assert [data["names"][who] for who in data["who"]] == people["annotator"].tolist()
    assert [data["verdicts"][kind] for kind in data["verdict"]] == people["verdict"].tolist()
    for column, name in (("accuracy", "accuracy"), ("low", "low"), ("high", "high"), ("expertise", "expertise"),
                         ("agreement", "agreement"), ("trained", "expertise_trained")):  # fmt: skip
        np.testing.assert_allclose(np.array(data[column]) / 10_000, people[name], atol=6e-5, err_msg=column)
    assert data["n"] == people["annotations"].tolist()
    # The head of the table stands in the page too, for who has no JavaScript.
    for name, accuracy, low, high in zip(*(people[c] for c in ("annotator", "accuracy", "low", "high")), strict=True):
        assert f"<bdi>{name}</bdi>" in page.source
        assert f"{name} {accuracy:.0%}, 95% interval {low:.0%} to {high:.0%}" in page.text


def test_a_row_opens_to_confusion_peers_examples_and_habit() -> None:
    table, log_probs = guessers()
    data = data_of(table, log_probs)
    made = AnnotatorTable(data)
    assert set(made.details) == set(data.ranked.tolist()) and made.shown_items
    for pair, entry in made.details.items():
        rows = table.annotator == pair
        counts = np.zeros((3, 3), int)
        np.add.at(counts, (data.labels[table.item[rows]], table.label[rows]), 1)
        assert entry["c"] == {"l": list(LABELS), "n": counts.tolist()}
        own = dict(zip(table.item[rows].tolist(), table.label[rows].tolist(), strict=True))
        assert len(entry["p"]) == 5 and pair not in [peer for peer, _, _ in entry["p"]]
        for peer, same, shared in entry["p"]:
            theirs = table.annotator == peer
            met = [(own[i], k) for i, k in zip(table.item[theirs], table.label[theirs], strict=True) if i in own]
            assert (same, shared) == (sum(a == b for a, b in met), len(met))
        for text, given, cleaned, confidence in entry["e"]:
            item = int(text.split()[-1])
            assert given == LABELS[own[item]] and cleaned == LABELS[data.labels[item]] != given
            assert confidence == round(100 * data.confidence[item]) >= 80
        shown = {label: share for label, share in entry.get("h", [])}
        assert bool(shown) == (data.estimate.expertise[pair, 0] < 0.9)
        for label, share in shown.items():
            assert share == round(100 * data.estimate.habits[pair, 0, LABELS.index(label)])


def test_without_room_those_with_the_most_labels_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those at the head of the ranking, who are looked for; details are first of those at chance level."""
    table, log_probs = crowd(n_items=600, accuracies=(0.9,) * 50 + (1 / 3,) * 10, per_item=6)
    few = (table.annotator % 2 == 0) & (np.arange(len(table.annotator)) % 4 > 0)
    data = data_of(table.keep_annotations(~few), log_probs)
    monkeypatch.setattr(annotators, "ROWS", 40)
    monkeypatch.setattr(annotators, "DETAILED", 12)
    made = AnnotatorTable(data)
    kept = json.loads(made.json())
    counts = np.sort(data.estimate.annotations[data.estimate.annotations > 0])[::-1]
    assert sorted(kept["n"], reverse=True) == counts[:40].tolist()
    assert kept["accuracy"] == sorted(kept["accuracy"], reverse=True)
    assert len(kept["details"]) == 40 and kept["details"].count(None) == 28
    bad = [pair for pair in data.bad_pairs if pair in made.pairs]
    assert 0 < len(bad) < 12 and set(bad) <= set(made.details)
    page = Page(render(data)).text
    assert f"{len(counts) - 40} more, those with the fewest labels, are not in this file" in page
    assert "28 annotators with the fewest labels have no details" in page


def test_pseudonyms_hold_in_the_details() -> None:
    table, log_probs = crowd(n_items=200, names=["zoe", "yan", "xia", "wim", "kofi"])
    page = render(data_of(table, log_probs), pseudonymise=True)
    assert not [name for name in ("zoe", "yan", "xia", "wim", "kofi") if name in page]
    data = Page(page).data
    assert all(data["names"][peer[0]].startswith("Annotator ") for entry in data["details"] for peer in entry["p"])


def test_over_time_is_in_the_details_and_the_trend_in_the_table() -> None:
    table = drifting(12, 120, slack=1, seed=4)
    page = Page(render(data_of(table, np.full((table.n_items, 2), np.log(0.5)))))
    data = page.data
    trend = {data["names"][who]: word for who, word in zip(data["who"], data["trend"], strict=True)}
    assert trend.pop("a0") == "fell" and set(trend.values()) == {"steady"}
    for row, entry in enumerate(data["details"]):
        assert sum(entry["t"]["n"]) == data["n"][row]
        assert all(low <= share <= high for _, share, low, high in entry["t"]["a"])
    assert "The accuracy of 1 annotator has fallen" in page.text and "accuracy fell from" in page.text
    assert "The accuracy of 1 of 12 annotators with enough labels" in page.text
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
    assert "of the time when not answering from the item" in page.text and "answers “toxic” 9" in page.text
    assert "Annotators make the same mistakes: 14 annotators per item are worth about " in page.text
    assert sum(words != "" for words in page.data["habit"]) == 2
    assert "The labels of 12 annotators show a pattern" in page.text and "and 8 more" in page.text
    notes = {page.data["names"][who]: words for who, words in zip(page.data["who"], page.data["notes"], strict=True)}
    assert (notes["judge 0"], notes["judge 1"]) == ("", "")
    assert notes["judge 2"].startswith("gives the same labels as “judge 3” on 100% of 600 shared items")
    plain = Page(render(read_run(plain_run)))
    assert "notes" not in plain.data and "show a pattern" not in plain.text
