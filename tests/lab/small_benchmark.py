"""A small benchmark in the plain form, specs over it, and finished cells without training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.comparison.training import CellResult
from realm_lab.cells import _accuracies
from realm_lab.specs import Spec, expand, load_spec
from tests.tiny import COLOURS, sentences

ITEMS = 100
USUAL = {"model": "m", "benchmark": "obqa", "noise": "uniform", "pool": "D1", "regime": "sparse", "method": "realm",
         "seeds": 2, "steps": 20}  # fmt: skip


def write_questions(folder: Path, name: str = "obqa", train: int = 60, test: int = 40, labels: int = 4) -> Path:
    """`FOLDER/NAME/train.jsonl` and `test.jsonl`: sentences that ask for the colour they name."""
    place = folder / name
    place.mkdir(parents=True)
    for seed, (split, size) in enumerate((("train", train), ("test", test))):
        texts, truth = sentences(size, seed=len(name) + seed, labels=labels)
        rows = [
            {"id": f"{name}-{split}-{i}", "question": text, "choices": COLOURS[:labels], "answer": int(label)}
            for i, (text, label) in enumerate(zip(texts, truth, strict=True))
        ]
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_spec(folder: Path, **keys: Any) -> Spec:
    """A spec with the usual keys, these in their place; None leaves one out."""
    content = {key: value for key, value in {**USUAL, **keys}.items() if value is not None}
    path = folder / "made.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_spec(path)


def fill(folder: Path, spec: Spec, accuracy: Callable[[Cell], float | None]) -> Results:
    """Results with the cells of a spec; those whose accuracy is None are left out."""
    results = Results(folder)
    folder.mkdir(exist_ok=True)
    for cell in expand(spec):
        if (share := accuracy(cell)) is not None:
            results.add(fake_result(cell, share))
    return results


def fake_result(cell: Cell, accuracy: float) -> CellResult:
    """A finished cell: the first items are answered rightly, and expertise is what the accuracies imply at K = 4."""
    right, tasks = round(accuracy * ITEMS), cell.data.benchmark.split("+")
    gold = np.arange(ITEMS) % 4
    answers = {"label": np.where(np.arange(ITEMS) < right, gold, (gold + 1) % 4), "gold": gold}
    tables = {"answers": pd.DataFrame({**answers, "gold_log_prob": -0.5})}
    figures = {"accuracy": right / ITEMS} | {f"accuracy/{task}": right / ITEMS for task in tasks if len(tasks) > 1}
    if cell.method == "realm" and cell.data.noise is not None:
        asked = _accuracies(cell.data.pool or "", len(tasks), len(tasks))
        trained = np.clip((asked - 0.25) / 0.75, 0.01, 1.0)
        pairs = [(i, m) for i in range(len(asked)) for m in range(len(tasks))]
        about = pd.DataFrame([{"annotator": f"a{i + 1}", "task": tasks[m]} for i, m in pairs])
        values = np.array([[asked[pair], trained[pair]] for pair in pairs])
        tables["expertise"] = about.assign(
            annotations=50, pool_accuracy=values[:, 0], true_accuracy=values[:, 0], expertise_trained=values[:, 1],
            expertise=values[:, 1], accuracy=0.25 + 0.75 * values[:, 1],
        )  # fmt: skip
        figures |= {"pool_spearman_trained": 0.8, "pool_spearman_trained_max": 0.9, "pool_spearman": 0.85}
    if cell.curve:
        points = [(0, 0.25), (cell.steps // 2, accuracy / 2 + 0.1), (cell.steps, right / ITEMS)]
        tables["curve"] = pd.DataFrame(points, columns=["step", "accuracy"])
    return CellResult(cell, figures, {"versions": {}}, "made-up", "made-up", 1.0, "2026-01-01T00:00:00", tables)
