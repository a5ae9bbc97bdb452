"""The page of results says what the recorded trainings say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from benchmarks import reproduce
from benchmarks._evidence import BORNE_OUT, NOT_BORNE_OUT, NOT_HERE, UNDECIDED, Evidence, Lead, judged
from benchmarks._forest import ForestRow, forest
from scipy.stats import ttest_1samp

from realm.lab.recorded import RecordedResults


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence(RecordedResults.open(reproduce.RECORDED))


def test_every_figure_on_the_page_is_drawn_from_the_record(evidence: Evidence) -> None:
    page = reproduce.PAGE.read_text(encoding="utf-8")
    assert page == reproduce.with_blocks(page, reproduce.blocks(evidence)), "run `make redraw`"
    for name, picture in reproduce.pictures(evidence).items():
        assert (reproduce.RECORDED / name).read_text(encoding="utf-8") == picture, "run `make redraw`"


def test_the_record_is_small_enough_for_a_repository() -> None:
    assert sum(path.stat().st_size for path in reproduce.RECORDED.iterdir()) < 5_000_000


def test_an_accuracy_of_the_page_is_the_mean_of_its_answers(evidence: Evidence) -> None:
    """By hand from the bits of the record: the first row of the first table."""
    _, part = next(evidence.configurations(evidence.of("real-real")))
    cells = pd.read_csv(reproduce.RECORDED / "cells.csv", dtype=str)
    ids = part[part["method"] == "realm"]["id"].tolist()
    right = evidence.store.correct(ids)
    assert right is not None and len(ids) == 5
    np.testing.assert_allclose(100 * right.mean(), evidence.accuracies(part, "realm").mean(), rtol=1e-9)
    assert f"| {100 * right.mean():.1f} |" in reproduce.answer(evidence).splitlines()[2]
    assert set(cells["n_test"]) and cells["id"].is_unique


def test_a_lead_is_a_paired_t_test_over_seeds() -> None:
    differences = np.array([1.0, 2.5, 0.5, 1.5, 3.0])
    lead = Lead.of(differences, 4)
    test = ttest_1samp(differences, 0)
    interval = test.confidence_interval()
    np.testing.assert_allclose([lead.mean, lead.p], [1.7, test.pvalue], rtol=1e-9)
    np.testing.assert_allclose([lead.low, lead.high], [interval.low, interval.high], rtol=1e-9)
    assert Lead.of(np.zeros(3), 1).p == 1 and Lead.of(np.ones(3), 1).p == 0


def test_verdicts() -> None:
    ahead, behind, open_ = (
        Lead.of(np.array(values), 1) for values in ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [1, -2, 3])
    )
    assert [judged(lead) for lead in (ahead, behind, open_, None)] == [BORNE_OUT, NOT_BORNE_OUT, UNDECIDED, NOT_HERE]


def test_a_block_that_the_page_lacks_is_an_error() -> None:
    page = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n"
    assert reproduce.with_blocks(page, {"x": "new \\1"}) == "a\n<!-- begin: x -->\n\nnew \\1\n\n<!-- end: x -->\nb\n"
    with pytest.raises(SystemExit, match="begin: y"):
        reproduce.with_blocks(page, {"y": "new"})


def test_the_forest_has_a_mark_and_an_interval_for_each_lead() -> None:
    rows = [
        ForestRow("Group <b>"),
        ForestRow("one", ((1.0, 0.5, 1.5), None)),
        ForestRow("two", ((2.0, -9.0, 3.0),) * 2),
    ]
    picture = forest("Title", rows)
    assert picture.count("<circle") == 1 + 2 and picture.count("hollow c1") >= 2 and "Group &lt;b&gt;" in picture
    assert ">-9<" in picture and ">+3<" in picture  # a line for each point, as the range is small
