"""Training one cell: its tables, its training, and everything worth recording of it as plain values and tables."""

from __future__ import annotations

import json
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
import pandas as pd
import torch
from transformers.trainer_callback import PrinterCallback

from realm.channels import Channel, ItemScores, Observed, channel_class
from realm.comparison.cells import LIKELIHOOD, Cell, CellTables, cell_config
from realm.comparison.simulation import ranked_pairs, realised_accuracies
from realm.crowd.engine import log_softmax
from realm.crowd.temperature import fit_temperature
from realm.data import Annotations
from realm.errors import RealmError
from realm.files import without_home
from realm.metrics import METRICS, evaluate, gold_items
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress
from realm.scorers import Scorer
from realm.scorers.scoring import Scores, score
from realm.training import RealmConfig, RealmTrainer
from realm.training.findings import few_steps
from realm.training.labels import training_labels

HELD_OUT = 0.1
"""Share of the items that a trial is scored on: a tenth, as usual for a validation set."""
OPINION_STEPS = 40
OPINION: dict[str, Any] = {"learning_rate": 1e-3, "gradient_accumulation_steps": 1}
"""Of the fit to the few gold items of an opinion: one batch a step, enough to fit a new head to 24 items."""
EXPERTISE = ("annotator", "task", "annotations", "expertise", "accuracy", "low", "high", "verdict")
"""What is kept of the trainer's own table of annotators."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CellResult:
    """The result of a cell.

    | field | meaning |
    |---|---|
    | metrics | those of `realm.metrics`, each also as `METRIC/TASK`, and rank correlations; of a trial its score |
    | config | every setting, sizes of the data, versions, warnings |
    | data, weights | fingerprints of the data and of the model that the training began with |
    | tables | `answers`: label, gold, gold_log_prob of each test item with gold; `expertise`: a row per annotator and \
task; `trajectory`: step, annotator, task, expertise as trained; `curve`: step and the metrics then |
    """

    cell: Cell
    selected_settings: Mapping[str, Any]
    metrics: dict[str, Any]
    config: dict[str, Any]
    data: str
    weights: str
    seconds: float
    finished_at: str
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Everything but the tables, as JSON holds it: the content of the cell stands for the cell."""
        names = ("metrics", "config", "data", "weights", "seconds", "finished_at")
        plain = {"selected_settings": dict(self.selected_settings)} | {name: getattr(self, name) for name in names}
        return {"id": self.cell.id, "content": json.loads(self.cell.content), **plain}


