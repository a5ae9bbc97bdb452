"""Running cells: what is missing, after its trials, wherever it is trained; what fails stops nothing else."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from realm.comparison import grid
from realm.comparison.cells import Cell, CellTables
from realm.comparison.compare import TableData
from realm.comparison.grid import run_cells
from realm.comparison.results import Results
from realm.comparison.training import CellResult
from realm.errors import RealmError
from realm.models.store import model_fingerprint
from tests.comparison.test_cells import FakeData, cell
from tests.comparison.test_results import result
from tests.tiny import crowd


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "cells")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """In place of trainings, what was asked of them: seed 7 fails."""
    asked: list[Cell] = []

    def train_cell(cell: Cell, progress: Any) -> CellResult:
        asked.append(cell)
        progress("training", 1, 2)
        if cell.seed == 7:
            raise RealmError("no such thing")
        made = {"data": cell.data.fingerprint(), "weights": model_fingerprint(cell.model)}
        return result(cell, tables={}, metrics={"accuracy": 0.5}, **made)

    monkeypatch.setattr(grid, "train_cell", train_cell)
    return asked


def test_missing_cells_are_trained_and_recorded_at_once(results: Results, trained: list[Cell]) -> None:
    cells, events, steps = [cell(seed=seed) for seed in (0, 1, 1, 2)], list[Any](), list[Any]()
    results.add(result(cells[1], data="fingerprint of here", weights="m"))

    def on_finished(of: Cell, outcome: Any, done: int, total: int) -> None:
        assert not results.missing([of])
        events.append((done, total))

    assert run_cells(cells, results, on_finished=on_finished, progress=lambda *step: steps.append(step)) == {}
    assert [each.seed for each in trained] == [0, 2] and events == [(1, 2), (2, 2)]
    assert steps[0] == ("training", 1, 2)
    assert run_cells(cells, results) == {} and len(trained) == 2, "nothing is trained again"


def test_at_most_so_many_are_trained(results: Results, trained: list[Cell]) -> None:
    run_cells([cell(seed=seed) for seed in range(3)], results, limit=2)
    assert len(results.ids()) == 2


def test_a_cell_that_fails_stops_no_other(results: Results, trained: list[Cell]) -> None:
    failed = run_cells([cell(seed=7), cell(seed=1)], results)
    assert [(each.seed, str(error)) for each, error in failed.items()] == [(7, "no such thing")]
    assert results.ids() == [cell(seed=1).id]


@pytest.mark.parametrize(("what", "other"), [("data", {"data": "d"}), ("weights", {"weights": "w"})])
def test_cells_of_other_data_or_weights_are_not_mixed(what: str, other: Any, results: Results, trained: list) -> None:
    results.add(result(cell(seed=0), **{"data": "fingerprint of here", "weights": "m", **other}))
    assert run_cells([cell(seed=0)], results) == {}, "nothing is trained, so nothing is mixed"
    with pytest.raises(RealmError, match=f"trained on other {what}"):
        run_cells([cell(seed=0), cell(seed=1)], results)
    elsewhere = cell(seed=1, data=FakeData("there"), model="n")
    assert run_cells([cell(seed=0), elsewhere], results) == {}


def test_an_engine_that_there_is_not_is_refused(results: Results) -> None:
    with pytest.raises(RealmError, match="`engine=magic`: must be one of processes, ray"):
        run_cells([cell()], results, engine="magic")


@dataclass(frozen=True)
class Refusing(TableData):
    """Data of which one seed cannot be loaded."""

    def load(self, method: str, seed: int) -> CellTables:
        if seed == 1:
            raise RealmError("seed 1 is missing")
        return super().load(method, seed)


def test_cells_are_trained_in_several_processes(results: Results, tiny_model) -> None:
    data = Refusing(crowd(16), crowd(8, seed=5))
    cells = [Cell(tiny_model("bert"), data, "noisy", seed, 1, {"train_layers": 1}) for seed in range(3)]
    failed = run_cells(cells, results, jobs=2)
    assert {each.seed: str(error) for each, error in failed.items()} == {1: "seed 1 is missing"}
    assert len(results.table("answers", [cells[0].id, cells[2].id])) == 16


@dataclass(frozen=True)
class Dying(TableData):
    """Data at which the process that loads it dies."""

    def load(self, method: str, seed: int) -> CellTables:
        os._exit(9)


def test_a_worker_that_dies_is_said(results: Results) -> None:
    data = Dying(crowd(16), crowd(8, seed=5))
    with pytest.raises(RealmError, match="a worker ended abruptly"):
        run_cells([Cell("m", data, "noisy", seed, 1) for seed in range(2)], results, jobs=2)
    assert results.ids() == []


# -------------------------------------------------------------------- Ray, which is an extra


class WorkerCrashedError(Exception):
    pass


class Reference:
    def __init__(self, future: Future[Any]) -> None:
        self.future = lambda: future


def fake_ray(calls: list[Any], crashes: bool = False) -> ModuleType:
    """As much of Ray as is used: tasks run when they are asked for."""
    module: Any = ModuleType("ray")
    module.exceptions = SimpleNamespace(WorkerCrashedError=WorkerCrashedError)
    module.is_initialized = lambda: False
    module.init = lambda **how: calls.append(("init", how))
    module.cluster_resources = lambda: {"CPU": 2.0}
    module.cancel = lambda reference, force: None

    def remote(**how: Any) -> Any:
        def task(function: Any) -> Any:
            def submit(*arguments: Any) -> Any:
                future: Future[Any] = Future()
                if crashes:
                    future.set_exception(WorkerCrashedError())
                else:
                    future.set_result(function(*arguments))
                return Reference(future)

            return SimpleNamespace(remote=submit)

        return task

    module.remote = remote
    return module


def test_cells_are_trained_as_ray_tasks(results: Results, trained: list[Any], monkeypatch) -> None:
    calls: list[Any] = []
    monkeypatch.setitem(sys.modules, "ray", fake_ray(calls))
    cells = [cell(seed=seed) for seed in (0, 1, 2, 7)]
    failed = run_cells(cells, results, engine="ray", jobs=2)
    assert [each.seed for each in failed] == [7] and len(results.ids()) == 3
    assert calls[0][1]["num_cpus"] == 2


def test_a_ray_worker_that_dies_is_said(results: Results, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", fake_ray([], crashes=True))
    with pytest.raises(RealmError, match="a worker ended abruptly"):
        run_cells([cell()], results, engine="ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RealmError, match="ray is not installed"):
        run_cells([cell()], results, engine="ray")
