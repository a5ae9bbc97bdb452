"""Aggregation beside crowd-kit: the same annotations, the same number of EM iterations, taking turns.

    python -m benchmarks.aggregation            # about ten minutes
    python -m benchmarks.aggregation --scale 0.02   # a look at it in seconds; the ratios are not held to their targets

Each side lives in a process of its own, fits in turn, and reports its time and its peak memory. Nothing counts unless
both did the same work: as many iterations, and the same answers.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._sides import MEGABYTE, peak_memory, show, sides

MEMORY_LIMIT = 1.2
"""Gigabytes that 10 million annotations may take at the peak, the table itself included."""


@dataclass(frozen=True)
class Case:
    """A method of both sides. MACE is another algorithm there (variational), so its labels are compared instead."""

    method: str
    annotations: int
    annotators: int
    iterations: int
    rounds: int
    target: float
    same_algorithm: bool = True


CASES = [
    Case("dawid-skene", 1_000_000, 4_000, iterations=20, rounds=3, target=20),
    Case("one-coin", 1_000_000, 4_000, iterations=10, rounds=3, target=50),
    Case("mace", 1_000_000, 4_000, iterations=10, rounds=1, target=0.5, same_algorithm=False),
]
TO_CONVERGENCE = [("dawid-skene", 1_000_000, 4_000), ("one-coin", 200_000, 2_000)]
LARGE = 10_000_000
LARGE_ITERATIONS = {"majority": None, "dawid-skene": 10, "one-coin": 10, "mace": 10}


@dataclass
class Table:
    items: npt.NDArray[np.int64]
    annotators: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]


@dataclass
class Result:
    seconds: float
    processor_seconds: float
    iterations: int
    peak: int
    posterior: npt.NDArray[np.float64]


def simulated(n_annotations: int, n_annotators: int, n_options: int = 3, per_item: int = 5) -> Table:
    """Annotators right with an accuracy between 0.4 and 0.95, wrong uniformly; five to an item; shuffled."""
    rng = np.random.default_rng(0)
    truth = rng.integers(n_options, size=n_annotations // per_item)
    items = rng.permutation(np.repeat(np.arange(len(truth)), per_item))
    annotators = rng.integers(n_annotators, size=len(items))
    right = rng.random(len(items)) < rng.uniform(0.4, 0.95, n_annotators)[annotators]
    wrong = (truth[items] + rng.integers(1, n_options, size=len(items))) % n_options
    return Table(items, annotators, np.where(right, truth[items], wrong), truth)


# ------------------------------------------------------------------------------------------------ one side


def fit_realm(table: Table, method: str, iterations: int | None) -> tuple[int, Any]:
    from realm.crowd.estimators import ESTIMATORS

    limits: dict[str, Any] = {} if iterations is None else {"max_iter": iterations, "tol": 0.0}
    model: Any = ESTIMATORS[method](**limits).fit(table.items, table.annotators, table.labels)
    return getattr(model, "n_iter_", 1), model.posterior_


def fit_default(annotations: Any, method: str, iterations: int | None) -> tuple[int, Any]:
    from realm import aggregate

    return 1, aggregate(annotations).posterior


def fit_crowdkit(frame: Any, method: str, iterations: int | None) -> tuple[int, Any]:
    from crowdkit import aggregation as peer

    if method == "mace":  # its restarts all have the same seed
        model: Any = peer.MACE(n_restarts=1, n_iter=iterations or 50).fit(frame)
        return iterations or 50, model.probas_
    kind = {"dawid-skene": peer.DawidSkene, "one-coin": peer.OneCoinDawidSkene}[method]
    limits = {} if iterations is None else {"n_iter": iterations, "tol": -np.inf}
    model = kind(**limits).fit(frame)
    return len(model.loss_history_), model.probas_


def as_annotations(table: Table) -> Any:
    """The same as a table of this project, what `realm aggregate` has after reading."""
    from realm.data import Annotations, Items, Task

    order = np.argsort(table.items, kind="stable")
    columns: dict[str, Any] = {
        "item": table.items[order].astype(np.int32),
        "annotator": table.annotators[order].astype(np.int32),
        "label": table.labels[order].astype(np.int32),
    }
    items = Items.from_texts([str(item) for item in range(len(table.truth))], [Task("task", ("a", "b", "c"))])
    names = tuple(str(annotator) for annotator in range(int(table.annotators.max()) + 1))
    return Annotations(items=items, annotators=names, **columns)


def serve(side: str, size: tuple[int, int], pipe: Connection) -> None:
    """Build the table, then fit whenever asked: (method, iterations) in, a `Result` out; None ends it."""
    warnings.simplefilter("ignore")
    table: Any = simulated(*size)
    fit: Callable[..., tuple[int, Any]] = fit_realm
    if side == "crowd-kit":
        import pandas as pd

        table = pd.DataFrame({"task": table.items, "worker": table.annotators, "label": table.labels})
        fit = fit_crowdkit
    elif side == "default":
        table, fit = as_annotations(table), fit_default
    # So that no import is timed.
    importlib.import_module("crowdkit.aggregation" if side == "crowd-kit" else "realm.crowd.aggregation")
    gc.collect()
    while (request := pipe.recv()) is not None:
        method, iterations = request
        with peak_memory() as peak:
            start, processor_seconds = time.perf_counter(), time.process_time()
            n_iterations, posterior = fit(table, method, iterations)
            seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_seconds
        if side == "crowd-kit":
            posterior = posterior.sort_index().sort_index(axis=1).to_numpy(dtype=np.float64)
        pipe.send(Result(seconds, processor_seconds, n_iterations, peak[0], posterior))
        del posterior


# ------------------------------------------------------------------------------------------------ both sides


def ask(pipe: Connection, method: str, iterations: int | None) -> Result:
    pipe.send((method, iterations))
    result: Result = pipe.recv()
    return result


def compare(case: Case, scale: float) -> list[Any]:
    """One row of the table: both sides in turn, `rounds` times."""
    n_annotations, n_annotators = scaled(case.annotations, scale), max(int(case.annotators * scale), 20)
    truth = simulated(n_annotations, n_annotators).truth
    timings: dict[str, list[Result]] = {"realm": [], "crowd-kit": []}
    with sides(serve, ("realm", "crowd-kit"), (n_annotations, n_annotators)) as pipes:
        for _ in range(case.rounds):
            for side, pipe in pipes.items():
                timings[side].append(ask(pipe, case.method, case.iterations))
    realm, crowdkit = timings["realm"][-1], timings["crowd-kit"][-1]
    check_same_work(case, realm, crowdkit, truth)
    seconds = {side: statistics.median(result.seconds for result in results) for side, results in timings.items()}
    ratio = seconds["crowd-kit"] / seconds["realm"]
    if scale >= 1:
        assert ratio >= case.target, f"{case.method}: {ratio:.1f} times faster; the target is {case.target:g}"
    return [
        case.method,
        f"{n_annotations:,}",
        case.iterations,
        f"{seconds['realm']:.3f}",
        f"{seconds['crowd-kit']:.2f}",
        f"{ratio:.1f}x",
        f"{case.target:g}x",
        f"{accuracy(realm, truth):.4f}",
        f"{accuracy(crowdkit, truth):.4f}",
        f"{max(result.peak for result in timings['realm']) / MEGABYTE:,.0f}",
        f"{max(result.peak for result in timings['crowd-kit']) / MEGABYTE:,.0f}",
    ]


def check_same_work(case: Case, realm: Result, crowdkit: Result, truth: npt.NDArray[np.int64]) -> None:
    assert realm.iterations == crowdkit.iterations == case.iterations, (realm.iterations, crowdkit.iterations)
    if case.same_algorithm:
        apart = float(np.abs(realm.posterior - crowdkit.posterior).max())
        assert apart < 1e-4, f"{case.method}: posteriors lie {apart} apart"
    else:
        assert accuracy(realm, truth) > accuracy(crowdkit, truth) - 0.005 - 3 / len(truth)


def accuracy(result: Result, truth: npt.NDArray[np.int64]) -> float:
    return float((result.posterior.argmax(axis=1) == truth).mean())


def converge(method: str, n_annotations: int, n_annotators: int) -> list[Any]:
    """One row: each side as it comes, until its own stopping rule is content."""
    truth = simulated(n_annotations, n_annotators).truth
    with sides(serve, ("realm", "crowd-kit"), (n_annotations, n_annotators)) as pipes:
        realm, crowdkit = (ask(pipe, method, None) for pipe in pipes.values())
    return [
        method,
        f"{n_annotations:,}",
        *(f"{side.seconds:.2f} ({side.iterations})" for side in (realm, crowdkit)),
        *(f"{accuracy(side, truth):.4f}" for side in (realm, crowdkit)),
    ]


def large(scale: float) -> list[list[Any]]:
    """Ours alone: the estimators over arrays in one process, the default on a table of annotations in another."""
    size = scaled(LARGE, scale), 40_000
    truth = simulated(*size).truth
    requests: list[tuple[str, list[tuple[str, int | None]]]]
    requests = [("realm", list(LARGE_ITERATIONS.items())), ("default", [("realm (default)", None)])]
    rows = []
    for side, methods in requests:
        with sides(serve, (side,), size) as pipes:
            for method, iterations in methods:
                result = ask(pipes[side], method, iterations)
                gigabytes = result.peak / 2**30
                assert gigabytes < MEMORY_LIMIT, f"{method}: {gigabytes:.2f} GB; the limit is {MEMORY_LIMIT}"
                row = [method, result.iterations, f"{result.seconds:.1f}", f"{result.processor_seconds:.1f}"]
                rows.append([*row, f"{gigabytes:.2f}", f"{accuracy(result, truth):.4f}"])
    return rows


def scaled(count: int, scale: float) -> int:
    return max(int(count * scale) // 5 * 5, 500)


def main(scale: float = 1.0) -> None:
    """Print the three tables; fail where a target is missed or the two sides did not do the same work."""
    columns = ["method", "annotations", "iterations", "realm, s", "crowd-kit, s", "faster", "target"]
    columns += ["accuracy, realm", "accuracy, crowd-kit", "peak, realm, MB", "peak, crowd-kit, MB"]
    show("Equal fixed iterations, medians", columns, [compare(case, scale) for case in CASES])
    columns = ["method", "annotations", "realm, s (iterations)", "crowd-kit, s (iterations)"]
    columns += ["accuracy, realm", "accuracy, crowd-kit"]
    rows = [converge(method, scaled(n, scale), max(int(a * scale), 20)) for method, n, a in TO_CONVERGENCE]
    show("To convergence, each by its own stopping rule", columns, rows)
    columns = ["method", "iterations", "s", "processor, s", "peak, GB", "accuracy"]
    show(f"{scaled(LARGE, scale):,} annotations, 40,000 annotators, realm alone", columns, large(scale))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the annotations to run on")
    main(parser.parse_args().scale)