def train_cell(
    cell: Cell,
    selected_settings: Mapping[str, Any] | None = None,
    *,
    run: Path | None = None,
    progress: Progress = ignore_progress,
) -> CellResult:
    """Train and score a cell with the settings that its trials selected.

    `run` is a folder that the whole run is written to; `progress` is called with how far the training is.
    """
    start, settings = time.monotonic(), dict(selected_settings or {})
    trained = cell.with_settings(settings)
    tables = cell.data.load(cell.method, cell.seed)
    with tempfile.TemporaryDirectory(prefix="realm-cell-") as temporary:
        config = cell_config(trained, Path(temporary), tables.instruction)
        if run is not None:
            config = replace(config, output_dir=str(run), write_run=True, overwrite=True)
        outcome = (_train_trial if cell.trial else _train_and_score)(trained, tables, config, progress)
    return CellResult(
        cell=cell,
        selected_settings=settings,
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
    trainer = RealmTrainer(model, table, config, test=test, channel=channel, progress=progress)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _trainer(
    cell: Cell,
    tables: CellTables,
    table: Annotations,
    config: RealmConfig,
    test: Annotations | None,
    progress: Progress,
) -> RealmTrainer:
    """The trainer of a cell on `table`, a part of its tables, from a model that has its opinion."""
    channel = None if tables.channel is None else tables.channel.from_annotations(table)
    if cell.shared_tasks:
        kind = channel_class("uniform" if config.channel == "confusion" else config.channel)
        channel = kind.from_annotations(table, start=config.expertise_start, shared_tasks=True)
    model = cell.model if tables.gold_apart is None else _with_opinion(cell, tables.gold_apart, config)
    return quiet_trainer(model, table, config, test, channel, progress)


def _with_opinion(cell: Cell, gold: Annotations, config: RealmConfig) -> Scorer:
    """The model fitted to a few gold items, as a language model that has read about such labels before.

    A new head knows nothing, and two labels are then told apart by the annotators alone, right or inverted.
    """
    fit = replace(cell, method="oracle", steps=OPINION_STEPS, settings={**cell.settings, **OPINION}, curve=None)
    trainer = quiet_trainer(cell.model, gold, cell_config(fit, Path(config.output_dir), config.instruction))
    trainer.train()
    trainer.scorer.new_head = False
    return trainer.scorer


def _description(cell: Cell, trainer: RealmTrainer) -> dict[str, Any]:
    """Every setting, the size of the data, versions and warnings."""
    table, folder = trainer.annotations, getattr(cell.data, "folder", None)
    short = few_steps(trainer.state.global_step)
    return {
        "model": cell.model,
        **({} if folder is None else {"data_folder": without_home(str(folder))}),
        "settings": trainer.args.settings(),
        "gold_used": trainer.args.reads_gold,
        "items": table.n_items,
        "annotators": table.n_annotators,
        "annotations": table.n_annotations,
        "versions": {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")},
        "warnings": [*trainer.warnings, *([] if short is None else [short])],
    }


# -------------------------------------------------------------------- a trial


def _train_trial(cell: Cell, tables: CellTables, config: RealmConfig, progress: Progress) -> dict[str, Any]:
    train, held_out = tables.annotations.split(HELD_OUT, seed=0)
    trainer = _trainer(cell, tables, train, config, None, progress)
    trainer.train()
    labels = training_labels(tables.annotations, cell.method).annotations
    rows = {item: row for row, item in enumerate(_items(tables.annotations))}
    part = labels.take_items(np.array([rows[item] for item in _items(held_out)], dtype=np.int64))
    return {
        "metrics": {LIKELIHOOD: held_out_likelihood(trainer, held_out, part)},
        "config": _description(cell, trainer),
    }


def _items(table: Annotations) -> list[tuple[str, int]]:
    return list(zip(table.item_ids.to_pylist(), table.item_tasks.tolist(), strict=True))


def held_out_likelihood(trainer: RealmTrainer, held_out: Annotations, labels: Annotations) -> float:
    """Mean log-likelihood of the labels of items that were not trained on, by the objective of the training itself."""
    if not labels.n_annotations:
        raise RealmError("settings cannot be chosen: the held-out items have no labels. Give the settings instead.")
    model, observed = trainer.model, Observed.of(labels)
    log_probs = torch.from_numpy(score(trainer.scorer, trainer.scorer.encode(held_out.items)).log_probs).float()
    counts = torch.from_numpy(held_out.option_counts.astype(np.int64))
    model.channel.eval().cpu()
    with torch.no_grad():
        likelihood = model.log_likelihood(ItemScores(log_probs, counts), observed).double().sum()
    return float(likelihood / model.objective.count(observed.item, observed.weight))


# -------------------------------------------------------------------- a cell


def _train_and_score(cell: Cell, tables: CellTables, config: RealmConfig, progress: Progress) -> dict[str, Any]:
    test = tables.test
    trainer = _trainer(cell, tables, tables.annotations, config, test, progress)
    trainer.train()
    scores, rows = calibrated(trainer, trainer.test_scores()), gold_items(test)
    assert test.gold is not None
    report, gold = evaluate(test, scores), test.gold[rows]
    names = [name for name in METRICS if name in report]
    metrics = {"n_test": report["items"], **{name: report[name] for name in names}}
    metrics |= {f"{name}/{task}": part[name] for task, part in report.get("tasks", {}).items() for name in names}
    answers = {"label": scores.labels[rows], "gold": gold, "gold_log_prob": scores.log_probs[rows, gold]}
    frames = {"answers": pd.DataFrame(answers).astype({"label": "int32", "gold": "int32", "gold_log_prob": "float32"})}
    if trainer.channel is not None:
        frames["expertise"], ranks = _expertise(cell, tables, trainer)
        frames["trajectory"] = _trajectory(trainer)
        metrics |= ranks
    if cell.curve:
        frames["curve"] = _curve(trainer, metrics)
    return {"metrics": metrics, "config": _description(cell, trainer), "tables": frames}


def calibrated(trainer: RealmTrainer, scores: Scores) -> Scores:
    """The scores at one temperature, found for every method in the same way.

    It is the one at which the model's P of the training items best explains the annotators' labels, by the model of
    annotators that stands behind its estimates; where there are only gold labels, best explains these. What the trainer
    has calibrated itself is left as it is.
    """
    table = trainer.annotations
    if table.n_annotations:
        _, best, _ = trainer.report_model()
        temperature = best / trainer.temperature
    else:
        log_probs, gold = trainer.out_of_sample(), table.gold
        assert gold is not None
        known = np.flatnonzero(gold >= 0)
        temperature = fit_temperature(log_probs[known], np.eye(log_probs.shape[1])[gold[known]])
    return replace(scores, log_probs=log_softmax(scores.log_probs / temperature))


def _curve(trainer: RealmTrainer, last: Mapping[str, Any]) -> pd.DataFrame:
    """The metrics of each evaluation in training; of the last step those of the finished model."""
    logs = [entry for entry in trainer.state.log_history if "eval_accuracy" in entry]
    names = [name for name in METRICS if any(f"eval_{name}" in entry for entry in logs)]
    points = {entry["step"]: {name: entry.get(f"eval_{name}") for name in names} for entry in logs}
    points[trainer.state.global_step] = {name: last.get(name) for name in names}
    return pd.DataFrame([{"step": step, **figures} for step, figures in sorted(points.items())])


def _trajectory(trainer: RealmTrainer) -> pd.DataFrame:
    table = trainer.annotations
    tasks = [task.name for task in table.tasks]
    pairs = pd.MultiIndex.from_product([table.annotators, tasks], names=["annotator", "task"]).to_frame(index=False)
    points = [
        pairs.assign(step=step, expertise=np.asarray(summary["expertise_trained"], np.float64).ravel().round(5))
        for step, summary in trainer.trajectory()
    ]
    columns = ["step", "annotator", "task", "expertise"]
    return pd.concat(points, ignore_index=True)[columns] if points else pd.DataFrame(columns=columns)


def _expertise(cell: Cell, tables: CellTables, trainer: RealmTrainer) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A row per annotator and task with annotations, and how learned expertise ranks the annotators."""
    table, pool = tables.annotations, tables.accuracies
    assert trainer.channel is not None
    frame = trainer.expertise()[list(EXPERTISE)]
    annotators = pd.Index(table.annotators).get_indexer(pd.Index(frame["annotator"]))
    tasks = pd.Index([task.name for task in table.tasks]).get_indexer(pd.Index(frame["task"]))
    order = np.lexsort((tasks, annotators))
    frame, pair = frame.iloc[order].reset_index(drop=True), (annotators[order], tasks[order])
    frame["expertise_trained"] = trainer.channel.summary()["expertise_trained"][pair]
    if cell.shared_tasks:
        frame["expertise"] = frame["expertise_trained"]
    frame["pool_accuracy"] = np.nan if pool is None else pool[pair]
    frame["true_accuracy"] = np.nan if table.gold is None else realised_accuracies(table)[pair]
    # Expertise that was estimated on gold agrees with it, which shows nothing.
    if table.gold is None or trainer.args.use_gold:
        return frame, {}
    ranked, ranks = frame[ranked_pairs(table)[pair]], dict[str, Any]()
    for prefix, truth in (("", "true_accuracy"), ("pool_", "pool_accuracy")):
        if truth == "true_accuracy" or pool is not None:
            for name, learned in (("spearman", "expertise"), ("spearman_trained", "expertise_trained")):
                rho, most = rank_correlation(ranked[truth], ranked[learned])
                ranks |= {f"{prefix}{name}": rho, f"{prefix}{name}_max": most}
    return frame, ranks


def rank_correlation(truth: npt.ArrayLike, estimates: npt.ArrayLike) -> tuple[float, float] | tuple[None, None]:
    """Spearman's correlation of estimates with the truth, and the greatest value that ties in the truth allow.

    Both of shape (annotators,). None where there are fewer than three (two are always in perfect or reverse order), or
    either is constant.

    Examples:
        >>> rank_correlation([0.9, 0.1, 0.1], [0.8, 0.3, 0.2])[1].__round__(3)
        0.866
    """
    from scipy.stats import spearmanr

    truth, estimates = np.asarray(truth, dtype=np.float64), np.asarray(estimates, dtype=np.float64)
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(estimates) == 0:
        return None, None
    ranks = np.empty(len(truth))
    ranks[np.argsort(truth, kind="stable")] = np.arange(len(truth))
    return float(spearmanr(truth, estimates).statistic), float(spearmanr(truth, ranks).statistic)
