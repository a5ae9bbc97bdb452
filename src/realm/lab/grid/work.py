"""Running one cell: its tables, its training, and everything worth keeping of it as plain values."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from realm.channels import UniformChannel
from realm.compare.fitting import (
    ENOUGH,
    gold_counts,
    held_out_split,
    quiet_trainer,
    rank_correlation,
    spearman_with_gold,
    trial_score,
)
from realm.compare.simulation import Floats, realised_accuracies
from realm.crowd.estimate import estimate
from realm.data import Annotations, Task
from realm.lab.grid.cell import Cell
from realm.lab.grid.data import Material, data_fingerprint, instruction, material
from realm.lab.grid.settings import SCALAR
from realm.metrics import evaluate
from realm.models.fingerprint import model_fingerprint
from realm.training import RealmConfig, RealmTrainer
from realm.training.run_output import describe

LIKELIHOOD = "held_out_likelihood"
LOGGED = 50
"""How many points of the expertise's way are kept, about."""


@dataclass(frozen=True)
class Job:
    """A cell to run, the settings that trials chose for it, and the folder its benchmark lies in."""

    cell: Cell
    chosen: Mapping[str, Any] = field(default_factory=dict)
    data: Path | None = None


@dataclass(frozen=True)
class CellResult:
    """What a cell came to. Everything but the labels is plain values that JSON holds.

    | field | meaning |
    |---|---|
    | figures | accuracy and its kin on the test items, `accuracy/TASK`, rank correlations; a trial's likelihood |
    | expertise | one record per annotator and task: what was asked, realised, learned and re-estimated |
    | curve | [step, accuracy] |
    | trajectory | names of `annotators` and `tasks`, and `points`: [step, expertise (annotators, tasks) as trained] |
    | data, weights | fingerprints of the benchmark and of the model that the training began with |
    | labels, gold | (test items,) the answer and the true label |
    """

    cell: Cell
    chosen: Mapping[str, Any]
    figures: dict[str, Any]
    config: dict[str, Any]
    data: str
    weights: str
    seconds: float
    finished_at: str
    expertise: list[dict[str, Any]] = field(default_factory=list)
    curve: list[list[float]] = field(default_factory=list)
    trajectory: dict[str, Any] = field(default_factory=dict)
    labels: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    gold: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))


def run_job(job: Job) -> CellResult:
    """Train and score a cell."""
    began = time.monotonic()
    cell = job.cell.with_chosen(job.chosen)
    found = material(cell, job.data)
    with tempfile.TemporaryDirectory(prefix="realm-cell-") as folder:
        config = cell_config(cell, Path(folder), instruction(cell, job.data))
        kept = _run_trial(cell, found, config) if cell.trial else _run_cell(cell, found, config)
    return CellResult(
        cell=job.cell,
        chosen=dict(job.chosen),
        data=data_fingerprint(cell.benchmark, job.data),
        weights=model_fingerprint(cell.model),
        seconds=time.monotonic() - began,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        **kept,
    )


