"""Running a spec: trials first, then the cells that are missing, each kept as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from realm.errors import RealmError
from realm.lab.grid.cell import Cell
from realm.lab.grid.data import data_fingerprint
from realm.lab.grid.engines import run_jobs
from realm.lab.grid.results import Results
from realm.lab.grid.work import LIKELIHOOD, CellResult, Job


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


Heard = Callable[[Progress, Cell, CellResult | None], None]
"""Called after each cell; the result is None where the cell was finished by another process meanwhile."""


def run_grid(
    cells: Sequence[Cell],
    results: Results,
    *,
    data: Path | None = None,
    engine: str = "processes",
    workers: int = 1,
    limit: int | None = None,
    heard: Heard = lambda progress, cell, result: None,
) -> dict[Cell, RealmError]:
    """Run the cells that are missing, and the trials they need; at most `limit` in all. Returns those that failed."""
    wanted = results.missing(cells)
    trials = results.missing(dict.fromkeys(trial for cell in wanted for trial in cell.trials()))
    first, then = in_order(trials)[:limit], in_order(wanted)
    then = then if limit is None else then[: limit - len(first)]
    check_data([*first, *then], results, data)
    progress = Progress(len(first) + len(then), sum(cell.steps for cell in [*first, *then]))
    failed: dict[Cell, RealmError] = {}
    for part in (first, then):
        jobs = _jobs(part, results, data, failed, lambda cell: _skip(progress, cell, heard))
        for job, result in run_jobs(jobs, engine, workers):
            progress.finished(job.cell)
            if isinstance(result, RealmError):
                failed[job.cell] = result
            else:
                results.add(result)
                heard(progress, job.cell, result)
    return failed


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of the same model and items together, so that what is cached of them is used while it is there."""
    kin: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        kin.setdefault(cell.kinship, []).append(cell)
    return [cell for group in kin.values() for cell in group]


def chosen_settings(cell: Cell, results: Results) -> dict[str, object] | None:
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
        if other := results.data_of(benchmark) - {found}:
            raise RealmError(
                f"--results {results.path}: holds cells of {benchmark} that were trained on other data (fingerprint "
                f"{min(other)}, not {found}). Give the same --data as before, or another file."
            )


def _jobs(
    cells: Sequence[Cell],
    results: Results,
    data: Path | None,
    failed: dict[Cell, RealmError],
    skip: Callable[[Cell], None],
) -> Iterator[Job]:
    """A job for each cell when there is room for it, unless another process has finished it meanwhile."""
    for cell in cells:
        if not results.missing([cell]):
            skip(cell)
            continue
        chosen = chosen_settings(cell, results)
        if chosen is None:
            failed[cell] = RealmError("a trial that chooses its settings failed.")
            skip(cell)
            continue
        yield Job(cell, chosen, data)


def _skip(progress: Progress, cell: Cell, heard: Heard) -> None:
    progress.finished(cell)
    heard(progress, cell, None)
