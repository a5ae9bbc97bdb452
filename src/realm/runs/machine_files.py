"""What a run's machine files hold, and their readers: a damaged file is a `RealmError` that names it.

That a file is the one which was written is for the manifest to say, which `Run.open` verifies first; here it is made
sure that what is read has the types and shapes the rest of the code expects. The annotations have a module of their own
(`annotations_file`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from realm import __version__
from realm.crowd.estimate import Estimate
from realm.data import Annotations, Task
from realm.errors import RealmError
from realm.files import read_json, read_tensors, read_yaml
from realm.runs import folder as layout
from realm.schema import check_arrays, parse
from realm.scorers import SCORERS
from realm.scorers.prompts import PromptStyle

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RunDescription:
    """What `config.yaml` holds. It must be the same again for the run to be resumed.

    `data` is the fingerprint and the sizes of the annotations; `weights` is the fingerprint of the model's files, None
    for a name that stands for itself; `test` the fingerprint of the test table; `prior` a hash of the earlier estimate;
    `start` the run that this one goes on from.
    `columns`, `export`, `exclude` and the maps say how the table was read, so that tables for the run are read in
    the same way, and `file` what it was called; a run goes on with the same data under other names.
    """

    model: str
    settings: dict[str, Any]
    gold_used: bool
    data: dict[str, str | int]
    weights: str | None = None
    test: str | None = None
    prior: str | None = None
    start: dict[str, str] | None = None
    columns: dict[str, str] = field(default_factory=dict)
    export: str | None = None
    exclude: list[str] | None = None
    map_labels: dict[str, str] | None = None
    map_annotators: dict[str, str] | None = None
    file: str | None = None
    versions: dict[str, str] = field(
        default_factory=lambda: {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")}
    )

    def as_dict(self) -> dict[str, Any]:
        entries = {"realm": __version__, "format": layout.FORMAT, **asdict(self)}
        return {name: value for name, value in entries.items() if value is not None}


@dataclass(frozen=True)
class ScorerSettings:
    """What `scorer.json` holds: how items are asked."""

    kind: str
    style: PromptStyle
    tasks: list[Task]
    max_options: int
    cloze_scale: float | None = None
    temperature: float = 1.0


@dataclass(frozen=True)
class Metrics:
    """What `metrics.json` holds: `Trainer`'s log, what the user should know, the figures on the test table.

    `probabilities` says in words what labels and reliability rest on; `channel` is the class of the learned channel.
    """

    history: list[dict[str, Any]]
    steps: int
    warnings: list[str]
    notes: list[str]
    findings: list[str]
    probabilities: str
    channel: str | None
    out_of_fold: bool
    folds: int
    temperature: float
    test: dict[str, Any] | None = None


def read_config(folder: Path) -> dict[str, Any]:
    """`config.yaml`: model, settings, fingerprints of the data, versions."""
    path = folder / layout.CONFIG
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise RealmError(f"{path} holds no settings: it is damaged, or not the config of a run.")
    layout.check_format(folder, config)
    parse(path, config, RunDescription)
    return config


def read_metrics(folder: Path) -> dict[str, Any]:
    """`metrics.json`: the training log, metrics on the test table, warnings."""
    metrics: dict[str, Any] = read_json(folder / layout.METRICS)
    parse(folder / layout.METRICS, metrics, Metrics)
    return metrics


def read_scorer_settings(folder: Path) -> dict[str, Any]:
    """`scorer.json`: how items are asked."""
    path = folder / layout.SCORER
    settings: dict[str, Any] = read_json(path)
    kinds: Any = Literal[tuple(SCORERS)]
    parse(path, settings, ScorerSettings)
    parse(path, {"kind": settings["kind"]}, dict[str, kinds])
    return settings


def tasks_of(settings: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks that `scorer.json` names."""
    return tuple(
        Task(each["name"], None if each["labels"] is None else tuple(each["labels"])) for each in settings["tasks"]
    )


def read_annotators(folder: Path) -> list[str]:
    """`annotators.json`: the annotators' names, in the order of every array's rows."""
    path = folder / layout.ANNOTATORS
    return parse(path, read_json(path), list[str])


_PAIRS = ("annotators", "tasks")
ESTIMATE = {
    "annotations": ("int", *_PAIRS),
    **{name: ("float", *_PAIRS) for name in ("expertise", "accuracy", "low", "high", "chance")},
    "posterior": ("float", "items", "options"),
    "habits": ("float", *_PAIRS, "options"),
    "cells": ("int", "cells", "columns"),
    "cell_evidence": ("float", "cells", "options"),
    "log_prior": ("float", "items", "options"),
    "weight": ("float", "annotations"),
    "relative_tasks": ("bool", "tasks"),
    **{name: ("float", "tasks") for name in ("exponent", "shared_error", "shared_error_high")},
}
"""The kind and the shape of each array of `estimate.safetensors`."""


def _sizes(annotations: Annotations) -> dict[str, int]:
    return {
        "items": annotations.n_items,
        "options": int(annotations.option_counts.max(initial=0)),
        "annotators": annotations.n_annotators,
        "tasks": len(annotations.tasks),
        "annotations": annotations.n_annotations,
    }


def read_log_probs(folder: Path, annotations: Annotations) -> Floats:
    """`predictions.safetensors`: the model's log P of every item's options. (items, Kmax)"""
    path = folder / layout.PREDICTIONS
    arrays = read_tensors(path)
    check_arrays(path, arrays, {"log_probs": ("float", "items", "options")}, _sizes(annotations))
    return arrays["log_probs"].astype(np.float64)


def read_estimate(folder: Path, annotations: Annotations) -> Estimate:
    """`estimate.safetensors`: expertise, accuracy, intervals and posterior."""
    path = folder / layout.ESTIMATE
    arrays = read_tensors(path)
    check_arrays(path, arrays, ESTIMATE, _sizes(annotations))
    return Estimate.from_arrays(arrays)


def read_summary(folder: Path, annotations: Annotations) -> dict[str, Floats]:
    """`summary.safetensors`: what the channel learned, by column (annotators, tasks); empty without one."""
    path = folder / layout.SUMMARY
    if not path.exists():
        return {}
    arrays = read_tensors(path)
    check_arrays(path, arrays, {name: ("float", *_PAIRS) for name in arrays}, _sizes(annotations))
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def read_trajectory(folder: Path, annotations: Annotations) -> tuple[npt.NDArray[np.int64], dict[str, Floats]] | None:
    """`trajectory.safetensors`: the logging steps (steps,), and columns (steps, annotators, tasks); None without."""
    path = folder / layout.TRAJECTORY
    if not path.exists():
        return None
    arrays = read_tensors(path)
    shapes = {name: ("float", "steps", *_PAIRS) for name in arrays}
    check_arrays(path, arrays, {**shapes, "steps": ("int", "steps")}, _sizes(annotations))
    steps = arrays.pop("steps").astype(np.int64)
    return steps, {name: array.astype(np.float64) for name, array in arrays.items()}
