"""`compare`: methods side by side, seed after seed, on the same annotations, scored on the same test items."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from realm.comparison.cells import LIKELIHOOD, Cell, CellTables
from realm.comparison.grid import CellFinished, run_cells
from realm.comparison.ranking import MethodResults, ScoredItems, method_labels, rank_metric, ranking
from realm.comparison.results import Results
from realm.comparison.significance import Summary, contrast, deviation
from realm.comparison.simulation import Regime
from realm.data import Annotations
from realm.data.arguments import require_annotations, require_test
from realm.data.options import MAX_OPTIONS
from realm.data.overlap import shown_in
from realm.display import counted, notebook_html
from realm.errors import RealmError, refuses_other_names
from realm.files import partial_files, remove_partial_files, writing
from realm.locks import LOCK, holding
from realm.methods import COMPARED, METHODS
from realm.metrics import METRICS, Metric, check_test, gold_items
from realm.progress import Progress, ignore_progress
from realm.runs.folder import LOG
from realm.training.settings import Settings, settings_of

if TYPE_CHECKING:
    import pandas as pd

RESERVED = {"method", "seed", "output_dir", "use_cpu", "write_run", "save_strategy"}
"""Settings that differ from cell to cell, or that leave a cell's training without output."""
RESULTS = "results.sqlite"
"""The results file in the folder of a comparison."""
PAGES = ("results.csv", "results.json", "report.html")
"""What the command line makes of the results file."""
BEFORE_RESULTS = (LOCK, f"{RESULTS}-journal", LOG)
"""What a comparison may have left that was killed before its results file was there."""
REPORTED = ("accuracy", "macro_f1", "log_loss", LIKELIHOOD)
"""Metrics of a finished cell that progress tells; a trial has the last alone."""
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
    """The result of `compare`.

    | field | meaning |
    |---|---|
    | table | a row per method and seed: method, seed, settings selected by trials, accuracy and the other metrics |
    | summary | a record per method: mean and std over seeds of accuracy and of every metric (`figures`), figures of \
every label (`labels`), and `realm` minus it with paired tests |
    | ranking | order, `best` (None where none may be called so) and contrasts; see `realm.comparison.ranking` |
    | trials | of each method with trials, the values and the held-out log-likelihood of each |
    | warnings | of the trainings, each once |
    """

    table: pd.DataFrame
    summary: list[dict[str, Any]]
    regime: str
    seeds: int
    gold_read: bool
    ranking: dict[str, Any]
    trials: dict[str, dict[str, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        best = f"best: {self.ranking['best']}" if self.ranking["best"] else "no method is best on every figure"
        return (
            f"Comparison({counted(len(self.summary), 'method')}, {counted(self.seeds, 'seed')}, {self.regime}; {best})"
        )

    def _repr_html_(self) -> str:
        figures = ("accuracy", "macro_f1", "log_loss", "base_rate")
        means = self.table.groupby("method", sort=False)[[name for name in figures if name in self.table]].mean()
        order = [row["method"] for row in self.summary]
        table = means.loc[order].reset_index()
        facts = {"means over seeds": ", ".join(means.columns), "warnings": "; ".join(self.warnings)}
        return notebook_html(repr(self), facts, table)

    def as_dict(self) -> dict[str, Any]:
        """Everything but trials as plain values: what `results.json` holds."""
        trainings = self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        return {
            "regime": self.regime,
            "seeds": self.seeds,
            "gold_used": self.gold_read,
            "warnings": self.warnings,
            "ranking": self.ranking,
            "methods": self.summary,
            "trainings": list(trainings),
        }


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
    choose: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    engine: str = "processes",
    jobs: int | None = None,
    progress: Progress = ignore_progress,
    step_progress: Progress = ignore_progress,
) -> Comparison:
    """Train each method with several seeds and compare them on the test items, with paired tests against `realm`.

    Args:
        annotations: the table to train on.
        test: items with gold, read with `tasks=annotations.tasks`.
        model: a folder, a named model or a Hugging Face id.
        methods: rows of `METHODS`; by default those that the paper compares. Aggregation is left out where every item
            has one annotation.
        seeds: how many, from 0. A seed decides the annotation that `sparse` keeps, the batches and new weights.
        regime: `shared` keeps all annotations, `sparse` one per item.
        rank_by: a metric's name, such as `macro_f1`, `log_loss` or `accuracy`; by default macro-F1, which counts every
            label alike, and accuracy where items list options of their own.
        settings: of `RealmConfig`, shared by all methods.
        choose: for a method, settings with values to try, as many for each method. A tenth of the items of seed 0 is
            held out, and the likelihood of its annotations decides; gold has no part in it.
        output: folder of `results.sqlite`, which holds every finished training: the same call continues where it was
            stopped. By default nothing is kept.
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
    cells = _cells(annotations, test, model, methods, seeds, regime, dict(settings or {}), choose or {})
    items = _scored_items(test)
    metric = rank_metric(rank_by, items)
    for method in dict.fromkeys(methods or COMPARED):
        if method not in {cell.method for cell in cells}:
            progress(f"{method}: left out, because every item has one annotation", 0, len(cells))
    with tempfile.TemporaryDirectory(prefix="realm-compare-") as temporary:
        folder = Path(temporary) if output is None else Path(output)
        with hold_comparison(folder), closing(_open(folder, overwrite)) as results:
            _refuse_other_cells(cells, results)
            run_cells(cells, results, engine=engine, jobs=jobs, on_finished=_reporter(progress), progress=step_progress)
            gold_read = bool((settings or {}).get("use_gold"))
            return _comparison(cells, results, regime, seeds, gold_read, items, metric)


# -------------------------------------------------------------------- cells


def _cells(
    annotations: Annotations,
    test: Annotations,
    model: str,
    methods: Sequence[str] | None,
    seeds: int,
    regime: str,
    settings: dict[str, Any],
    choose: Mapping[str, Mapping[str, Sequence[float]]],
) -> list[Cell]:
    """A cell per method that applies and seed, after checking what can be checked before anything is trained."""
    methods = list(dict.fromkeys(methods or COMPARED))
    if unknown := [method for method in methods if method not in METHODS]:
        raise RealmError(f"`methods`: no such method: {', '.join(unknown)}. There are: {', '.join(METHODS)}.")
    if regime not in get_args(Regime):
        raise RealmError(f"`regime={regime}`: must be one of {', '.join(get_args(Regime))}.")
    if seeds < 1:
        raise RealmError(f"`seeds={seeds}`: must be 1 or more.")
    if reserved := sorted(RESERVED & {*settings, *(name for lists in choose.values() for name in lists)}):
        raise RealmError(f"`settings`: a comparison sets {', '.join(reserved)} itself.")
    if len({len(values) for lists in choose.values() for values in lists.values()}) > 1:
        raise RealmError("every method must get the same number of trials: give lists of equal length.")
    if settings.get("use_gold") and (leaked := _gold_in_test(annotations, test)):
        raise RealmError(
            f"`use_gold`: {leaked} of the items whose gold would be trained on are in the test table too. Remove "
            "them from it, or do not use gold."
        )
    check_test(annotations, test)
    one_each = regime == "sparse" or int(annotations.annotations_per_item.max(initial=0)) < 2
    applicable = [method for method in methods if not (METHODS[method].aggregator and one_each)]
    steps = int(settings.pop("max_steps", -1))
    by_gold = {reads_gold: TableData(annotations, test, regime, reads_gold) for reads_gold in (False, True)}
    cells = [
        Cell(
            model, by_gold[METHODS[method].needs_gold or bool(settings.get("use_gold"))], method, seed, steps, settings,
            {name: tuple(values) for name, values in choose.get(method, {}).items()},
        )
        for method in applicable
        for seed in range(seeds)
    ]  # fmt: skip
    for method in applicable:
        # refused before anything is trained
        if METHODS[method].needs_gold and (annotations.gold is None or (annotations.gold < 0).all()):
            raise RealmError(
                f"`methods`: {method} needs gold labels, and the table has none. Name the column with `gold`, or leave "
                f"{method} out."
            )
    return cells


def _gold_in_test(annotations: Annotations, test: Annotations) -> int:
    """How many items with gold are test items too, but for case and spaces."""
    if annotations.gold is None:
        return 0
    with_gold = np.flatnonzero(annotations.gold >= 0)
    return int(shown_in(annotations.items.take(with_gold), test.items).sum())


# -------------------------------------------------------------------- results


@contextmanager
def hold_comparison(folder: Path) -> Iterator[None]:
    """Keep other processes from the folder of a comparison; one that holds something else is refused.

    A folder is one comparison by one process. (A results file of the lab may be filled by several.)
    """
    _check_folder(folder)
    with ExitStack() as held:
        with writing(folder, advice=""):
            held.enter_context(holding(folder))
        yield


def _check_folder(folder: Path) -> None:
    """Refuse a folder with anything but a comparison in it, or what is left of one that was killed at its start."""
    if folder.exists() and not folder.is_dir():
        raise RealmError(f"`output={folder}`: is a file; name a folder.")
    if not folder.is_dir() or (folder / RESULTS).is_file():
        return
    if set(folder.iterdir()) - {folder / name for name in BEFORE_RESULTS} - set(partial_files(folder)):
        raise RealmError(f"`output={folder}`: is not empty and holds no comparison. Name another folder.")


def _open(folder: Path, overwrite: bool) -> Results:
    """The results file of a comparison; `overwrite` empties it."""
    results = Results.open(folder / RESULTS, create=True)  # refuses a file that is not ours
    with writing(folder, advice=""):
        remove_partial_files(folder)
        if overwrite:
            results.clear()
            for name in PAGES:
                (folder / name).unlink(missing_ok=True)
    return results


def _refuse_other_cells(cells: Sequence[Cell], results: Results) -> None:
    """A folder is one comparison: cells of its methods and seeds must be these."""
    for cell in cells:
        if results.ids(cell.method, cell.seed) - {cell.id}:
            raise RealmError(
                f"{results.path} holds {cell.method}, seed {cell.seed}, of other data or settings. Use `overwrite` or "
                "another `output`."
            )


def _reporter(progress: Progress) -> Callable[[CellFinished], None]:
    def on_finished(event: CellFinished) -> None:
        if isinstance(event.result, RealmError):
            raise event.result
        figures = {name: event.result.metrics.get(name) for name in REPORTED}
        shown = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in figures.items() if value is not None]
        which = _values(event.cell) if event.cell.trial else f"seed {event.cell.seed}"
        message = f"{event.cell.method}, {which}: {', '.join(shown)}"
        progress(message, event.done, event.total)

    return on_finished


def _scored_items(test: Annotations) -> ScoredItems:
    items = gold_items(test)
    assert test.gold is not None
    return ScoredItems(test.gold[items].astype(np.int64), test.item_tasks[items].astype(np.int64), test.tasks)


def _comparison(
    cells: Sequence[Cell],
    results: Results,
    regime: str,
    seeds: int,
    gold_read: bool,
    items: ScoredItems,
    metric: Metric,
) -> Comparison:
    frame = results.frame(cells)
    settings = dict.fromkeys(name for cell in cells for name in cell.choose)
    names = dict.fromkeys(name for id in frame["id"] for name in results.metrics(id))
    metrics = [name for name in names if "/" not in name and not name.endswith("_max")]
    table = frame[["method", "seed", *settings, *metrics]].rename(columns=COLUMN_NAMES)
    warnings = dict.fromkeys(text for id in frame["id"] for text in results.config(id).get("warnings", ()))
    trials = {
        cell.method: {_values(trial): results.metrics(trial.id)[LIKELIHOOD] for trial in cell.trials()}
        for cell in cells
        if cell.choose
    }
    methods = _method_results(frame, results, items)
    summary = _summary(frame, results)
    for record in summary:
        record |= {
            "figures": _figures(methods[record["method"]]),
            "labels": method_labels(methods[record["method"]], items),
        }
    ranks = ranking(methods, items, metric)
    return Comparison(table, summary, regime, seeds, gold_read, ranks, trials, list(warnings))


def _method_results(frame: pd.DataFrame, results: Results, items: ScoredItems) -> dict[str, MethodResults]:
    """The metrics and answers of every method, its seeds in order."""
    methods = {}
    for name, rows in frame.groupby("method", sort=False):
        ids = rows["id"].tolist()
        metrics = {metric: rows[metric].to_numpy(dtype=np.float64) for metric in METRICS if metric in rows}
        for id in ids:
            _check_answers(id, results, items)
        labels = np.stack([results.predictions(id)[0] for id in ids]).astype(np.int64)
        log_probs = np.stack([results.gold_log_probs(id) for id in ids]).astype(np.float64)
        methods[str(name)] = MethodResults(metrics, labels, log_probs)
    return methods


def _check_answers(id: str, results: Results, items: ScoredItems) -> None:
    """Refuse answers of a cell that are not about the test items, or none of their options."""
    labels, gold = results.predictions(id)
    widths = np.array([MAX_OPTIONS if task.labels is None else len(task.labels) for task in items.tasks])
    if not np.array_equal(gold, items.gold) or len(results.gold_log_probs(id)) != len(gold):
        raise RealmError(f"{results.path}: cell {id} is not about these test items. The file is damaged.")
    if (labels >= widths[items.task]).any():
        raise RealmError(f"{results.path}: `labels` of cell {id} holds what is no label. The file is damaged.")


def _figures(method: MethodResults) -> dict[str, Any]:
    """Mean and spread over seeds of every metric that was measured."""
    found = {name: Summary.of(values) for name, values in method.metrics.items()}
    return {name: {"mean": each.mean, "std": _known(each.std)} for name, each in found.items() if each is not None}


def _known(figure: float) -> float | None:
    """The figure as JSON can hold it: None where it is not known."""
    return None if np.isnan(figure) else figure


def _values(trial: Cell) -> str:
    return ", ".join(f"{name} {values[0]:g}" for name, values in trial.choose.items())


def _summary(frame: pd.DataFrame, results: Results) -> list[dict[str, Any]]:
    """One record per method: mean and std over seeds, and `realm` against it."""
    by_method = dict(list(frame.groupby("method", sort=False)))
    accuracy = {method: rows["accuracy"].to_numpy(dtype=float) for method, rows in by_method.items()}
    correct = {method: results.correct(rows["id"].tolist()) for method, rows in by_method.items()}
    records = []
    for method, values in accuracy.items():
        record: dict[str, Any] = {"method": method, "mean": float(values.mean()), "std": _known(deviation(values))}
        if "realm" in accuracy and method != "realm":
            first, second = correct["realm"], correct[method]
            assert first is not None and second is not None
            test = contrast(("realm", str(method)), accuracy["realm"], values, (first, second))
            assert test is not None
            record |= {
                "realm_minus_this": test.delta,
                "p_seeds": test.p_seeds,
                "p_items": test.p_items,
                "interval_items": [test.low, test.high],
            }
        records.append(record)
    return records
