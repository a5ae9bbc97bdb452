"""Training one cell: its tables, its training, and everything worth recording of it as plain values and tables."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from transformers.trainer_callback import PrinterCallback

from realm.channels import Channel
from realm.comparison.cells import Cell, CellTables, cell_config
from realm.comparison.simulation import ranked_pairs, realised_accuracies
from realm.crowd.engine import log_softmax
from realm.crowd.temperature import fit_temperature
from realm.data import Annotations
from realm.files import without_home
from realm.metrics import METRICS, evaluate, gold_items
from realm.models.store import model_fingerprint
from realm.progress import Progress, ignore_progress, named
from realm.scorers import Scorer
from realm.scorers.scoring import Scores
from realm.training import RealmConfig, RealmTrainer
from realm.training.findings import few_steps

OPINION_STEPS = 40
OPINION: dict[str, Any] = {"learning_rate": 1e-3, "gradient_accumulation_steps": 1}
"""Of the fit to the few gold items of an opinion: one batch a step, enough to fit a new head to 24 items."""
EXPERTISE = ("annotator", "task", "annotations", "expertise", "accuracy", "low", "high", "verdict")
"""What is kept of the trainer's own table of annotators."""


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. `metrics` are those of `realm.metrics`, each also as `METRIC/TASK`, and rank correlations.

    | table | columns |
    |---|---|
    | answers | label, gold, gold_log_prob of each test item with gold |
    | expertise | of each annotator and task, as trained, as reported, against gold and as simulated |
    | curve | step and the metrics then |
    """

    cell: Cell
    metrics: dict[str, Any]
    config: dict[str, Any]  # every setting, sizes of the data, versions, warnings
    data: str  # fingerprints of the data, and of the model that the training began with
    weights: str
    seconds: float
    finished_at: str
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Everything but the tables, as JSON holds it: the content of the cell stands for the cell."""
        plain = {name: value for name, value in vars(self).items() if name not in ("cell", "tables")}
        return {"id": self.cell.id, "content": json.loads(self.cell.content), **plain}


def train_cell(cell: Cell, *, run: Path | None = None, progress: Progress = ignore_progress) -> CellResult:
    """Train and score a cell. `run` is a folder that the whole run is written to."""
    start, tables = time.monotonic(), cell.data.load(cell.method, cell.seed)
    logger = logging.getLogger("realm")
    level = logger.level
    logger.setLevel(logging.ERROR)  # warnings are part of the result
    try:
        with tempfile.TemporaryDirectory(prefix="realm-cell-") as temporary:
            config = cell_config(cell, Path(temporary), tables.instruction)
            if run is not None:
                config = replace(config, output_dir=str(run), write_run=True, overwrite=True)
            trainer = _trainer(cell, tables, config, named(progress, str(cell)))
            trainer.train()
            metrics, frames = _scored(cell, tables, trainer)
    finally:
        logger.setLevel(level)
    return CellResult(
        cell=cell,
        metrics=metrics,
        config=_description(cell, trainer),
        data=cell.data.fingerprint(),
        weights=model_fingerprint(cell.model),
        seconds=time.monotonic() - start,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        tables=frames,
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


def _trainer(cell: Cell, tables: CellTables, config: RealmConfig, progress: Progress) -> RealmTrainer:
    """The trainer of a cell. With gold apart, its model is fitted to that first, as a language model that has read
    about such labels before: a new head knows nothing, and two labels are then told apart by the annotators alone,
    right or inverted."""
    model: str | Scorer = cell.model
    if tables.gold_apart is not None:
        fit = replace(cell, method="oracle", steps=OPINION_STEPS, settings={**cell.settings, **OPINION}, curve=None)
        fit_config = cell_config(fit, Path(config.output_dir), config.instruction)
        fitted = quiet_trainer(cell.model, tables.gold_apart, fit_config)
        fitted.train()
        fitted.scorer.new_head = False
        model = fitted.scorer
    channel = None if tables.channel is None else tables.channel.from_annotations(tables.annotations)
    return quiet_trainer(model, tables.annotations, config, tables.test, channel, progress)


def _description(cell: Cell, trainer: RealmTrainer) -> dict[str, Any]:
    """Every setting, the size of the data, versions and warnings."""
    table, folder, short = trainer.annotations, getattr(cell.data, "folder", None), few_steps(trainer.state.global_step)
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


# -------------------------------------------------------------------- what is recorded


def _scored(cell: Cell, tables: CellTables, trainer: RealmTrainer) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """The metrics and tables of a trained cell."""
    test = tables.test
    scores, rows = calibrated(trainer, trainer.test_scores()), gold_items(test)
    assert test.gold is not None
    report, gold = evaluate(test, scores), test.gold[rows]
    names = [name for name in METRICS if name in report]
    metrics = {"n_test": report["items"], **{name: report[name] for name in names}}
    metrics |= {f"{name}/{task}": part[name] for task, part in report.get("tasks", {}).items() for name in names}
    answers = {"label": scores.labels[rows], "gold": gold, "gold_log_prob": scores.log_probs[rows, gold]}
    frames = {"answers": pd.DataFrame(answers).astype({"label": "int32", "gold": "int32", "gold_log_prob": "float32"})}
    if trainer.channel is not None:
        frames["expertise"], ranks = _expertise(tables, trainer)
        metrics |= ranks
    if cell.curve:
        logs = {entry["step"]: entry for entry in trainer.state.log_history if "eval_accuracy" in entry}
        points = {step: {name: entry.get(f"eval_{name}") for name in names} for step, entry in logs.items()}
        points[trainer.state.global_step] = {name: metrics[name] for name in names}  # as the finished model is scored
        frames["curve"] = pd.DataFrame([{"step": step, **figures} for step, figures in sorted(points.items())])
    return metrics, frames


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


def _expertise(tables: CellTables, trainer: RealmTrainer) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A row per annotator and task with annotations, and how learned expertise ranks the annotators."""
    table, pool = tables.annotations, tables.accuracies
    assert trainer.channel is not None
    frame = trainer.expertise()[list(EXPERTISE)]
    annotators = pd.Index(table.annotators).get_indexer(pd.Index(frame["annotator"]))
    tasks = pd.Index([task.name for task in table.tasks]).get_indexer(pd.Index(frame["task"]))
    order = np.lexsort((tasks, annotators))
    frame, pair = frame.iloc[order].reset_index(drop=True), (annotators[order], tasks[order])
    frame["expertise_trained"] = trainer.channel.summary()["expertise_trained"][pair]
    frame["pool_accuracy"] = np.nan if pool is None else pool[pair]
    frame["true_accuracy"] = np.nan if table.gold is None else realised_accuracies(table)[pair]
    # Expertise that was estimated on gold agrees with it, which shows nothing.
    if table.gold is None or trainer.args.use_gold:
        return frame, {}
    ranked, ranks = frame[ranked_pairs(table)[pair]], dict[str, Any]()
    for prefix, truth in (("", "true_accuracy"), *([] if pool is None else [("pool_", "pool_accuracy")])):
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
    order = np.argsort(np.argsort(truth, kind="stable"))
    return float(spearmanr(truth, estimates).statistic), float(spearmanr(truth, order).statistic)