def cell_config(cell: Cell, folder: Path, instruction: str | None = None) -> RealmConfig:
    """The settings of a cell's training: those of `RealmConfig` where the cell does not say otherwise."""
    settings: dict[str, Any] = {
        "instruction": instruction,
        "logging_steps": max(cell.steps // LOGGED, 1),
        **{name: value for name, value in cell.settings.items() if name != "expertise"},
        "method": cell.method,
        "seed": cell.seed,
        "max_steps": cell.steps,
        "write_run": False,
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": not (torch.cuda.is_available() or torch.backends.mps.is_available()),
    }
    if cell.curve:
        settings |= {"eval_strategy": "steps", "eval_steps": cell.curve, "eval_on_start": True}
    return RealmConfig(str(folder), **settings)


def _trainer(cell: Cell, table: Annotations, config: RealmConfig, test: Annotations | None = None) -> RealmTrainer:
    channel = None
    if cell.settings.get("expertise") == SCALAR and cell.method == "realm":
        channel = UniformChannel.from_annotations(table, start=config.expertise_start, shared_tasks=True)
    return quiet_trainer(cell.model, table, config, test, channel)


def _described(trainer: RealmTrainer) -> dict[str, Any]:
    """Every setting, the size of the data, versions, and what there was to warn of."""
    return {**describe(trainer).as_dict(), "warnings": trainer.warnings}


# -------------------------------------------------------------------- a trial


def _run_trial(cell: Cell, found: Material, config: RealmConfig) -> dict[str, Any]:
    kept, held_out = held_out_split(found.table)
    trainer = _trainer(cell, kept, config)
    trainer.train()
    likelihood = trial_score(trainer, found.table, held_out)
    return {"figures": {LIKELIHOOD: likelihood}, "config": _described(trainer)}


# -------------------------------------------------------------------- a cell


def _run_cell(cell: Cell, found: Material, config: RealmConfig) -> dict[str, Any]:
    trainer = _trainer(cell, found.table, config, found.test)
    trainer.train()
    scores = trainer.test_scores()
    test = found.test
    assert test.gold is not None
    report = evaluate(test, scores)
    tasks = report.pop("tasks", {})
    figures = {"n_test": report.pop("items"), **report}
    figures |= {f"accuracy/{name}": part["accuracy"] for name, part in tasks.items()}
    kept: dict[str, Any] = {}
    if trainer.channel is not None:
        learned, ranks = _expertise(cell, found, trainer)
        figures |= ranks
        kept = {"expertise": learned, "trajectory": _trajectory(cell, trainer)}
    if cell.curve:
        kept["curve"] = _curve(trainer, figures["accuracy"])
    return {
        **kept,
        "figures": figures,
        "config": _described(trainer),
        "labels": scores.labels.astype(np.uint8),
        "gold": test.gold.astype(np.uint8),
    }


def _curve(trainer: RealmTrainer, last: float) -> list[list[float]]:
    points = {entry["step"]: entry["eval_accuracy"] for entry in trainer.state.log_history if "eval_accuracy" in entry}
    points[trainer.state.global_step] = last
    return [[step, accuracy] for step, accuracy in sorted(points.items())]


def _trajectory(cell: Cell, trainer: RealmTrainer) -> dict[str, Any]:
    tasks = [task.name for task in trainer.annotations.tasks]
    points = [[step, summary["expertise_trained"].round(5).tolist()] for step, summary in trainer.trajectory()]
    return {"annotators": list(trainer.annotations.annotators), "tasks": tasks, "points": points}


def _expertise(cell: Cell, found: Material, trainer: RealmTrainer) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One record per annotator and task, and how learned expertise ranks the annotators."""
    table, asked = found.table, found.asked
    assert trainer.channel is not None
    tasks = len(table.tasks)
    trained = trainer.channel.summary()["expertise_trained"]
    judged = _as_one_task(trainer.annotations) if cell.settings.get("expertise") == SCALAR else trainer.annotations
    again = estimate(judged, trainer.scores().log_probs)
    beta, accuracy = (np.broadcast_to(values, trained.shape) for values in (again.expertise, again.accuracy))
    counts = np.bincount(
        table.annotator.astype(np.int64) * tasks + table.item_tasks[table.item], minlength=trained.size
    ).reshape(trained.shape)
    realised = realised_accuracies(table) if table.gold is not None else np.full(trained.shape, np.nan)
    records = [
        {
            "annotator": name,
            "task": table.tasks[task].name,
            "annotations": int(counts[person, task]),
            "asked_accuracy": None if asked is None else float(asked[person, task]),
            "true_accuracy": _plain(realised[person, task]),
            "expertise_trained": float(trained[person, task]),
            "expertise": _plain(beta[person, task]),
            "accuracy": _plain(accuracy[person, task]),
        }
        for person, name in enumerate(table.annotators)
        for task in range(tasks)
        if counts[person, task]
    ]
    return records, _ranks(table, asked, trained, beta) if table.gold is not None else {}


def _ranks(table: Annotations, asked: Floats | None, trained: Floats, beta: Floats) -> dict[str, Any]:
    """Spearman of expertise as trained and as re-estimated with realised accuracy, and with the accuracy asked for.

    `_max` is the most that ties among the accuracies leave room for.
    """
    found: dict[str, Any] = {}
    found["spearman"], found["spearman_max"] = spearman_with_gold(table, beta)
    found["spearman_trained"], found["spearman_trained_max"] = spearman_with_gold(table, trained)
    if asked is not None:
        enough = gold_counts(table) >= ENOUGH
        for name, learned in (("asked_spearman", beta), ("asked_spearman_trained", trained)):
            found[name], found[f"{name}_max"] = rank_correlation(asked[enough], learned[enough])
    return found


def _as_one_task(table: Annotations) -> Annotations:
    """The same annotations with one task over all items, each with its own options: one number per annotator."""
    import pyarrow as pa

    options = [table.options_of(item) for item in range(table.n_items)]
    items = replace(
        table.items,
        tasks=(Task("all", None),),
        item_tasks=np.zeros(table.n_items, dtype=np.int32),
        options=pa.array(options, pa.large_list(pa.large_string())),
    )
    return replace(table, items=items)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
