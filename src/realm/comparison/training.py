"""Training one cell: its tables, its training, and everything worth recording of it as plain values."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.channels import Channel, ItemScores, Observed, channel_class
from realm.comparison.cells import LIKELIHOOD, Cell, CellTables, cell_config
from realm.comparison.shared_scorer import shared_scorer
from realm.comparison.significance import rank_correlation
from realm.comparison.simulation import Floats, ranked_pairs, realised_accuracies
from realm.crowd.estimate import estimate
from realm.data import Annotations, Task
from realm.errors import RealmError
from realm.files import without_home
from realm.metrics import METRICS, evaluate, gold_items
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress
from realm.scorers import Scorer
from realm.scorers.scoring import score
from realm.training import RealmConfig, RealmTrainer
from realm.training.labels import training_labels

HELD_OUT = 0.1
"""Share of the items that a trial is scored on: a tenth, as usual for a validation set."""
OPINION_STEPS = 40
OPINION: dict[str, Any] = {"learning_rate": 1e-3, "gradient_accumulation_steps": 1}
"""Of the fit to the few gold items of an opinion: one batch a step, enough to fit a new head to 24 items."""
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Job:
    """A cell to train, and the settings that trials selected for it."""

    cell: Cell
    selected_settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. Everything but the labels is plain values that JSON holds.

    | field | meaning |
    |---|---|
    | metrics | those of `realm.metrics`, each also as `METRIC/TASK`, and rank correlations; of a trial its score |
    | expertise | one record per annotator and task, with the fields `EXPERTISE_COLUMNS` |
    | curve | [step, accuracy] |
    | trajectory | names of `annotators` and `tasks`, and `points`: [step, expertise (annotators, tasks) as trained] |
    | config | every setting, sizes of the data, versions, warnings |
    | data, weights | fingerprints of the data and of the model that the training began with |
    | labels, gold | (test items with gold,) the answer and the true label |
    | gold_log_probs | (test items with gold,) log-probability of the true label |
    """

    cell: Cell
    selected_settings: Mapping[str, Any]
    metrics: dict[str, Any]
    config: dict[str, Any]
    data: str
    weights: str
    seconds: float
    finished_at: str
    expertise: list[dict[str, Any]] = field(default_factory=list)
    curve: list[list[float]] = field(default_factory=list)
    trajectory: dict[str, Any] = field(default_factory=dict)
    labels: Labels = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    gold: Labels = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    gold_log_probs: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


def train_cell(job: Job, progress: Progress = ignore_progress) -> CellResult:
    """Train and score a cell. `progress` is called with how far its training is."""
    start = time.monotonic()
    cell = job.cell.with_settings(job.selected_settings)
    tables = cell.data.load(cell.method, cell.seed)
    with tempfile.TemporaryDirectory(prefix="realm-cell-") as folder:
        config = cell_config(cell, Path(folder), tables.instruction)
        outcome = (_train_trial if cell.trial else _train_and_score)(cell, tables, config, progress)
    return CellResult(
        cell=job.cell,
        selected_settings=dict(job.selected_settings),
        data=cell.data.fingerprint(),
        weights=model_fingerprint(cell.model),
        seconds=time.monotonic() - start,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        **outcome,
    )


def quiet_trainer(
    model: str | Scorer,
    table: Annotations,
    config: RealmConfig,
    test: Annotations | None = None,
    channel: Channel | None = None,
    progress: Progress = ignore_progress,
) -> RealmTrainer:
    """A trainer that prints nothing."""
    from transformers.trainer_callback import PrinterCallback

    trainer = RealmTrainer(model, table, config, test=test, channel=channel, progress=progress)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _trainer(
    cell: Cell,
    tables: CellTables,
    table: Annotations,
    config: RealmConfig,
    test: Annotations | None = None,
    progress: Progress = ignore_progress,
) -> RealmTrainer:
    """The trainer of a cell on `table`, a part of its tables, from a model that has its opinion."""
    channel = None
    if cell.shared_tasks:
        kind = channel_class("uniform" if config.channel == "confusion" else config.channel)
        channel = kind.from_annotations(table, start=config.expertise_start, shared_tasks=True)
    model = shared_scorer(cell.model, table.items, config) or cell.model
    if tables.gold_apart is not None:
        model = _with_opinion(model, cell, tables.gold_apart, config)
    return quiet_trainer(model, table, config, test, channel, progress)


