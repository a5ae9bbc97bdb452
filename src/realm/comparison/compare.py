"""`compare`: methods side by side, seed after seed, on the same annotations, scored on the same test items."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from realm.comparison.cells import Cell, CellTables
from realm.comparison.grid import Outcome, run_cells
from realm.comparison.results import SUMMARY, Results
from realm.comparison.significance import MethodResults, ScoredItems, deviation, ranking
from realm.comparison.simulation import Regime
from realm.data import Annotations
from realm.data.arguments import require_annotations, require_test
from realm.data.overlap import shown_in
from realm.display import counted, notebook_html
from realm.errors import RealmError, refuses_other_names
from realm.files import partial_files, remove_partial_files, write_json, writing
from realm.locks import LOCK, holding
from realm.methods import COMPARED, METHODS
from realm.metrics import METRICS, Metric, check_test, figures_by_label, gold_items
from realm.progress import Progress, ignore_progress
from realm.runs.folder import LOG
from realm.runs.spreadsheet import write_csv
from realm.training.settings import Settings, settings_of

if TYPE_CHECKING:
    import pandas as pd

RESERVED = {"method", "seed", "output_dir", "use_cpu", "write_run", "save_strategy"}
"""Settings that differ from cell to cell, or that leave a cell's training without output."""
CELLS, TABLE, PAGE = "cells", "results.csv", "report.html"
"""In the folder of a comparison: the finished cells, the table of trainings, the page that the command line adds."""
COLUMN_NAMES = {
    "n_test": "items",
    "spearman": "expertise_spearman",
    "spearman_trained": "expertise_trained_spearman",
}
"""Metrics of a cell under the names that the table of a comparison gives them."""


