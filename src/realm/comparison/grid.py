"""Running cells: those that a results file lacks and the trials they need, each recorded as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from realm.comparison.cells import LIKELIHOOD, Cell
from realm.comparison.engines import run_jobs
from realm.comparison.results import Results
from realm.comparison.training import CellResult, Job
from realm.errors import RealmError
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress


@dataclass(frozen=True)
class CellFinished:
    """What a run reports of each finished cell.

    | field | meaning |
    |---|---|
    | cell, result | the cell, and its result or why it failed |
    | done, total | cells finished by this run, and cells that it will finish |
    | seconds_left | estimated from the optimiser steps that are done and to do |
    """

    cell: Cell
    result: CellResult | RealmError
    done: int
    total: int
    seconds_left: float


def run_cells(
    cells: Sequence[Cell],
    results: Results,
    *,
    engine: str = "processes",
    jobs: int | None = None,
    limit: int | None = None,
    on_finished: Callable[[CellFinished], None] | None = None,
    progress: Progress = ignore_progress,
) -> dict[Cell, RealmError]:
    """Train the cells that are missing and the trials they need, at most `limit` in all. Returns those that failed.

    A process that is killed loses the cells it was training and nothing else. `on_finished` is called after each cell,
    `progress` with how far the one in training is (where one is trained at a time, in this process).
    """
    queue = Queue(cells, results, limit)
    check_data(queue.pending, results)
    check_models(queue.pending, results)
    total, steps, start = len(queue.expected), sum(map(_cost, queue.expected)), time.monotonic()
    steps_done = 0
    for done, (job, result) in enumerate(run_jobs(queue.next_job, engine, jobs, progress), start=1):
        if isinstance(result, RealmError):
            queue.failed[job.cell] = result
        else:
            results.add(result)
        steps_done += _cost(job.cell)
        if on_finished is not None:
            seconds_left = (time.monotonic() - start) / steps_done * (steps - steps_done)
            on_finished(CellFinished(job.cell, result, done, total, seconds_left))
    return queue.failed


def _cost(cell: Cell) -> int:
    """Optimiser steps; where epochs decide, all cells are taken to cost the same."""
    return max(cell.steps, 1)


class Queue:
    """The cells to train, each handed out once and only when the trials that select its settings are finished."""

    def __init__(self, cells: Sequence[Cell], results: Results, limit: int | None = None) -> None:
        self.results = results
        missing = results.missing(cells)
        trials = results.missing(dict.fromkeys(trial for cell in missing for trial in cell.trials()))
        self.pending = in_order([*trials, *missing])
        self.expected = self.pending[:limit]
        self.left = len(self.expected)
        self.failed: dict[Cell, RealmError] = {}

    def next_job(self) -> Job | None:
        """The next job that is ready; None where none is, now or at all."""
        for cell in list(self.pending) if self.left else ():
            if failed := [trial for trial in cell.trials() if trial in self.failed]:
                self.failed[cell] = RealmError(f"its settings could not be chosen: {failed[0]} failed.")
                self.pending.remove(cell)
            elif not self.results.missing([cell]):  # finished by another process meanwhile
                self.pending.remove(cell)
            elif (settings := select_settings(cell, self.results)) is not None:
                self.pending.remove(cell)
                self.left -= 1
                return Job(cell, settings)
        return None


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of the same model and data together, so that what is cached of them is used while it is in the cache."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.model, cell.data.origin, cell.data.describe().get("items")), []).append(cell)
    return [cell for group in groups.values() for cell in group]


def select_settings(cell: Cell, results: Results) -> dict[str, Any] | None:
    """The values whose trial explains held-out annotations best; None while a trial is missing."""
    trials = cell.trials()
    if results.missing(trials):
        return None
    best = max(trials, key=lambda trial: float(results.metrics(trial.id)[LIKELIHOOD]), default=cell)
    return {name: values[0] for name, values in best.choose.items()}


def check_data(cells: Sequence[Cell], results: Results) -> None:
    """Load all data before anything is trained; refuse a results file that has results of other data."""
    for origin, data in {cell.data.origin: cell.data for cell in cells}.items():
        fingerprint = data.fingerprint()
        if other := results.data_of(origin) - {fingerprint}:
            raise RealmError(
                f"{results.path}: holds cells of {origin} that were trained on other data (fingerprint {min(other)}, "
                f"not {fingerprint}). Use the same `data` as before, or another results file."
            )


def check_models(cells: Sequence[Cell], results: Results) -> None:
    """Refuse a results file that has results of other weights under the same name."""
    for model in dict.fromkeys(cell.model for cell in cells):
        fingerprint = model_fingerprint(model)
        if other := results.weights_of(model) - {fingerprint}:
            raise RealmError(
                f"{results.path}: holds cells of {model} that were trained from other weights (fingerprint "
                f"{min(other)}, not {fingerprint}). Restore those, rename the new model, or use another results file."
            )
