"""The folder of finished cells: each whole and once, whatever happens; what is damaged is refused by name."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.comparison.cells import Cell
from realm.comparison.results import SUMMARY, Results, read_summary
from realm.comparison.training import CellResult
from realm.errors import RealmError
from tests.comparison.test_cells import cell
from tests.forked import start


def result(of: Cell, accuracy: float = 0.5, size: int = 40, **changed: Any) -> CellResult:
    labels = np.arange(size, dtype=np.int32) % 3
    answers = {"label": labels, "gold": np.zeros_like(labels), "gold_log_prob": np.linspace(-3, 0, size)}
    expertise = {"annotator": ["a1", "a2"], "task": ["t", "t"], "expertise": [0.5, np.nan]}
    values: dict[str, Any] = {
        "cell": of,
        "metrics": {"accuracy": accuracy, "n_test": size, "spearman": None},
        "config": {"versions": {"torch": "2"}, "warnings": []},
        "data": "f0",
        "weights": "w0",
        "seconds": 1.5,
        "finished_at": "2030-01-01T00:00:00.000+00:00",
        "tables": {"answers": pd.DataFrame(answers), "expertise": pd.DataFrame(expertise)},
    }
    return CellResult(**{**values, **changed})


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "deep" / "cells")


def test_what_is_added_is_there_for_a_reader(results: Results) -> None:
    cells = [cell(seed=seed, settings={"train_layers": 2}) for seed in range(3)]
    assert results.missing(cells) == cells and results.frame(cells).empty and results.ids() == []
    assert not results.folder.exists(), "reading makes nothing"
    results.add(result(cells[1], accuracy=0.25))
    assert results.missing(cells) == [cells[0], cells[2]] and results.ids() == [cells[1].id]
    (row,) = results.frame(cells).to_dict("records")
    expected = {"id": cells[1].id, "seed": 1, "accuracy": 0.25, "method": "realm", "train_layers": 2}
    expected |= {"seconds": 1.5, "origin": "here"}
    assert expected.items() <= row.items()
    record = results.record(cells[1].id)
    assert record["content"] == json.loads(cells[1].content) and record["content"]["settings"]["train_layers"] == 2
    assert record["config"]["versions"] == {"torch": "2"} and record["metrics"]["spearman"] is None
    answers = results.table("answers", [cells[1].id])
    assert answers["label"].tolist() == [i % 3 for i in range(40)] and answers["gold_log_prob"].iloc[-1] == 0
    both = results.table("expertise", [cells[0].id, cells[1].id])
    assert both["id"].tolist() == [cells[1].id] * 2 and both["annotator"].tolist() == ["a1", "a2"]
    assert results.table("curve", [cells[1].id]).empty


def test_answers_are_right_or_not_comparable(results: Results) -> None:
    ids = [cell(seed=seed).id for seed in range(3)]
    for seed, size in enumerate((6, 6, 9)):
        results.add(result(cell(seed=seed), size=size))
    right = results.correct(ids[:2])
    assert right is not None and right.tolist() == [[True, False, False] * 2] * 2
    assert results.correct(ids) is None and results.correct([]) is None and results.correct(["f" * 16]) is None


def test_rows_come_in_the_order_asked_for(results: Results) -> None:
    cells = [cell(seed=seed) for seed in (3, 0, 2, 1)]
    for each in reversed(cells):
        results.add(result(each, tables={}))
    assert results.frame(cells)["seed"].tolist() == [3, 0, 2, 1]


def test_a_figure_that_is_no_number_is_not_half_written(results: Results) -> None:
    with pytest.raises(ValueError):
        results.add(result(cell(), accuracy=float("nan")))
    assert results.missing([cell()]) == [cell()]
    results.add(result(cell()))
    assert not results.missing([cell()])


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not readable as JSON"), ("[]", "not the record of cell"), ("{}", "not the record of cell")],
)
def test_a_damaged_cell_is_refused_by_its_file(content: str, message: str, results: Results) -> None:
    results.add(result(cell()))
    path = results.folder / f"{cell().id}.json"
    record = json.loads(path.read_text())
    path.write_text(content)
    with pytest.raises(RealmError, match=message) as error:
        results.frame([cell()])
    assert str(path) in str(error.value)
    del record["metrics"]
    path.write_text(json.dumps(record))
    with pytest.raises(RealmError, match="not the record of cell"):
        results.record(cell().id)
    path.with_suffix(".answers.parquet").write_text("no parquet")
    with pytest.raises(RealmError, match=r"answers\.parquet.*not readable as parquet"):
        results.table("answers", [cell().id])


def add_all(folder: str, seeds: list[int]) -> None:
    for seed in seeds:
        Results(folder).add(result(cell(seed=seed), accuracy=seed / 100_000, size=50_000))


def test_two_processes_may_fill_one_folder(results: Results) -> None:
    seeds = list(range(20))
    both = [start(add_all, str(results.folder), order) for order in (seeds, seeds[::-1])]
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    assert not results.missing([cell(seed=seed) for seed in seeds])


def test_a_process_killed_at_any_moment_leaves_whole_cells(results: Results) -> None:
    cells = [cell(seed=seed) for seed in range(200)]
    for moment in (0.05, 0.2, 0.4):
        process = start(add_all, str(results.folder), list(range(200)))
        before = len(results.ids())
        while len(results.ids()) == before and process.is_alive():
            time.sleep(0.005)
        time.sleep(moment)
        process.kill()
        process.join(120)
        frame = results.frame(cells)
        assert len(frame) == len(results.ids()) > 0
        assert (frame["accuracy"] * 100_000).round().tolist() == frame["seed"].tolist()
        assert all(len(results.table("answers", [id])) == 50_000 for id in frame["id"])


@pytest.mark.parametrize("summary", [[], {}, {"methods": [1], "trainings": []}])
def test_a_summary_that_is_none_is_refused(summary: Any, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"holds no results\.json"):
        read_summary(tmp_path)
    (tmp_path / SUMMARY).write_text(json.dumps(summary))
    with pytest.raises(RealmError, match=r"results\.json: it lacks `"):
        read_summary(tmp_path)
