"""The page of results says what the recorded trainings say, and each promise is broken alone."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from realm.comparison.cells import Cell
from realm.errors import RealmError
from realm_lab import Recorded, load_spec, page
from realm_lab.evidence import (
    INCONCLUSIVE,
    NOT_SUPPORTED,
    PAPER_RANKS,
    SUPPORTED,
    Evidence,
    Lead,
    judged,
    promises,
)
from realm_lab.plots import ForestRow
from realm_lab.recorded import CELLS, SETTINGS
from realm_lab.results import configurations
from realm_lab.specs import key_of, spec_rows


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence(Recorded(page.RECORDED))


def test_every_figure_on_the_page_is_drawn_from_the_record(evidence: Evidence) -> None:
    for path, content in page.pages(evidence).items():
        text = path.read_text(encoding="utf-8")
        assert text == page.with_blocks(text, content), "run `make redraw`"
    for name, rows in page.pictures(evidence).items():
        picture = (page.RECORDED / name).read_text(encoding="utf-8")
        (told,) = re.findall("<dc:description>(.*?)</dc:description>", picture, re.DOTALL)
        assert told == "; ".join(map(str, rows)), "run `make redraw`"
    assert evidence.store.stale == {}


def test_the_record_is_small_enough_for_a_repository() -> None:
    assert sum(path.stat().st_size for path in page.RECORDED.iterdir()) < 5_000_000


def test_an_accuracy_of_the_page_is_the_mean_of_its_answers(evidence: Evidence) -> None:
    """By hand from the bits of the record: the first row of the first table."""
    _, part = next(iter(configurations(evidence.of("real-real"))))
    ids = part[part["method"] == "realm"]["id"].tolist()
    right = evidence.store.correct(ids)
    assert right is not None and len(ids) == 5
    np.testing.assert_allclose(100 * right.mean(), evidence.mean(part, "realm"), rtol=1e-9)
    assert f"| {100 * right.mean():.1f} |" in page.pages(evidence)[page.PAGE]["answer"].splitlines()[2]


def lead(*gaps: float) -> Lead:
    found = Lead.of([pd.Series(gaps)])
    assert found is not None
    return found


def test_a_lead_is_a_paired_t_test_over_seeds() -> None:
    gaps = [1.0, 2.5, 0.5, 1.5, 3.0]
    test = ttest_1samp(gaps, 0)
    interval = test.confidence_interval()
    found = lead(*gaps)
    np.testing.assert_allclose([found.mean, found.p], [1.7, test.pvalue], rtol=1e-9)
    np.testing.assert_allclose([found.low, found.high], [interval.low, interval.high], rtol=1e-9)
    assert lead(0, 0, 0).p == 1 and lead(1, 1, 1).p == 0.25 and Lead.of([]) is None
    halves = Lead.of([pd.Series([1.0, 3.0, 5.0]), pd.Series([3.0, 5.0])])
    assert halves is not None and (halves.mean, halves.seeds, halves.configurations) == (3.0, 2, 2)


def test_verdicts() -> None:
    ahead, behind, unsure = lead(1.0, 1.1, 0.9), lead(-1.0, -1.1, -0.9), lead(1, -2, 3)
    assert [judged(each) for each in (ahead, behind, unsure)] == [SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE]
    assert [judged(each, control=True) for each in (ahead, behind, unsure)] == [SUPPORTED, NOT_SUPPORTED, SUPPORTED]


def test_a_block_that_the_page_lacks_is_an_error() -> None:
    text = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n"
    assert page.with_blocks(text, {"x": "new \\1"}) == "a\n<!-- begin: x -->\n\nnew \\1\n\n<!-- end: x -->\nb\n"
    with pytest.raises(RealmError, match="begin: y"):
        page.with_blocks(text, {"y": "new"})


# -------------------------------------------------------------------- promises

SPECS = ["real-real", "annotators-real"]
TEST_ITEMS = 1000
METHODS = ("realm", "noisy", "majority", "raykar", "oracle")
SEEDS = 3
Change = Callable[[Cell, dict[str, Any]], None]


@lru_cache
def cells_of_specs() -> list[tuple[str, Cell]]:
    """Some of the cells of `SPECS` with their methods: whole pools and graded ones, a few seeds."""
    rows = [row for name in SPECS for row in spec_rows(load_spec(name))]
    pools = ("all", "graded:5", "graded:10")
    cells = {
        row["cell"].id: (row["method"], row["cell"]) for row in rows if row["seed"] < SEEDS and row["pool"] in pools
    }
    return list(cells.values())


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines of a record; figures that a cell does not have are left out."""
    rows = frame.to_dict("records")
    return [{str(name): value for name, value in row.items() if value == value} for row in rows]


