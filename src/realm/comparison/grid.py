"""Running the cells that a folder lacks, in this process, in several or on Ray; each is recorded when finished."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any

import torch

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.comparison.training import CellResult, train_cell
from realm.errors import RealmError
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress

Outcome = CellResult | RealmError
Finished = Generator[tuple[Cell, Outcome], None, None]
ABRUPT = "a worker ended abruptly (often: out of memory). Finished cells are kept: run it again, with fewer `jobs`."


def run_cells(
    cells: Sequence[Cell],
    results: Results,
    *,
    engine: str = "processes",
    jobs: int | None = None,
    limit: int | None = None,
    on_finished: Callable[[Cell, Outcome, int, int], None] | None = None,
    progress: Progress = ignore_progress,
) -> dict[Cell, RealmError]:
    """Train the cells that are missing, at most `limit` of them, and return those that failed, with their errors.

    A process that is killed loses the cells it was training and nothing else. `engine` is `processes` or `ray`; `jobs`
    is how many cells are trained at once: by default one, and on Ray as many as the cluster has room for. After each
    cell `on_finished` is called with it, its result or why it failed, how many are done, and how many there are;
    `progress` with how far the one in training is, where they are trained in this process.
    """
    engines = {
        "processes": _in_processes if (jobs or 1) > 1 or torch.cuda.device_count() > 1 else _here,
        "ray": _on_ray,
    }
    if engine not in engines:
        raise RealmError(f"`engine={engine}`: must be one of {', '.join(engines)}.")
    pending = results.missing(dict.fromkeys(cells))[:limit]
    _check_sources(cells, pending, results)
    failed: dict[Cell, RealmError] = {}
    with contextlib.closing(engines[engine](pending, jobs, progress)) as finished:
        for done, (cell, result) in enumerate(finished, start=1):
            if isinstance(result, RealmError):
                failed[cell] = result
            else:
                results.add(result)
            if on_finished is not None:
                on_finished(cell, result, done, len(pending))
    return failed


def _check_sources(cells: Sequence[Cell], pending: Sequence[Cell], results: Results) -> None:
    """Load the data of all pending cells before anything is trained; refuse a folder whose cells are of another."""
    data = {cell.data.origin: cell.data for cell in pending}
    now = {("data", origin): each.fingerprint() for origin, each in data.items()}
    now |= {("weights", cell.model): model_fingerprint(cell.model) for cell in pending}
    finished = set(cells) - set(results.missing(cells)) if pending else set()
    for cell in finished:
        record = results.record(cell.id)
        for what, name in (("data", cell.data.origin), ("weights", cell.model)):
            if now.get((what, name), record[what]) != record[what]:
                raise RealmError(
                    f"{results.folder}: holds cells of {name} that were trained on other {what} (fingerprint "
                    f"{record[what]}, not {now[what, name]}). Use the same {what} as before, or another folder."
                )


# -------------------------------------------------------------------- where cells are trained: each with its result


def _attempt(cell: Cell, progress: Progress = ignore_progress) -> Outcome:
    """Train a cell. A `RealmError` fails the cell; any other exception ends the run."""
    try:
        return train_cell(cell, progress=progress)
    except RealmError as error:
        return error


def _here(cells: Sequence[Cell], jobs: int | None, progress: Progress) -> Finished:
    for cell in cells:
        yield cell, _attempt(cell, progress)


def _in_processes(cells: Sequence[Cell], jobs: int | None, progress: Progress) -> Finished:
    context = multiprocessing.get_context("spawn")
    arguments = (max(torch.get_num_threads() // (jobs or 1), 1), torch.cuda.device_count(), context.Value("i", 0))
    earlier = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs or 1, mp_context=context, initializer=_start_worker, initargs=arguments)
    futures = {pool.submit(_attempt, cell): cell for cell in cells}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise RealmError(ABRUPT) from None
    finally:
        if not all(future.done() for future in futures):
            for process in set(multiprocessing.active_children()) - earlier:
                process.terminate()
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


def _on_ray(cells: Sequence[Cell], jobs: int | None, progress: Progress) -> Finished:
    """Cells as Ray tasks: on a cluster that is connected already or that RAY_ADDRESS names, else on a local one."""
    try:
        import ray
    except ImportError:
        raise RealmError("`engine=ray`: ray is not installed; `pip install 'realm-lm[ray]'`.") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs}))
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_attempt)
    references = {task.remote(cell): cell for cell in cells}
    futures: dict[Future[Outcome], Cell] = {reference.future(): cell for reference, cell in references.items()}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except ray.exceptions.WorkerCrashedError:
        raise RealmError(ABRUPT) from None
    finally:
        for reference in references:  # those that are finished stay as they are
            ray.cancel(reference, force=True)
