"""Two or more ways of doing the same work, each in a process of its own, taking turns.

A side is a function `serve(side, setup, pipe)` that prepares itself and then calls `answer(pipe, jobs)`. Times are of
the processor, over all threads, which a busy machine disturbs least; with one thread, the default here, they are the
time a quiet machine would take.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

MEGABYTE = 2**20
THREADS = "OMP_NUM_THREADS"


@dataclass
class Result:
    """What a turn took: processor seconds, the most memory held during it in bytes, and what it gave."""

    seconds: float
    peak: int
    value: Any


@dataclass(frozen=True)
class Setup:
    """What a side is given to prepare itself: a model, and a folder that all sides share."""

    model: str
    folder: str


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """The most memory this process held at any time within the block, sampled every 5 ms, in bytes."""
    peak, stop = [resident()], threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            peak[0] = max(peak[0], resident())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        peak[0] = max(peak[0], resident())


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def sides(serve: Callable[[str, Any, Connection], None], names: Sequence[str], setup: Any) -> Iterator[dict[str, Any]]:
    """Start a process for each name; a pipe to each, to be used with `ask`."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name in names:
        pipes[name], end = context.Pipe()
        processes.append(context.Process(target=serve, args=(name, setup, end), daemon=True))
        processes[-1].start()
        end.close()
    try:
        yield pipes
        for pipe in pipes.values():
            pipe.send(None)
    finally:
        for process in processes:
            process.join(timeout=30)


def answer(pipe: Connection, jobs: Mapping[str, Callable[..., Any]]) -> None:
    """Do what is asked until None is: (job, arguments) in, a `Result` out. No import is timed: jobs are ready."""
    quiet()
    while (request := pipe.recv()) is not None:
        job, arguments = request
        with peak_memory() as peak:
            seconds = time.process_time()
            value = jobs[job](*arguments)
            seconds = time.process_time() - seconds
        pipe.send(Result(seconds, peak[0], value))


def ask(pipe: Connection, job: str, *arguments: Any) -> Result:
    pipe.send((job, arguments))
    result: Result = pipe.recv()
    return result


def take_turns(
    pipes: Mapping[str, Connection], job: str, rounds: int, times: Mapping[str, int] | None = None
) -> dict[str, list[Result]]:
    """Every side has so many turns, and does the job once in each, or the `times` that are said for it."""
    results: dict[str, list[Result]] = {name: [] for name in pipes}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            results[name] += [ask(pipe, job) for _ in range((times or {}).get(name, 1))]
    return results


def median(results: Sequence[Result]) -> float:
    return statistics.median(result.seconds for result in results)


def peak_of(results: Sequence[Result]) -> str:
    return f"{max(result.peak for result in results) / MEGABYTE:,.0f}"


def quiet() -> None:
    """No progress bars and no advice from the libraries; as many threads as the environment says."""
    import logging

    import torch
    import transformers

    torch.set_num_threads(int(os.environ.get(THREADS, "1")))
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A Markdown table, so that it can be put in the documentation as it is."""
    print(f"\n{title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row) + " |", flush=True)


@dataclass
class Targets:
    """Ratios against what they should be. With `quick` they are shown and not held."""

    quick: bool
    missed: list[str]

    def hold(self, what: str, ratio: float, target: float) -> str:
        """The target as a table shows it; a ratio below it is remembered."""
        if not self.quick and ratio < target:
            self.missed.append(f"{what}: {ratio:.2f}x; the target is {target:g}x")
        return f"{target:g}x"

    def finish(self) -> None:
        """End with an error that names what was missed."""
        if self.quick:
            print("\n(quick: tiny models and few rounds, so the ratios are not held to their targets)")
        if self.missed:
            sys.exit("missed: " + "; ".join(self.missed))


def start(description: str | None) -> Targets:
    """Read the command line of a benchmark."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny models, few rounds, no targets: a look in seconds")
    parser.add_argument("--threads", type=int, default=1, help="threads of each side")
    arguments = parser.parse_args()
    os.environ[THREADS] = str(arguments.threads)
    return Targets(arguments.quick, [])
