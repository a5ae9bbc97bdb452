"""What the pool of a cell says: accuracies of simulated annotators, or which of a benchmark's own to keep."""

from __future__ import annotations

import numpy as np

from realm.compare.simulation import POOLS, Floats, read_pool, task_matrix
from realm.errors import RealmError


def simulated_pool(pool: str, benchmarks: int, tasks: int) -> Floats:
    """Accuracies (annotators, tasks). Over several benchmarks D1, D2 and D3 are the paper's annotator x task matrices.

    Example:
        >>> simulated_pool("D1", benchmarks=3, tasks=3).tolist()
        [[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]]
    """
    if benchmarks > 1 and pool in POOLS:
        return task_matrix(pool, tasks)
    return np.repeat(np.array(read_pool(pool))[:, None], tasks, axis=1)


def own_pool(pool: str) -> tuple[int, int | None]:
    """m of `contrast:m` (0 for `all`) and how many annotations an annotator must have (`contrast:m:least`)."""
    name, *sizes = pool.split(":")
    if pool == "all":
        return 0, None
    if name == "contrast" and 1 <= len(sizes) <= 2 and all(size.isdigit() and int(size) for size in sizes):
        return int(sizes[0]), int(sizes[1]) if len(sizes) == 2 else None
    raise RealmError(
        f"pool {pool}: of a benchmark's own annotators `all`, `contrast:20`, or `contrast:20:10` (those with 10 "
        "annotations or more). With `noise` it may be D1, D2, D3, graded:N, one-reliable:N or accuracies."
    )
