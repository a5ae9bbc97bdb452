"""Running a spec: the cells that are missing and the trials they need, each kept as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from realm.errors import RealmError
from realm.lab.grid.cell import Cell
from realm.lab.grid.data import data_fingerprint
from realm.lab.grid.engines import run_jobs
from realm.lab.grid.results import Results
from realm.lab.grid.work import LIKELIHOOD, CellResult, Job
from realm.models.fingerprint import model_fingerprint


@dataclass
class Progress:
    """How far a run is. Time left is estimated from the optimiser steps that are done and to do."""

    cells: int
    steps: int
    began: float = field(default_factory=time.monotonic)
    cells_done: int = 0
    steps_done: int = 0

    def finished(self, cell: Cell) -> None:
        self.cells_done += 1
        self.steps_done += cell.steps

    @property
    def seconds_left(self) -> float | None:
        if not self.steps_done:
            return None
        return (time.monotonic() - self.began) / self.steps_done * (self.steps - self.steps_done)


class Watcher(Protocol):
    """Hears how a run goes."""

    def begun(self, progress: Progress) -> None: ...

    def finished(self, progress: Progress, cell: Cell, result: CellResult | RealmError) -> None: ...


def run_grid(
    cells: Sequence[Cell],
    results: Results,
    *,
    data: Path | None = None,
    engine: str = "processes",
    workers: int | None = None,
    limit: int | None = None,
    watcher: Watcher | None = None,
) -> dict[Cell, RealmError]:
    """Run the cells that are missing, and the trials they need; at most `limit` in all. Returns those that failed.

    A process that is killed loses the cells it was at and nothing else.
    """
    queue = Queue(cells, results, data, limit)
    check_data(queue.pending, results, data)
    check_models(queue.pending, results)
    progress = Progress(len(queue.expected), sum(cell.steps for cell in queue.expected))
    if watcher is not None:
        watcher.begun(progress)
    for job, result in run_jobs(queue.take, engine, workers):
        if isinstance(result, RealmError):
            queue.failed[job.cell] = result
        else:
            results.add(result)
        progress.finished(job.cell)
        if watcher is not None:
            watcher.finished(progress, job.cell, result)
    return queue.failed


class Queue:
    """The cells to run, each given out once and only when the trials that choose its settings are finished."""

    def __init__(self, cells: Sequence[Cell], results: Results, data: Path | None, limit: int | None = None) -> None:
        self.results, self.data = results, data
        wanted = results.missing(cells)
        trials = results.missing(dict.fromkeys(trial for cell in wanted for trial in cell.trials()))
        self.pending = in_order([*trials, *wanted])
        self.expected = self.pending[:limit]
        self.left = len(self.expected)
        self.failed: dict[Cell, RealmError] = {}

    def take(self) -> Job | None:
        """The next job that is ready; None where none is, now or at all."""
        for cell in list(self.pending) if self.left else ():
            if broken := [trial for trial in cell.trials() if trial in self.failed]:
                self.failed[cell] = RealmError(f"no settings for it: {broken[0]} failed.")
                self.pending.remove(cell)
                continue
            if not self.results.missing([cell]):  # finished by another process meanwhile
                self.pending.remove(cell)
                continue
            if (chosen := chosen_settings(cell, self.results)) is not None:
                self.pending.remove(cell)
                self.left -= 1
                return Job(cell, chosen, self.data)
        return None


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of the same model and items together, so that what is cached of them is used while it is there."""
    kin: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        kin.setdefault(cell.kinship, []).append(cell)
    return [cell for group in kin.values() for cell in group]


def chosen_settings(cell: Cell, results: Results) -> dict[str, Any] | None:
    """The values whose trial explains held-out annotations best; None while a trial is missing."""
    if cell.trial:
        return {name: values[0] for name, values in cell.choose.items()}
    trials = cell.trials()
    if results.missing(trials):
        return None
    likelihood = {trial: results.figures(trial.id)[LIKELIHOOD] for trial in trials}
    best = max(trials, key=lambda trial: likelihood[trial], default=None)
    return {} if best is None else {name: values[0] for name, values in best.choose.items()}


def check_data(cells: Sequence[Cell], results: Results, data: Path | None) -> None:
    """Load every benchmark before anything is trained; refuse results that other data gave."""
    for benchmark in dict.fromkeys(cell.benchmark for cell in cells):
        found = data_fingerprint(benchmark, data)
        # Results that are older than the second part of the fingerprint have the first alone.
        if other := results.data_of(benchmark) - {found, found.partition("-")[0]}:
            raise RealmError(
                f"--results {results.path}: holds cells of {benchmark} that were trained on other data (fingerprint "
                f"{min(other)}, not {found}). Give the same --data as before, or another file."
            )


def check_models(cells: Sequence[Cell], results: Results) -> None:
    """Refuse results that other weights under the same name gave."""
    for model in dict.fromkeys(cell.model for cell in cells):
        found = model_fingerprint(model)
        if other := results.weights_of(model) - {found}:
            raise RealmError(
                f"--results {results.path}: holds cells of {model} that were trained from other weights (fingerprint "
                f"{min(other)}, not {found}). Bring those back, name the new model otherwise, or give another file."
            )
