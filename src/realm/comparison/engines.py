"""Where cells are trained: this process, several processes, or a Ray cluster. Only the caller writes results.

An engine calls `next_job()` whenever a worker is free; None means that no job is ready (a cell waits for the trials
that choose its settings). It ends when nothing is running and nothing is ready.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any

import torch

from realm.comparison.training import CellResult, Job, train_cell
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress, named

ENGINES = ("processes", "ray")

NextJob = Callable[[], Job | None]
Outcome = tuple[Job, CellResult | RealmError]


def run_jobs(
    next_job: NextJob,
    engine: str = "processes",
    workers: int | None = None,
    progress: Progress = ignore_progress,
) -> Iterator[Outcome]:
    """Run the jobs that `next_job` returns and yield each outcome as it is finished.

    `workers` is how many cells are trained at once: by default one, and on Ray as many as the cluster has room for.
    `progress` is called with how far a cell's training is where cells are trained in this process.
    """
    if engine not in ENGINES:
        raise RealmError(f"`engine={engine}`: must be one of {', '.join(ENGINES)}.")
    if engine == "ray":
        return _on_ray(next_job, workers)
    workers = workers or 1
    return _in_processes(next_job, workers) if workers > 1 or _gpus() > 1 else _in_this_process(next_job, progress)


def attempt(job: Job, progress: Progress = ignore_progress) -> CellResult | RealmError:
    """Train a cell. A `RealmError` fails the cell; any other exception ends the run."""
    logger = logging.getLogger("realm")
    level = logger.level
    logger.setLevel(logging.ERROR)  # warnings are part of the result
    try:
        return train_cell(job, progress)
    except RealmError as error:
        return error
    finally:
        logger.setLevel(level)


def _in_this_process(next_job: NextJob, progress: Progress) -> Iterator[Outcome]:
    while (job := next_job()) is not None:
        yield job, attempt(job, named(progress, str(job.cell)))


def _fill(next_job: NextJob, room: int) -> Iterator[Job]:
    while room > 0 and (job := next_job()) is not None:
        room -= 1
        yield job


# -------------------------------------------------------------------- processes


def _in_processes(next_job: NextJob, workers: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    arguments = (max(torch.get_num_threads() // workers, 1), _gpus(), context.Value("i", 0))
    earlier = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=arguments)
    running: dict[Future[CellResult | RealmError], Job] = {}
    try:
        while True:
            for job in _fill(next_job, workers - len(running)):
                running[pool.submit(attempt, job)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool:
        raise RealmError(
            "a worker process ended abruptly (often: out of memory). Finished cells are kept: run it again, with "
            "fewer `jobs`."
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - earlier if running else ():
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
    gc.freeze()  # what is imported stays; each training's collections would walk over all of it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _gpus() -> int:
    return torch.cuda.device_count()


# -------------------------------------------------------------------- Ray


def _on_ray(next_job: NextJob, workers: int | None) -> Iterator[Outcome]:
    """Cells as Ray tasks: on a cluster that is connected already or that RAY_ADDRESS names, else on a local one."""
    try:
        import ray
    except ImportError:
        raise RealmError("`engine=ray`: ray is not installed; `pip install 'realm-lm[ray]'`.") from None
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            local = {"num_cpus": workers, "include_dashboard": False}
            ray.init(log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else local))
            stack.callback(ray.shutdown)
        resources = ray.cluster_resources()
        gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        task = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_retries=0)(attempt)
        room = min(workers or gpus or cpus, gpus or cpus)
        running: dict[Any, Job] = {}
        try:
            while True:
                for job in _fill(next_job, room - len(running)):
                    running[task.remote(job)] = job
                if not running:
                    return
                (reference,), _ = ray.wait(list(running), num_returns=1)
                yield running.pop(reference), ray.get(reference)
        except ray.exceptions.WorkerCrashedError:
            raise RealmError(
                "a Ray worker ended abruptly (often: out of memory). Finished cells are kept: run it again."
            ) from None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
