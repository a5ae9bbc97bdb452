"""What a report is made of: a run read back from its folder, without torch and without estimating anything anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from realm.crowd.estimate import Estimate, from_table, verdicts
from realm.crowd.posterior import Floats, cells_of, check_log_probs
from realm.crowd.priors import named_cells
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError
from realm.files import MANIFEST, read_json, sha256
from realm.runs.folder import Run
from realm.runs.spreadsheet import read_csv

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = ("reliable", "uncertain", "no better than chance", "worse than chance")
NEEDED = ("annotator", "task", "expertise", "accuracy", "low", "high", "annotations")


@dataclass(frozen=True)
class Trajectory:
    """Expertise while it was learned. `steps` is (steps,), `expertise` sigma(omega), (steps, annotators, tasks)."""

    steps: npt.NDArray[np.int64]
    expertise: Floats


@dataclass(frozen=True, eq=False)
class RunData:
    """A run as the report sees it.

    | field | shape | meaning |
    |---|---|---|
    | annotations, log_probs | (items, Kmax) | the table that was trained on, and the model's log P of its items |
    | estimate | | expertise, accuracy and intervals as `expertise.csv` has them; the posterior they give |
    | trained | (annotators, tasks) | sigma(omega); None where the method learns none |
    """

    name: str
    config: dict[str, Any]
    metrics: dict[str, Any]
    asked: dict[str, Any]
    annotations: Annotations
    log_probs: Floats
    estimate: Estimate
    trained: Floats | None = None
    trajectory: Trajectory | None = None

    @cached_property
    def model_probs(self) -> Floats:
        """The model's own P of every item's options. (items, Kmax)"""
        return np.exp(check_log_probs(self.annotations, self.log_probs))

    @cached_property
    def votes(self) -> npt.NDArray[np.int64]:
        """How often each option of each item was given. (items, Kmax)"""
        width = self.log_probs.shape[1]
        where = self.annotations.item.astype(np.int64) * width + self.annotations.label
        counts: npt.NDArray[np.int64] = np.bincount(where, minlength=self.log_probs.size).astype(np.int64)
        return np.reshape(counts, self.log_probs.shape)

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        """The most probable label of every item. (items,)"""
        best: npt.NDArray[np.int64] = self.estimate.posterior.argmax(axis=1)
        return best

    @cached_property
    def confidence(self) -> Floats:
        """The posterior probability of `labels`. (items,)"""
        confidence: Floats = self.estimate.posterior.max(axis=1)
        return confidence

    @cached_property
    def overruled(self) -> npt.NDArray[np.bool_]:
        """Items for which another label has more votes than the one found most probable. (items,)"""
        given = self.votes[np.arange(len(self.labels)), self.labels]
        overruled: npt.NDArray[np.bool_] = self.votes.max(axis=1, initial=0) > given
        return overruled

    @cached_property
    def verdicts(self) -> npt.NDArray[np.int64]:
        """Index into `VERDICTS`; -1 without annotations. (annotators, tasks)"""
        words = verdicts(self.estimate)
        codes = np.select([words == word for word in VERDICTS], range(len(VERDICTS)), UNKNOWN)
        return np.where(self.estimate.annotations > 0, codes, UNKNOWN).astype(np.int64)

    @cached_property
    def agreement(self) -> Floats:
        """The share of each annotator's labels that are the most probable ones. (annotators, tasks)"""
        table = self.annotations
        counts = self.estimate.annotations
        agreed = np.bincount(cells_of(table), self.labels[table.item] == table.label, minlength=counts.size)
        share: Floats = agreed.reshape(counts.shape) / np.maximum(counts, 1)
        return share

    @property
    def task_names(self) -> list[str]:
        return [task.name for task in self.annotations.tasks]

    @property
    def several_tasks(self) -> bool:
        return len(self.annotations.tasks) > 1

    @property
    def one_label_each(self) -> bool:
        """Whether no item has two annotations."""
        return int(self.annotations.annotations_per_item.max(initial=0)) <= 1

    @property
    def out_of_fold(self) -> bool:
        return "fold" in str(self.metrics.get("probabilities", ""))

    @property
    def used_gold(self) -> bool:
        return str(self.config.get("gold", "")).startswith("used")

    @property
    def method(self) -> str:
        return str(self.config.get("settings", {}).get("method", "realm"))

    @cached_property
    def ranked(self) -> npt.NDArray[np.int64]:
        """The cells (annotator x task, counted row by row) that have annotations, most accurate first."""
        n = self.estimate.annotations.reshape(-1)
        cells = np.flatnonzero(n)
        return cells[np.lexsort((cells, -n[cells], -self.estimate.accuracy.reshape(-1)[cells]))]


def read_run(folder: Path) -> RunData:
    """Read a run folder. What is read is checked against the run's manifest first; the model is not read."""
    run = Run.open(folder, verify=False)
    _verify_read(folder)
    annotations, log_probs = run.annotations(), run.log_probs()
    frame = _expertise(folder / "expertise.csv")
    gold = annotations.gold if run.config.get("gold") != "not read" else None
    estimate = from_table(annotations, log_probs, frame, gold=gold)
    if int(estimate.annotations.sum()) != annotations.n_annotations:
        raise RealmError(f"{folder / 'expertise.csv'} is not about the annotators of annotations.csv beside it.")
    return RunData(
        name=folder.resolve().name,
        config=run.config,
        metrics=run.metrics,
        asked=run.asked,
        annotations=annotations,
        log_probs=log_probs,
        estimate=estimate,
        trained=_cells(frame, "expertise_trained", annotations),
        trajectory=_trajectory(run),
    )


def _verify_read(folder: Path) -> None:
    """Refuse files that are not those of the manifest. The model, which may be large, is left alone."""
    for name, expected in read_json(folder / MANIFEST).get("sha256", {}).items():
        path = folder / name
        if "/" in name or path.suffix not in (".csv", ".json", ".yaml", ".safetensors"):
            continue
        if not path.is_file():
            raise RealmError(f"{path} is missing: {folder} is not whole.")
        if sha256(path) != expected:
            raise RealmError(f"{path} was changed or damaged: its SHA-256 is not the one in {folder / MANIFEST}.")


def _expertise(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise RealmError(f"{path}: no such file; is {path.parent} a run folder that finished?")
    frame = read_csv(path, text=("annotator", "task"))
    if missing := [name for name in NEEDED if name not in frame.columns]:
        raise RealmError(f"{path} lacks the columns {', '.join(missing)}: it is not the table of a run.")
    return frame


def _cells(frame: pd.DataFrame, column: str, annotations: Annotations) -> Floats | None:
    """A column of the expertise table as (annotators, tasks), NaN where it has no row."""
    if column not in frame.columns:
        return None
    cells = named_cells(annotations, frame)
    here = cells != UNKNOWN
    values = np.full(annotations.n_annotators * len(annotations.tasks), np.nan)
    values[cells[here]] = frame[column].to_numpy(np.float64)[here]
    return values.reshape(annotations.n_annotators, -1)


def _trajectory(run: Run) -> Trajectory | None:
    path = run.folder / "trajectory.safetensors"
    if not path.is_file():
        return None
    stored = load_file(path)
    if "expertise_trained" not in stored:
        return None
    return Trajectory(stored["steps"].astype(np.int64), stored["expertise_trained"].astype(np.float64))


def renamed(data: RunData, names: dict[str, str]) -> RunData:
    """The same run with other names for its annotators."""
    people = tuple(names[name] for name in data.annotations.annotators)
    return replace(data, annotations=replace(data.annotations, annotators=people))