@dataclass(frozen=True)
class TableData:
    """The tables of a comparison as the data of its cells. Every method of a seed gets the same annotations."""

    annotations: Annotations
    test: Annotations
    regime: str = "shared"
    reads_gold: bool = False

    @cached_property
    def origin(self) -> str:
        return f"{self.annotations.fingerprint(gold=self.reads_gold)}-{self.test.fingerprint(gold=True)}"

    def fingerprint(self) -> str:
        return self.origin

    def describe(self) -> dict[str, Any]:
        return {"regime": self.regime, "tables": self.origin}

    def load(self, method: str, seed: int) -> CellTables:
        return CellTables(self.annotations.sparse(seed) if self.regime == "sparse" else self.annotations, self.test)

    def __str__(self) -> str:
        return self.regime


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`."""

    table: pd.DataFrame  # a row per method and seed: method, seed, accuracy and the other metrics
    summary: list[dict[str, Any]]  # of each method mean and std over seeds of every metric, and figures of every label
    regime: str
    seeds: int
    gold_read: bool
    ranking: dict[str, Any]  # order, `best` (None where none may be called so), contrasts: `significance.ranking`
    warnings: list[str]  # of the trainings, each once

    def __repr__(self) -> str:
        best = f"best: {self.ranking['best']}" if self.ranking["best"] else "no method is best on every figure"
        methods, seeds = counted(len(self.summary), "method"), counted(self.seeds, "seed")
        return f"Comparison({methods}, {seeds}, {self.regime}; {best})"

    def _repr_html_(self) -> str:
        figures = [name for name in ("accuracy", "macro_f1", "log_loss", "base_rate") if name in self.table]
        means = self.table.groupby("method", sort=False)[figures].mean().reset_index()
        facts = {"means over seeds": ", ".join(figures), "warnings": "; ".join(self.warnings)}
        return notebook_html(repr(self), facts, means)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values: what `results.json` holds."""
        trainings = self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        facts = {"regime": self.regime, "seeds": self.seeds, "gold_used": self.gold_read, "warnings": self.warnings}
        return {**facts, "ranking": self.ranking, "methods": self.summary, "trainings": list(trainings)}


@refuses_other_names(
    {
        each.name: f"It is a setting: give it as `settings={{'{each.name}': ...}}`."
        for each in settings_of(Settings)
        if each.name not in RESERVED
    }
)
def compare(
    annotations: Annotations,
    test: Annotations,
    model: str = "minilm-l6",
    *,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    regime: str = "shared",
    rank_by: str | None = None,
    settings: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    engine: str = "processes",
    jobs: int | None = None,
    progress: Progress = ignore_progress,
    step_progress: Progress = ignore_progress,
) -> Comparison:
    """Train each method with several seeds and compare them on the test items, with paired tests against `realm`.

    Every method has the same optimiser steps: those of `realm`, where epochs decide.

    Args:
        annotations: the table to train on.
        test: items with gold, read with `tasks=annotations.tasks`.
        model: a folder, a named model or a Hugging Face id.
        methods: rows of `METHODS`; by default those that the paper compares. Aggregation is left out where every item
            has one annotation.
        seeds: how many, from 0; with fewer than three nothing is tested. A seed decides the annotation that `sparse`
            keeps, the batches and new weights.
        regime: `shared` keeps all annotations, `sparse` one per item.
        rank_by: a metric's name, such as `macro_f1`, `log_loss` or `accuracy`; by default macro-F1, which counts every
            label alike, and accuracy where items list options of their own.
        settings: of `RealmConfig`, shared by all methods.
        output: folder of `results.json`, `results.csv` and of every finished training: the same call continues where it
            was stopped. By default nothing is kept.
        overwrite: remove the results that the folder holds.
        engine: `processes` trains on this machine, `ray` on a Ray cluster.
        jobs: how many trainings run at once.
        progress: called with a message and how many of the trainings are done.
        step_progress: called with how far the training that is running is, where one runs at a time.

    Examples:
        >>> compare(annotations, test, methods=["realm", "noisy"], seeds=2).table  # doctest: +SKIP
    """
    require_annotations(annotations, "annotations")
    require_test(test, "test")
    methods, settings = list(dict.fromkeys(methods or COMPARED)), dict(settings or {})
    use_gold = bool(settings.get("use_gold"))
    cells = _cells(annotations, test, model, methods, seeds, regime, settings)
    rows = gold_items(test)
    assert test.gold is not None
    items = ScoredItems(test.gold[rows].astype(np.int64), test.item_tasks[rows].astype(np.int64), test.tasks)
    metric = rank_metric(rank_by, items)
    for method in methods:
        if method not in {cell.method for cell in cells}:
            progress(f"{method}: left out, because every item has one annotation", 0, len(cells))

    def on_finished(cell: Cell, result: Outcome, done: int, total: int) -> None:
        if isinstance(result, RealmError):
            raise result
        known = {name: result.metrics.get(name) for name in ("accuracy", "macro_f1", "log_loss")}
        shown = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in known.items() if value is not None]
        progress(f"{cell.method}, seed {cell.seed}: {', '.join(shown)}", done, total)

    with tempfile.TemporaryDirectory(prefix="realm-compare-") as temporary:
        folder = Path(temporary) if output is None else Path(output)
        with _held(folder, overwrite):
            results = Results(folder / CELLS)
            _refuse_other_cells(cells, results)
            run_cells(cells, results, engine=engine, jobs=jobs, on_finished=on_finished, progress=step_progress)
            comparison = _comparison(cells, results, regime, seeds, use_gold, items, metric)
            write_csv(comparison.table, folder / TABLE)
            with writing(folder / SUMMARY, advice=""):
                write_json(folder / SUMMARY, comparison.as_dict())
    return comparison


def rank_metric(rank_by: str | None, items: ScoredItems) -> Metric:
    """The metric to rank by: the one named, else macro-F1 where items share a label set and accuracy elsewhere."""
    rankable = items.rankable
    if rank_by is None:
        return rankable.get("macro_f1", METRICS["accuracy"])
    name = rank_by.strip().lower().replace("-", "_").replace(" ", "_")
    if name not in rankable:
        names = ", ".join(each.replace("_", "-") for each in rankable)
        raise RealmError(f"`rank_by={rank_by}`: no such figure of these test items. Rank by one of: {names}.")
    return rankable[name]


def _cells(
    annotations: Annotations,
    test: Annotations,
    model: str,
    methods: list[str],
    seeds: int,
    regime: str,
    settings: dict[str, Any],
) -> list[Cell]:
    """A cell per method that applies and seed, after refusing what can be refused before anything is trained."""
    if unknown := [method for method in methods if method not in METHODS]:
        raise RealmError(f"`methods`: no such method: {', '.join(unknown)}. There are: {', '.join(METHODS)}.")
    if regime not in get_args(Regime):
        raise RealmError(f"`regime={regime}`: must be one of {', '.join(get_args(Regime))}.")
    if seeds < 1:
        raise RealmError(f"`seeds={seeds}`: must be 1 or more.")
    if reserved := sorted(RESERVED & set(settings)):
        raise RealmError(f"`settings`: a comparison sets {', '.join(reserved)} itself.")
    has_gold = np.zeros(annotations.n_items, dtype=bool) if annotations.gold is None else annotations.gold >= 0
    known = annotations.items.take(np.flatnonzero(has_gold))
    use_gold = bool(settings.get("use_gold"))
    if use_gold and (leaked := int(shown_in(known, test.items).sum())):
        raise RealmError(
            f"`use_gold`: {leaked} of the items whose gold would be trained on are in the test table too. Remove "
            "them from it, or do not use gold."
        )
    check_test(annotations, test)
    if not len(known) and (oracles := [method for method in methods if METHODS[method].needs_gold]):
        raise RealmError(
            f"`methods`: {oracles[0]} needs gold labels, and the table has none. Name the column with `gold`, or leave "
            f"{oracles[0]} out."
        )
    counts, steps = annotations.annotations_per_item, int(settings.pop("max_steps", -1))
    one_each = regime == "sparse" or int(counts.max(initial=0)) < 2
    if steps < 0:  # those of `realm`'s epochs: other methods may have fewer items, or one label for several
        from realm.training import RealmConfig
        from realm.training.settings import training_budget

        config = RealmConfig("unused", **settings, use_cpu=True)
        labels = np.minimum(counts, 1) if regime == "sparse" or config.batch_unit == "item" else counts
        units = int(np.maximum(labels, has_gold & use_gold).sum())
        budget = training_budget(config, units)
        steps = math.ceil(budget.epochs * budget.steps_per_epoch)
    data = {reads_gold: TableData(annotations, test, regime, reads_gold) for reads_gold in (False, True)}
    return [
        Cell(model, data[METHODS[method].needs_gold or use_gold], method, seed, steps, settings)
        for method in methods
        if not (METHODS[method].aggregator and one_each)
        for seed in range(seeds)
    ]


# -------------------------------------------------------------------- the folder


@contextmanager
def _held(folder: Path, overwrite: bool) -> Iterator[None]:
    """Keep other processes from the folder of a comparison; one that holds something else is refused."""
    if folder.is_dir() and not (folder / CELLS).is_dir():
        own = {folder / LOCK, folder / LOG, *partial_files(folder)}  # what one leaves that was killed at its start
        if set(folder.iterdir()) - own:
            raise RealmError(f"`output={folder}`: is not empty and holds no comparison. Name another folder.")
    with ExitStack() as stack:
        with writing(folder, advice=""):
            stack.enter_context(holding(folder))
            (folder / CELLS).mkdir(exist_ok=True)  # from now on it shows whose folder this is
            remove_partial_files(folder)
            old = [*(folder / CELLS).iterdir(), *(folder / name for name in (TABLE, SUMMARY, PAGE))]
            if overwrite:
                for path in old:
                    path.unlink(missing_ok=True)
        yield


def _refuse_other_cells(cells: Sequence[Cell], results: Results) -> None:
    """A folder is one comparison: its cells of these methods and seeds must be these."""
    wanted = {(cell.method, cell.seed): cell.id for cell in cells}
    for id in set(results.ids()) - set(wanted.values()):
        content = results.record(id)["content"]
        if (content["method"], content["seed"]) in wanted:
            raise RealmError(
                f"{results.folder} holds {content['method']}, seed {content['seed']}, of other data or settings. Use "
                "`overwrite` or another `output`."
            )


# -------------------------------------------------------------------- what was found


def _comparison(
    cells: Sequence[Cell], results: Results, regime: str, seeds: int, gold_read: bool, items: ScoredItems, by: Metric
) -> Comparison:
    frame, records = results.frame(cells), [results.record(cell.id) for cell in cells]
    names = dict.fromkeys(name for record in records for name in record["metrics"])
    metrics = [name for name in names if "/" not in name and not name.endswith("_max")]
    table = frame[["method", "seed", *metrics]].rename(columns=COLUMN_NAMES)
    warnings = dict.fromkeys(text for record in records for text in record["config"]["warnings"])
    methods = {str(name): _method_results(rows, results, items) for name, rows in frame.groupby("method", sort=False)}
    ranks = ranking(methods, items, by)
    summary = [_summary(name, method, items, ranks) for name, method in methods.items()]
    plain = json.loads(json.dumps({"summary": summary, "ranking": ranks}))
    return Comparison(table, plain["summary"], regime, seeds, gold_read, plain["ranking"], list(warnings))


def _method_results(rows: pd.DataFrame, results: Results, items: ScoredItems) -> MethodResults:
    """The metrics and answers of a method, its seeds in order. `rows` are those of its cells."""
    answers = [results.table("answers", [id]) for id in rows["id"]]
    if not all("gold" in each and np.array_equal(each["gold"], items.gold) for each in answers):
        raise RealmError(f"{results.folder} holds answers that are not about these test items. Use `overwrite`.")
    labels, log_probs = (np.stack([each[name] for each in answers]) for name in ("label", "gold_log_prob"))
    metrics = {name: rows[name].to_numpy(dtype=np.float64) for name in METRICS if name in rows}
    known = {name: values for name, values in metrics.items() if not np.isnan(values).any()}
    return MethodResults(known, labels.astype(np.int64), log_probs.astype(np.float64))


def _summary(name: str, method: MethodResults, items: ScoredItems, ranks: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a method: of every metric mean and deviation over seeds, how far `realm` is ahead of it; of each
    task the figures of every label and the confusion matrix, over the answers of all seeds together."""
    figures = {
        metric: {"mean": float(values.mean()), "std": deviation(values) if len(values) > 1 else None}
        for metric, values in method.metrics.items()
    }
    record: dict[str, Any] = {"method": name, **figures["accuracy"]}
    for each in ranks["contrasts"]:
        if (each["first"], each["second"], each["figure"]) == ("realm", name, "accuracy"):
            record |= {"realm_minus_this": each["difference"], "p_seeds": each["p_seeds"], "p_items": each["p_items"]}
            record["interval_items"] = [each["low"], each["high"]]
    tasks, seeds = [], len(method.labels)
    for index in np.unique(items.task).tolist():
        rows, task = items.task == index, items.tasks[index]
        each = figures_by_label(np.tile(items.gold[rows], seeds), method.labels[:, rows].ravel(), task.labels)
        labels = [{**label, "support": label["support"] // seeds} for label in each["labels"]]
        tasks.append({"task": task.name, **each, "labels": labels})
    return {**record, "figures": figures, "labels": tasks}
