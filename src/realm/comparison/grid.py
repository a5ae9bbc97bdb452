"""Running the cells that a folder lacks, in this process, in several or on Ray; each is recorded when finished."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import torch

from realm.comparison.cells import LIKELIHOOD, Cell
from realm.comparison.results import Results
from realm.comparison.training import CellResult, train_cell
from realm.errors import RealmError
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress, named

ENGINES = ("processes", "ray")
Outcome = CellResult | RealmError
Submit = Callable[..., "Future[Outcome]"]


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
    runs: Mapping[Cell, Path] | None = None,
) -> dict[Cell, RealmError]:
    """Train the cells that are missing, after the trials they need, at most `limit` in all. Returns those that failed.

    A process that is killed loses the cells it was training and nothing else. `jobs` is how many are trained at once:
    by default one, and on Ray as many as the cluster has room for. `on_finished` is called after each cell, `progress`
    with how far the one in training is (where one is trained at a time, in this process). `runs` names folders for
    cells whose run is written too.
    """
    if engine not in ENGINES:
        raise RealmError(f"`engine={engine}`: must be one of {', '.join(ENGINES)}.")
    missing = results.missing(dict.fromkeys(cells))
    trials = results.missing(dict.fromkeys(trial for cell in missing for trial in cell.trials()))
    pending = dict.fromkeys([*trials, *missing][:limit])
    check_sources(cells, pending, results)
    failed: dict[Cell, RealmError] = {}
    total, steps, start = len(pending), sum(max(cell.steps, 1) for cell in pending), time.monotonic()
    done = steps_done = 0
    start_engine: Any = _ray if engine == "ray" else _processes if (jobs or 1) > 1 or _gpus() > 1 else _this_process
    with start_engine(jobs) as (submit, room):
        for phase in (trials, missing):
            waiting = [cell for cell in phase if cell in pending]
            for cell, result in _run(waiting, results, failed, submit, room, progress, runs or {}):
                done, steps_done = done + 1, steps_done + max(cell.steps, 1)
                if isinstance(result, RealmError):
                    failed[cell] = result
                else:
                    results.add(result)
                if on_finished is not None:
                    seconds_left = (time.monotonic() - start) / steps_done * (steps - steps_done)
                    on_finished(CellFinished(cell, result, done, total, seconds_left))
    return failed


def _run(
    cells: Sequence[Cell],
    results: Results,
    failed: dict[Cell, RealmError],
    submit: Submit,
    room: int,
    progress: Progress,
    runs: Mapping[Cell, Path],
) -> Iterator[tuple[Cell, Outcome]]:
    """Each cell with its result, as soon as there is one; at most `room` are trained at once."""
    waiting, running = list(cells), dict[Any, Cell]()
    while waiting or running:
        while waiting and len(running) < room:
            cell = waiting.pop(0)
            if bad := [trial for trial in cell.trials() if trial in failed]:
                yield cell, RealmError(f"its settings could not be chosen: {bad[0]} failed.")
            # a cell may be finished by another process meanwhile, and its trials be beyond `limit`
            elif results.missing([cell]) and not results.missing(cell.trials()):
                running[submit(cell, selected_settings(cell, results), runs.get(cell), progress)] = cell
        for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
            yield running.pop(future), future.result()


def selected_settings(cell: Cell, results: Results) -> dict[str, Any]:
    """The values whose trial explains held-out annotations best; all trials must be finished."""
    scores = {trial: float(results.record(trial.id)["metrics"][LIKELIHOOD]) for trial in cell.trials()}
    best = max(scores, key=lambda trial: scores[trial], default=cell)
    return {name: values[0] for name, values in best.choose.items()}


def check_sources(cells: Sequence[Cell], pending: Collection[Cell], results: Results) -> None:
    """Load the data of all pending cells before anything is trained; refuse a folder whose cells are of another."""
    data = {cell.data.origin: cell.data for cell in pending}
    now = {("data", origin): each.fingerprint() for origin, each in data.items()}
    now |= {("weights", cell.model): model_fingerprint(cell.model) for cell in pending}
    missing = set(results.missing(cells))
    for cell in cells if now else ():
        for what, name in (("data", cell.data.origin), ("weights", cell.model)):
            if cell in missing or (what, name) not in now:
                continue
            if (before := results.record(cell.id)[what]) != now[what, name]:
                raise RealmError(
                    f"{results.folder}: holds cells of {name} that were trained on other {what} (fingerprint {before}, "
                    f"not {now[what, name]}). Use the same {what} as before, or another folder."
                )


# -------------------------------------------------------------------- where cells are trained


def attempt(
    cell: Cell, settings: Mapping[str, Any], run: Path | None = None, progress: Progress = ignore_progress
) -> Outcome:
    """Train a cell. A `RealmError` fails the cell; any other exception ends the run."""
    logger = logging.getLogger("realm")
    level = logger.level
    logger.setLevel(logging.ERROR)  # warnings are part of the result
    try:
        return train_cell(cell, settings, run=run, progress=named(progress, str(cell)))
    except RealmError as error:
        return error
    finally:
        logger.setLevel(level)


@contextmanager
def _this_process(jobs: int | None) -> Iterator[tuple[Submit, int]]:
    def submit(*arguments: Any) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(attempt(*arguments))
        return future

    yield submit, 1


@contextmanager
def _processes(jobs: int | None) -> Iterator[tuple[Submit, int]]:
    workers = jobs or 1
    context = multiprocessing.get_context("spawn")
    arguments = (max(torch.get_num_threads() // workers, 1), _gpus(), context.Value("i", 0))
    earlier = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=arguments)
    try:
        # a callback of this process cannot be sent: nothing is told from within a training
        yield lambda cell, settings, run, progress: pool.submit(attempt, cell, settings, run), workers
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - earlier:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise RealmError(
                "a worker process ended abruptly (often: out of memory). Finished cells are kept: run it again, with "
                "fewer `jobs`."
            ) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(threads: int, gpus: int, counter: Any) -> None:
    """Give a worker its share of the machine, and let it end with its parent process, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends the workers
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    if gpus > 1:
        devices = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.split(",")[number % gpus]
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _gpus() -> int:
    return torch.cuda.device_count()


@contextmanager
def _ray(jobs: int | None) -> Iterator[tuple[Submit, int]]:
    """Cells as Ray tasks: on a cluster that is connected already or that RAY_ADDRESS names, else on a local one."""
    try:
        import ray
    except ImportError:
        raise RealmError("`engine=ray`: ray is not installed; `pip install 'realm-lm[ray]'`.") from None
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            local = {"num_cpus": jobs, "include_dashboard": False}
            ray.init(log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else local))
            stack.callback(ray.shutdown)
        resources = ray.cluster_resources()
        gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        task = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_retries=0)(attempt)
        references = []

        def submit(cell: Cell, settings: Mapping[str, Any], run: Path | None, progress: Progress) -> Future[Outcome]:
            references.append(task.remote(cell, settings, run))
            future: Future[Outcome] = references[-1].future()
            return future

        try:
            yield submit, min(jobs or gpus or cpus, gpus or cpus)
        except ray.exceptions.WorkerCrashedError:
            raise RealmError(
                "a Ray worker ended abruptly (often: out of memory). Finished cells are kept: run it again."
            ) from None
        finally:
            for reference in references:  # those that are finished stay as they are
                ray.cancel(reference, force=True)
