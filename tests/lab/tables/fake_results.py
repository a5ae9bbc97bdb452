"""Results files without training: every cell of a spec with accuracies that a function returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from realm.lab.benchmark_cells import simulated_pool
from realm.lab.spec import Spec, expand, load_spec

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.comparison.training import CellResult

ITEMS = 100


def write_spec(folder: Path, text: str) -> Spec:
    path = folder / "made.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(path)


def fill(path: Path, spec: Spec, accuracy: Callable[[Cell], float | None]) -> Results:
    """A results file with the cells of a spec; those whose accuracy is None are left out."""
    results = Results.open(path, create=True)
    results._connection.execute("PRAGMA synchronous = OFF")  # what is made up need not survive a power cut
    for cell in expand(spec):
        share = accuracy(cell)
        if share is not None:
            results.add(fake_result(cell, share))
    return results


def fake_result(cell: Cell, accuracy: float) -> CellResult:
    """A finished cell: the first items are answered rightly, and expertise is what the accuracies imply at K = 4."""
    right = round(accuracy * ITEMS)
    gold = np.zeros(ITEMS, dtype=np.int32)
    labels = (np.arange(ITEMS) >= right).astype(np.int32)
    tasks = cell.data.benchmark.split("+")
    figures = {"accuracy": right / ITEMS} | {f"accuracy/{task}": right / ITEMS for task in tasks if len(tasks) > 1}
    expertise, trajectory = [], {}
    if cell.method == "realm" and cell.data.noise is not None:
        asked = simulated_pool(cell.data.pool or "", len(tasks), len(tasks))
        trained = np.clip((asked - 0.25) / 0.75, 0.01, 1.0)
        expertise = [
            {
                "annotator": f"a{annotator + 1}", "task": task, "annotations": 50,
                "pool_accuracy": float(asked[annotator, m]),
                "true_accuracy": float(asked[annotator, m]), "expertise_trained": float(trained[annotator, m]),
                "expertise": float(trained[annotator, m]), "accuracy": float(0.25 + 0.75 * trained[annotator, m]),
            }
            for annotator in range(len(asked))
            for m, task in enumerate(tasks)
        ]  # fmt: skip
        figures |= {"pool_spearman_trained": 0.8, "pool_spearman_trained_max": 0.9, "pool_spearman": 0.85}
        points = [[step, (0.5 + (trained - 0.5) * step / cell.steps).tolist()] for step in (0, cell.steps)]
        trajectory = {"annotators": [f"a{i + 1}" for i in range(len(asked))], "tasks": tasks, "points": points}
    curve = [[0, 0.25], [cell.steps // 2, accuracy / 2 + 0.1], [cell.steps, right / ITEMS]] if cell.curve else []
    return CellResult(
        cell=cell, selected_settings={}, metrics=figures, config={"versions": {}}, data="made-up", weights="made-up",
        seconds=1.0, finished_at="2026-01-01T00:00:00", expertise=expertise, curve=curve, trajectory=trajectory,
        labels=labels, gold=gold,
    )  # fmt: skip
