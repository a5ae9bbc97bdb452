"""Where cells run: this process, several processes, or a Ray cluster. Only the caller writes results."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any

from realm.errors import RealmError
from realm.lab.grid.work import CellResult, Job, run_job

ENGINES = ("processes", "ray")

Outcome = tuple[Job, CellResult | RealmError]


def run_jobs(jobs: Iterator[Job], engine: str, workers: int) -> Iterator[Outcome]:
    """Run the jobs and give each outcome as it comes. `jobs` is read only as fast as there is room."""
    if engine == "ray":
        return _on_ray(jobs, workers)
    return _in_processes(jobs, workers) if workers > 1 or _gpus() > 1 else _here(jobs)


def attempt(job: Job) -> CellResult | RealmError:
    """A mistake that a person can mend ends the cell; anything else ends the run."""
    logging.getLogger("realm").setLevel(logging.ERROR)  # warnings are kept with the result
    try:
        return run_job(job)
    except RealmError as error:
        return error


def _here(jobs: Iterator[Job]) -> Iterator[Outcome]:
    for job in jobs:
        yield job, attempt(job)


# -------------------------------------------------------------------- processes


def _in_processes(jobs: Iterator[Job], workers: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    started = context.Value("i", 0)
    how = (max(_cores() // workers, 1), _gpus(), started)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=how)
    running: dict[Future[CellResult | RealmError], Job] = {}
    try:
        while True:
            for job in itertools.islice(jobs, workers - len(running)):
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
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()) if running else []:
            process.terminate()


def _start_worker(threads: int, gpus: int, started: Any) -> None:
    """A worker's share of the machine; it ends when the process that started it does, however that ended."""
    import torch

    with started.get_lock():
        number = started.value
        started.value += 1
    if gpus > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[number % len(visible)]
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _cores() -> int:
    """Cores this process may use, or fewer where OMP_NUM_THREADS says so."""
    import torch

    return torch.get_num_threads()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


# -------------------------------------------------------------------- Ray


def _on_ray(jobs: Iterator[Job], workers: int) -> Iterator[Outcome]:
    """Cells as Ray tasks, on the cluster that RAY_ADDRESS names or one of this machine's own."""
    try:
        import ray
    except ImportError:
        raise RealmError("--engine ray: ray is not installed; `pip install 'realm-lm[ray]'`.") from None
    ours = not ray.is_initialized()
    if ours:
        alone = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(workers, 1), "include_dashboard": False}
        ray.init(log_to_driver=False, **alone)
    there = ray.cluster_resources()
    needs = {"num_cpus": 1, "num_gpus": 1 if there.get("GPU", 0) else 0}
    task = ray.remote(max_retries=0, **needs)(attempt)
    room = int(there["GPU"]) if needs["num_gpus"] else int(there.get("CPU", 1))
    running: dict[Any, Job] = {}
    try:
        while True:
            for job in itertools.islice(jobs, room - len(running)):
                running[task.remote(job)] = job
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            yield running.pop(done[0]), ray.get(done[0])
    except ray.exceptions.WorkerCrashedError:
        raise RealmError("a Ray worker ended abruptly. Finished cells are kept: run the same command again.") from None
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()
