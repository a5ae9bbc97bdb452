"""Where cells run: this process, several processes, or a Ray cluster. Only the caller writes results.

An engine takes the next job whenever it has room, by `take()`, which gives None while none is ready (a cell waits for
the trials that choose its settings). It ends when nothing runs and nothing is ready.
"""

from __future__ import annotations

import contextlib
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

from realm.errors import RealmError
from realm.lab.grid.work import CellResult, Job, run_job

ENGINES = ("processes", "ray")

Take = Callable[[], Job | None]
Outcome = tuple[Job, CellResult | RealmError]


def run_jobs(take: Take, engine: str = "processes", workers: int | None = None) -> Iterator[Outcome]:
    """Run the jobs that `take` gives and yield each outcome as it comes.

    `workers` is how many cells run at once: by default one, and on Ray as many as the cluster has room for.
    """
    if engine == "ray":
        return _on_ray(take, workers)
    workers = workers or 1
    return _in_processes(take, workers) if workers > 1 or _gpus() > 1 else _here(take)


def attempt(job: Job) -> CellResult | RealmError:
    """A mistake that a person can mend ends the cell; anything else ends the run."""
    logger = logging.getLogger("realm")
    heard = logger.level
    logger.setLevel(logging.ERROR)  # warnings are kept with the result
    try:
        return run_job(job)
    except RealmError as error:
        return error
    finally:
        logger.setLevel(heard)


def _here(take: Take) -> Iterator[Outcome]:
    while (job := take()) is not None:
        yield job, attempt(job)


def _fill(take: Take, room: int) -> Iterator[Job]:
    while room > 0 and (job := take()) is not None:
        room -= 1
        yield job


# -------------------------------------------------------------------- processes


def _in_processes(take: Take, workers: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    share = (max(_threads() // workers, 1), _gpus(), context.Value("i", 0))
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=share)
    running: dict[Future[CellResult | RealmError], Job] = {}
    try:
        while True:
            for job in _fill(take, workers - len(running)):
                running[pool.submit(attempt, job)] = job
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()
    except BrokenProcessPool:
        raise RealmError(
            "a worker process ended abruptly (often: out of memory). Finished cells are kept: run the same command "
            "again, with fewer --jobs."
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - others if running else ():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start_worker(threads: int, gpus: int, started: Any) -> None:
    """A worker's share of the machine. It ends when the process that started it has, however that came about."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; ending workers is the caller's part
    with started.get_lock():
        number = started.value
        started.value += 1
    if gpus > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number % gpus]
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _threads() -> int:
    """What torch would use alone: the cores, or fewer where OMP_NUM_THREADS says so."""
    import torch

    return torch.get_num_threads()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


# -------------------------------------------------------------------- Ray


def _on_ray(take: Take, workers: int | None) -> Iterator[Outcome]:
    """Cells as Ray tasks: on a cluster that is connected already or that RAY_ADDRESS names, else on one made here."""
    try:
        import ray
    except ImportError:
        raise RealmError("--engine ray: ray is not installed; `pip install 'realm-lm[ray]'`.") from None
    with contextlib.ExitStack() as ends:
        if not ray.is_initialized():
            made_here = {"num_cpus": workers, "include_dashboard": False}
            ray.init(log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else made_here))
            ends.callback(ray.shutdown)
        there = ray.cluster_resources()
        gpus = int(there.get("GPU", 0))
        task = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_retries=0)(attempt)
        room = min(workers or gpus or int(there.get("CPU", 1)), gpus or int(there.get("CPU", 1)))
        running: dict[Any, Job] = {}
        try:
            while True:
                for job in _fill(take, room - len(running)):
                    running[task.remote(job)] = job
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1)
                yield running.pop(done[0]), ray.get(done[0])
        except ray.exceptions.WorkerCrashedError:
            raise RealmError(
                "a Ray worker ended abruptly (often: out of memory). Finished cells are kept: run the command again."
            ) from None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
