from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from realm.errors import RealmError
from realm.report.run_data import read_run
from realm.report.runs_page import render, write_side_by_side
from tests.report.folders import crowd, write_run
from tests.report.reader import Page, check_closed_in


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same crowd judged with two models, of which the second has another opinion of the first ten items."""
    folder = tmp_path_factory.mktemp("runs")
    table, log_probs = crowd(n_items=120)
    other = log_probs.copy()
    other[:10] = np.roll(other[:10], 1, axis=1) * 4
    other -= np.log(np.exp(other).sum(axis=1, keepdims=True))
    test = {"test": {"items": 30, "accuracy": 0.9}}
    return [
        write_run(folder / "first", table, log_probs),
        write_run(folder / "second", table, other, settings={"seed": 8}, metrics=test),
    ]


def test_figures_settings_and_labels_that_differ_are_shown(runs: list[Path]) -> None:
    page = Page(render([read_run(run) for run in runs]))
    check_closed_in(page)
    assert "Test accuracy – 90.0%" in page.text and "seed 7 8" in page.text
    assert "learning_rate" not in page.text.split("Settings that differ")[1]
    first, second = (read_run(run) for run in runs)
    differ = np.flatnonzero(first.labels != second.labels)
    assert len(differ) and f"{len(differ)} items differ" in page.text
    for item in differ:
        assert f"review number {item}" in page.text
    assert "5 annotators in common" in page.text and "One run each" in page.text


def test_items_and_annotators_are_matched_by_name(runs: list[Path]) -> None:
    first = read_run(runs[0])
    backwards = np.arange(120)[::-1]
    table = first.annotations.take_items(backwards)
    turned = replace(
        first, name="turned", annotations=table, log_probs=first.log_probs[backwards],
        estimate=replace(first.estimate, posterior=first.estimate.posterior[backwards]),
    )  # fmt: skip
    page = Page(render([first, turned]))
    assert "the same label to 100% of the 120 items" in page.text
    assert "accuracies differ by 0% on average, 0 verdicts differ" in page.text


def test_a_name_has_one_pseudonym_in_all_runs(runs: list[Path]) -> None:
    page = Page(render([read_run(run) for run in runs], pseudonymise=True))
    assert "worker" not in page.source
    for place in range(1, 6):
        assert f"Annotator {place}" in page.source


def test_runs_with_nothing_in_common_make_a_page(runs: list[Path], tmp_path: Path) -> None:
    table, log_probs = crowd(n_items=10, names=["a", "b", "c", "d", "e"])
    table = replace(table, items=replace(table.items, ids=table.items.texts))
    other = write_run(tmp_path / "other", table, log_probs)
    page = Page(write_side_by_side([runs[0], other], output=tmp_path / "x.html").read_text())
    assert "have no items in common" in page.text and "0 annotators in common" in page.text


def test_runs_of_the_same_name_are_told_apart(runs: list[Path]) -> None:
    first = read_run(runs[0])
    assert "first (1) · first (2)" in Page(render([first, first])).text


def test_too_many_are_refused(runs: list[Path]) -> None:
    with pytest.raises(RealmError, match="2 to 6 runs"):
        write_side_by_side(runs[:1] * 7)
