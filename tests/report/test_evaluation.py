"""The test section of the report: figures of every label, the confusion matrix, how sure answers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm.metrics import evaluate
from realm.report.evaluation import LISTED, MATRIX, by_label, evaluation
from realm.report.run_page import render, write_report
from realm.scorers.scoring import Scores
from tests.report.folders import crowd, data_of, write_run
from tests.report.reader import Page, check_closed_in
from tests.tiny import crowd as tiny_crowd


def figures() -> dict[str, Any]:
    table = tiny_crowd(50)
    logits = np.random.default_rng(3).normal(size=(50, 4)) + 2.0 * np.eye(4)[table.gold]
    return evaluate(table, Scores(logits - np.log(np.exp(logits).sum(1, keepdims=True))))


def page(folder: Path, test: dict[str, Any] | None) -> Page:
    table, log_probs = crowd(n_items=60)
    return Page(write_report(write_run(folder, table, log_probs, metrics={"test": test})).read_text())


def test_the_section_shows_accuracy_beside_the_figures_it_hides(tmp_path: Path) -> None:
    test = figures()
    shown = page(tmp_path / "run", test)
    check_closed_in(shown)
    for name, form in (("accuracy", ".1%"), ("base_rate", ".1%"), ("macro_f1", ".3f"), ("log_loss", ".3f")):
        assert format(test[name], form) in shown.text
    for row in test["labels"]:
        cells = f"{row['support']} {row['precision']:.3f} {row['recall']:.3f} {row['f1']:.3f}"
        assert f"{row['label']} {cells}" in shown.text
    assert "Confusion matrix" in shown.text and 'href="#test"' in shown.source
    assert "right by gold" in shown.text and "15 equally wide bins" in shown.text
    # A cell for every pair of labels, and a bubble for every bin.
    matrix = shown.source.split('id="test"')[1].split("</section>")[0]
    assert matrix.count('class="cell ') == 16 and matrix.count('class="bubble"') == len(test["reliability"])
    assert f"macro F1 {test['macro_f1']:.3f}" in shown.text, "the card of the accuracy says it too"


def test_figures_that_were_not_measured_are_absent_not_a_crash(tmp_path: Path) -> None:
    shown = page(tmp_path / "run", {"items": 40, "accuracy": 0.875, "log_loss": 0.31})
    assert "87.5%" in shown.text and "Confusion matrix" not in shown.text and "By label" not in shown.text


def test_a_model_at_the_base_rate_is_called_so_and_accuracy_has_an_interval() -> None:
    test = figures()
    shown = Page(render(data_of(*crowd(), metrics={"test": test}))).text
    assert "no more than" not in shown and f"right on {test['accuracy']:.1%} of the items (95% interval" in shown
    found = evaluation({**test, "accuracy": 0.8, "items": 200})
    assert found is not None and found["interval"] == pytest.approx((0.7391, 0.8496), abs=1e-4), "Wilson, 160 of 200"
    worse = Page(render(data_of(*crowd(), metrics={"test": {**test, "accuracy": 0.3}}))).text
    assert "no more than always giving the most frequent label" in worse


def test_very_many_labels_are_listed_in_part_and_not_drawn() -> None:
    rows = [
        {"label": f"l{index}", "precision": None, "recall": 0.5, "f1": 0.5, "support": index, "answered": 0}
        for index in range(LISTED + 5)
    ]
    matrix = np.eye(MATRIX + 1).tolist()
    shown = by_label({"labels": rows, "confusion": None, "by_position": False})
    assert len(shown["rows"]) == LISTED and shown["left_out"] == 5
    assert shown["confusion"] is None and shown["rows"][0][:3] == ["l5", "5", "–"]
    assert by_label({"labels": rows[: MATRIX + 1], "confusion": matrix})["confusion"] is None
    assert by_label({"labels": rows[:MATRIX], "confusion": np.eye(MATRIX).tolist()})["confusion"] is not None


def test_positions_are_called_positions(tmp_path: Path) -> None:
    shown = page(tmp_path / "run", {**figures(), "by_position": True, "macro_f1": None, "rarest_recall": None})
    assert "these are the options' positions" in shown.text and "By position" in shown.text