def _with_opinion(model: str | Scorer, cell: Cell, gold: Annotations, config: RealmConfig) -> Scorer:
    """The model fitted to a few gold items, as a language model that has read about such labels before.

    A new head knows nothing, and two labels are then told apart by the annotators alone, right or inverted.
    """
    fit = replace(cell, method="oracle", steps=OPINION_STEPS, settings={**cell.settings, **OPINION}, curve=None)
    trainer = quiet_trainer(model, gold, cell_config(fit, Path(config.output_dir), config.instruction))
    trainer.train()
    trainer.scorer.new_head = False
    return trainer.scorer


def _description(cell: Cell, trainer: RealmTrainer) -> dict[str, Any]:
    """Every setting, the size of the data, versions and warnings."""
    table, folder = trainer.annotations, getattr(cell.data, "folder", None)
    return {
        "model": cell.model,
        **({} if folder is None else {"data_folder": without_home(str(folder))}),
        "settings": trainer.args.settings(),
        "gold_used": trainer.args.reads_gold,
        "items": table.n_items,
        "annotators": table.n_annotators,
        "annotations": table.n_annotations,
        "versions": {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")},
        "warnings": trainer.warnings,
    }


# -------------------------------------------------------------------- a trial


def _train_trial(cell: Cell, tables: CellTables, config: RealmConfig, progress: Progress) -> dict[str, Any]:
    train, held_out = tables.annotations.split(HELD_OUT, seed=0)
    trainer = _trainer(cell, tables, train, config, progress=progress)
    trainer.train()
    labels = training_labels(tables.annotations, cell.method).annotations
    rows = _item_rows(tables.annotations, held_out)
    likelihood = held_out_likelihood(trainer, held_out, labels.take_items(rows))
    return {"metrics": {LIKELIHOOD: likelihood}, "config": _description(cell, trainer)}


def held_out_likelihood(trainer: RealmTrainer, held_out: Annotations, labels: Annotations) -> float:
    """Mean log-likelihood of the labels of items that were not trained on, under model, channel and objective."""
    import torch

    if not labels.n_annotations:
        raise RealmError("settings cannot be chosen: the held-out items have no labels. Give the settings instead.")
    scores = score(trainer.scorer, trainer.scorer.encode(held_out.items))
    with torch.no_grad():
        channel = trainer.model.channel.eval().cpu()
        observed = Observed.of(labels)
        log_probs = torch.from_numpy(scores.log_probs).float()
        counts = torch.from_numpy(held_out.option_counts.astype(np.int64))
        evidence = channel(ItemScores(log_probs, counts), observed)
        objective = trainer.model.objective
        likelihood = objective.log_likelihood(log_probs, evidence, observed).double().sum()
    return float(likelihood / objective.count(observed.item, observed.weight))


def _item_rows(table: Annotations, part: Annotations) -> npt.NDArray[np.int64]:
    """The rows in `table` of the items of `part`."""
    rows = {item: row for row, item in enumerate(zip(table.item_ids.to_pylist(), table.item_tasks, strict=True))}
    return np.array([rows[item] for item in zip(part.item_ids.to_pylist(), part.item_tasks, strict=True)], np.int64)


# -------------------------------------------------------------------- a cell


def _train_and_score(cell: Cell, tables: CellTables, config: RealmConfig, progress: Progress) -> dict[str, Any]:
    test = tables.test
    trainer = _trainer(cell, tables, tables.annotations, config, test, progress)
    trainer.train()
    scores = trainer.test_scores()
    with_gold = gold_items(test)
    assert test.gold is not None
    report = evaluate(test, scores)
    names = [name for name in METRICS if name in report]
    metrics = {"n_test": report["items"], **{name: report[name] for name in names}}
    metrics |= {f"{name}/{task}": part[name] for task, part in report.get("tasks", {}).items() for name in names}
    outcome: dict[str, Any] = {}
    if trainer.channel is not None:
        outcome["expertise"], ranks = _expertise(cell, tables, trainer)
        outcome["trajectory"] = _trajectory(trainer)
        metrics |= ranks
    if cell.curve:
        outcome["curve"] = _curve(trainer, metrics["accuracy"])
    return {
        **outcome,
        "metrics": metrics,
        "config": _description(cell, trainer),
        "labels": scores.labels[with_gold].astype(np.int32),
        "gold": test.gold[with_gold].astype(np.int32),
        "gold_log_probs": scores.log_probs[with_gold, test.gold[with_gold]].astype(np.float32),
    }


def _curve(trainer: RealmTrainer, last: float) -> list[list[float]]:
    points = {entry["step"]: entry["eval_accuracy"] for entry in trainer.state.log_history if "eval_accuracy" in entry}
    points[trainer.state.global_step] = last
    return [[step, accuracy] for step, accuracy in sorted(points.items())]


def _trajectory(trainer: RealmTrainer) -> dict[str, Any]:
    tasks = [task.name for task in trainer.annotations.tasks]
    points = [[step, summary["expertise_trained"].round(5).tolist()] for step, summary in trainer.trajectory()]
    return {"annotators": list(trainer.annotations.annotators), "tasks": tasks, "points": points}


def _expertise(cell: Cell, tables: CellTables, trainer: RealmTrainer) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One record per annotator and task, and how learned expertise ranks the annotators."""
    table, pool = tables.annotations, tables.accuracies
    assert trainer.channel is not None
    trained = trainer.channel.summary()["expertise_trained"]
    estimates = (
        estimate(_as_one_task(trainer.annotations), np.exp(trainer.scores().log_probs))
        if cell.shared_tasks
        else trainer.estimate()
    )
    beta, accuracy = (np.broadcast_to(values, trained.shape) for values in (estimates.expertise, estimates.accuracy))
    counts = np.zeros(trained.shape, dtype=np.int64)
    np.add.at(counts, (table.annotator, table.item_tasks[table.item]), 1)
    nothing = np.full(trained.shape, np.nan)
    columns = {
        "pool_accuracy": nothing if pool is None else pool,
        "true_accuracy": nothing if table.gold is None else realised_accuracies(table),
        "expertise_trained": trained,
        "expertise": beta,
        "accuracy": accuracy,
    }
    records = [
        {"annotator": table.annotators[annotator], "task": table.tasks[task].name, "annotations": int(count)}
        | {name: _finite(values[annotator, task].item()) for name, values in columns.items()}
        for (annotator, task), count in np.ndenumerate(counts)
        if count
    ]
    # Expertise that was estimated on gold agrees with it, which shows nothing.
    if table.gold is None or trainer.args.use_gold:
        return records, {}
    return records, _ranks(table, pool, trained, beta)


def _ranks(table: Annotations, pool: Floats | None, trained: Floats, beta: Floats) -> dict[str, Any]:
    """Spearman of expertise as trained and as re-estimated with realised accuracy, and with that of the pool.

    `_max` is the greatest value that ties among the accuracies allow.
    """
    pairs = ranked_pairs(table)
    ranks: dict[str, Any] = {}
    for prefix, truth in (("", realised_accuracies(table)), ("pool_", pool)):
        if truth is not None:
            for name, expertise in (("spearman", beta), ("spearman_trained", trained)):
                ranks[prefix + name], ranks[f"{prefix}{name}_max"] = rank_correlation(truth[pairs], expertise[pairs])
    return ranks


def _as_one_task(table: Annotations) -> Annotations:
    """The same annotations with one task over all items, each with its own options: one number per annotator."""
    options = [table.options_of(item) for item in range(table.n_items)]
    items = replace(
        table.items,
        tasks=(Task("all", None),),
        item_tasks=np.zeros(table.n_items, dtype=np.int32),
        options=pa.array(options, pa.large_list(pa.large_string())),
    )
    return replace(table, items=items)


def _finite(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