def made_up(change: Change = lambda cell, row: None, methods: tuple[str, ...] = METHODS) -> pd.DataFrame:
    """A record of a few methods: the default four points ahead of the others, expertise ranked as it is.

    `change` writes other figures of a cell into its row; `accuracy` is then made true of its answers.
    """
    ease = np.random.default_rng(0).random(TEST_ITEMS)
    rows = []
    for method, cell in cells_of_specs():
        if method not in methods:
            continue
        rng = np.random.default_rng([cell.seed, METHODS.index(cell.method)])
        ahead = cell.method in ("realm", "oracle")
        row = {"accuracy": 0.84 if ahead else 0.8, "macro_f1": 0.8 + 0.002 * rng.normal()}
        row |= {"log_loss": 0.5 + 0.002 * rng.normal(), "pool_spearman": 1.0, "pool_spearman_trained": 1.0}
        change(cell, row)
        correct = ease + 0.02 * rng.normal(size=TEST_ITEMS) < row["accuracy"]
        packed = base64.b85encode(np.packbits(correct).tobytes()).decode("ascii")
        row |= {"key": key_of(cell), "effective": "all", "settings": "{}", "seconds": 1.0}
        rows.append({**row, "accuracy": correct.mean(), "correct": packed, "n_test": TEST_ITEMS})
    return pd.DataFrame(rows)


def write_record(folder: Path, record: pd.DataFrame) -> Path:
    (folder / CELLS).write_text("".join(json.dumps(row) + "\n" for row in records(record)))
    (folder / SETTINGS).write_text(json.dumps({"all": {"max_length": 96}}))
    return folder


def evidence_of(record: pd.DataFrame) -> Evidence:
    with tempfile.TemporaryDirectory() as folder:
        return Evidence(Recorded(write_record(Path(folder), record)), SPECS)


def holds(record: pd.DataFrame) -> list[bool | None]:
    return [promise.holds for promise in promises(evidence_of(record))]


def first_of(benchmark: str, method: str, **figures: float | None) -> Change:
    """Other figures of a method in one configuration of real annotators."""

    def change(cell: Cell, row: dict[str, Any]) -> None:
        data = cell.data.describe()
        if (data["benchmark"], data["pool"], data["regime"]) == (benchmark, "all", "shared") and cell.method == method:
            row |= figures

    return change


def test_every_promise_holds_of_a_record_in_which_the_default_is_ahead() -> None:
    assert holds(made_up()) == [True] * 5


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, first_of("civilcomments", "noisy", accuracy=0.9)),
        (1, first_of("civilcomments", "raykar", accuracy=0.9)),
        (2, first_of("civilcomments", "realm", macro_f1=0.7)),
        (2, first_of("civilcomments", "realm", log_loss=0.6)),
        (3, lambda cell, row: row.update(accuracy=0.8) if cell.data.describe()["noise"] is None else None),
        (4, lambda cell, row: row.update(pool_spearman_trained=PAPER_RANKS - 0.06)),
        (4, lambda cell, row: row.update(pool_spearman_trained=None) if cell.seed else None),
    ],
    ids=["noisy", "another method", "macro-F1", "log loss", "mean lead", "ranks", "not ranked"],
)
def test_each_promise_is_broken_alone(number: int, change: Change) -> None:
    assert holds(made_up(change)) == [place != number for place in range(5)]


@pytest.mark.parametrize(
    "change",
    [
        first_of("civilcomments", "oracle", accuracy=0.99),
        first_of("civilcomments", "noisy", accuracy=0.841),
        first_of("civilcomments", "realm", macro_f1=0.9, log_loss=0.3),
        first_of("civilcomments", "raykar", macro_f1=0.9, log_loss=0.3),
        lambda cell, row: row.update(pool_spearman_trained=PAPER_RANKS - 0.04),
    ],
    ids=["gold", "within noise", "better", "quality of another method", "ranks within bounds"],
)
def test_what_breaks_no_promise(change: Change) -> None:
    assert holds(made_up(change)) == [True] * 5


def test_what_is_not_measured_is_neither_held_nor_broken() -> None:
    assert holds(made_up(methods=("realm",))) == [None, None, None, None, True]
    record = made_up(first_of("civilcomments", "noisy", accuracy=0.9))
    one_seed = record[record["key"].isin({key_of(cell) for _, cell in cells_of_specs() if cell.seed == 0})]
    assert holds(one_seed) == [None, None, None, None, True]
    evidence = evidence_of(one_seed)
    assert "not testable yet" in str(promises(evidence)[0]) and len(evidence.graded_ranks()) == 4


@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_says_whether_every_promise_holds(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = made_up(first_of("civilcomments", "noisy", accuracy=0.9) if code else lambda cell, row: None)
    write_record(tmp_path, record)
    written = tmp_path / "page.md"
    written.write_text("<!-- begin: one -->\n\n<!-- end: one -->\n")
    monkeypatch.setattr(page, "RECORDED", tmp_path)
    monkeypatch.setattr(page, "pages", lambda evidence: {written: {"one": "redrawn"}})
    monkeypatch.setattr(page, "pictures", lambda evidence: {"one.svg": [ForestRow("one", ((1.0, 0.5, 2.0), None))]})
    assert page.redraw() == code
    printed = capsys.readouterr().out
    assert printed.count("**holds**") == 5 - code and printed.count("**FAILS**") == code
    assert ("civilcomments own all shared 780" in printed and " to noisy" in printed) == bool(code)
    assert "redrawn" in written.read_text() and "<svg" in (tmp_path / "one.svg").read_text()


def test_cells_of_other_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_record(tmp_path, made_up())
    (tmp_path / SETTINGS).write_text(json.dumps({"all": {"max_length": 5}}))
    monkeypatch.setattr(page, "RECORDED", tmp_path)
    with pytest.raises(RealmError, match=r"cells were made by other settings, .*max_length changed"):
        page.redraw()
