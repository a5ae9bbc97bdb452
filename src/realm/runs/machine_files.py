"""The typed readers of a run's machine files: what each must hold, and what must agree between them.

Whatever is in a file, it comes back as it was written or ends in a `RealmError` that names the file. `Run` reads
through these; the annotations have a module of their own (`annotations_file`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd.estimate import Estimate
from realm.data import Annotations, Task
from realm.errors import RealmError
from realm.files import read_json, read_tensors, read_yaml
from realm.metrics import METRICS
from realm.runs import folder as layout
from realm.schema import PLAIN, Array, Number, OneOf, Only, Whole, check, check_arrays
from realm.scorers import SCORERS

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-6
"""How far a probability may lie outside 0 and 1, by rounding."""
NORMALISED = 1e-3
"""How far the probabilities of an item may miss 1 together: float32 sums of many options are better than this."""
SHARE = Number(-ROUNDING, 1 + ROUNDING)
SETTING = (*PLAIN, [PLAIN], {str: (*PLAIN, [PLAIN])})
"""A setting: a value, a list of values, or the settings of a channel."""
CONFIG_SCHEMA = {
    "realm": str,
    "format": Whole(),
    "model": str,
    "settings": {
        "method?": str,
        "learning_rate?": Number(),
        "expertise_learning_rate?": (Number(), None),
        "num_train_epochs?": (Number(), None),
        "effective_batch_size?": Whole(),
        "per_device_train_batch_size?": Whole(),
        "gradient_accumulation_steps?": Whole(),
        "experts?": ([str], None),
        str: SETTING,
    },
    "gold_used": bool,
    "data": {"fingerprint": str, "items": Whole(), "annotators?": Whole(), "annotations?": Whole()},
    "weights?": (str, None),
    "test?": (str, None),
    "prior?": (str, None),
    "start?": ({"folder": str, "manifest": str}, None),
    "columns?": ({str: str}, None),
    "export?": (str, None),
    "exclude?": ([str], None),
    "map_labels?": ({str: str}, None),
    "map_annotators?": ({str: str}, None),
    "file?": (str, None),
    "versions": {str: str},
}
SCORER_SCHEMA = {
    "kind": OneOf(*SCORERS),
    "style": Only(
        {
            "answers": (OneOf("letters", "names", "cloze"), None),
            "instruction": (str, None),
            "max_length": Whole(1),
            "chat_template": bool,
        }
    ),
    "tasks": [{"name": str, "labels": ([str], None)}],
    "max_options": Whole(1),
    "cloze_scale?": Number(0, above=True),
    "temperature?": Number(0, above=True),
}
NO_SHARES = ("log_loss",)
"""The figures that are no shares of 1."""
LABEL_SCHEMA = {"label": str, "support": Whole(), **dict.fromkeys(("precision", "recall", "f1"), (SHARE, None))}
FIGURES_SCHEMA: dict[Any, Any] = {
    "items": Whole(),
    **{f"{name}?": (Number() if name in NO_SHARES else SHARE, None) for name in METRICS},
    "reliability?": [{"confidence": SHARE, "right": SHARE, "items": Whole(1)}],
    "labels?": [LABEL_SCHEMA],
    "confusion?": ([[Number(0)]], None),
    "by_position?": bool,
}
METRICS_SCHEMA = {
    "history": [{"step": Whole(), str: (Number(), None)}],
    "steps": Whole(),
    "warnings": [str],
    "notes": [str],
    "findings": [str],
    "probabilities": str,
    "channel": (str, None),
    "out_of_fold": bool,
    "folds": Whole(),
    "temperature": Number(0, above=True),
    "test?": ({**FIGURES_SCHEMA, "tasks?": {str: FIGURES_SCHEMA}}, None),
}
_PAIRS = ("annotators", "tasks")
ESTIMATE_SCHEMA = {
    "annotations": Array("int", _PAIRS, low=0),
    "expertise": Array("float", _PAIRS, low=-1 - ROUNDING, high=1 + ROUNDING, nan=True),
    **{
        name: Array("float", _PAIRS, low=-ROUNDING, high=1 + ROUNDING, nan=True)
        for name in ("accuracy", "low", "high", "chance")
    },
    "posterior": Array("float", ("items", "options"), low=-ROUNDING, high=1 + ROUNDING),
    "habits": Array("float", (*_PAIRS, "options"), low=-ROUNDING, high=1 + ROUNDING, nan=True),
    "cells": Array("int", ("cells", "columns"), low=0),
    "cell_evidence": Array("float", ("cells", "options"), high=ROUNDING),
    "log_prior": Array("float", ("items", "options")),
    "weight": Array("float", ("annotations",), low=0),
    "relative_tasks": Array("bool", ("tasks",)),
    **{
        name: Array("float", ("tasks",), low=0, high=1 + ROUNDING)
        for name in ("exponent", "shared_error", "shared_error_high")
    },
}


def read_config(folder: Path) -> dict[str, Any]:
    """`config.yaml`: model, settings, fingerprints of the data, versions."""
    path = folder / layout.CONFIG
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise RealmError(f"{path} holds no settings: it is damaged, or not the config of a run.")
    layout.check_format(folder, config)
    check(path, config, CONFIG_SCHEMA)
    return config


def read_metrics(folder: Path) -> dict[str, Any]:
    """`metrics.json`: the training log, metrics on the test table, warnings."""
    path = folder / layout.METRICS
    metrics: dict[str, Any] = read_json(path)
    check(path, metrics, METRICS_SCHEMA)
    test = metrics.get("test") or {}
    for part in (test, *test.get("tasks", {}).values()):
        matrix, labels = part.get("confusion"), part.get("labels", [])
        if matrix is not None and [len(row) for row in matrix] != [len(labels)] * len(labels):
            raise RealmError(f"{path}: `confusion` has not a row and a column for every label. {path.name} is damaged.")
    return metrics


def read_scorer_settings(folder: Path) -> dict[str, Any]:
    """`scorer.json`: how items are asked."""
    path = folder / layout.SCORER
    settings: dict[str, Any] = read_json(path)
    check(path, settings, SCORER_SCHEMA)
    names = [task["name"] for task in settings["tasks"]]
    if not names or len(set(names)) < len(names):
        raise RealmError(f"{path}: `tasks` is empty, or two of them have one name.")
    for task in settings["tasks"]:
        labels = task["labels"]
        if labels is not None and (not labels or len(set(labels)) < len(labels)):
            raise RealmError(f"{path}: the labels of task {task['name']!r} are none, or two of them are the same.")
    return settings


def tasks_of(settings: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks that `scorer.json` names."""
    return tuple(
        Task(each["name"], None if each["labels"] is None else tuple(each["labels"])) for each in settings["tasks"]
    )


def read_annotators(folder: Path) -> list[str]:
    """`annotators.json`: the annotators' names, in the order of every array's rows."""
    path = folder / layout.ANNOTATORS
    names: list[str] = read_json(path)
    check(path, names, [str])
    if len(set(names)) < len(names):
        raise RealmError(f"{path}: two annotators have one name. {path.name} is damaged.")
    return names


def read_log_probs(folder: Path, annotations: Annotations) -> Floats:
    """`predictions.safetensors`: the model's log P of every item's options. (items, Kmax)"""
    path = folder / layout.PREDICTIONS
    arrays = read_tensors(path)
    sizes = {"items": annotations.n_items, "options": int(annotations.option_counts.max(initial=0))}
    check_arrays(path, arrays, {"log_probs": Array("float", ("items", "options"), high=ROUNDING)}, sizes)
    log_probs = arrays["log_probs"].astype(np.float64)
    with np.errstate(over="ignore"):
        _check_sums(path, "log_probs", np.where(_inside(annotations), np.exp(log_probs), 0.0))
    return log_probs


def read_estimate(folder: Path, annotations: Annotations) -> Estimate:
    """`estimate.safetensors`: expertise, accuracy, intervals and posterior, which must be about these annotations."""
    path = folder / layout.ESTIMATE
    arrays = read_tensors(path)
    sizes = {
        "items": annotations.n_items,
        "options": int(annotations.option_counts.max(initial=0)),
        "annotators": annotations.n_annotators,
        "tasks": len(annotations.tasks),
        "annotations": annotations.n_annotations,
    }
    check_arrays(path, arrays, ESTIMATE_SCHEMA, {**sizes, "columns": 3})
    estimate = Estimate.from_arrays(arrays)
    tasks = sizes["tasks"]
    pairs = annotations.annotator.astype(np.int64) * tasks + annotations.item_tasks[annotations.item]
    counts = np.bincount(pairs, minlength=sizes["annotators"] * tasks).reshape(sizes["annotators"], tasks)
    if not np.array_equal(counts, estimate.annotations):
        raise RealmError(f"{path}: the estimate is not about the annotations beside it.")
    for name in ("expertise", "accuracy", "low", "high", "chance"):
        if np.isnan(getattr(estimate, name)[counts > 0]).any():
            raise RealmError(
                f"{path}: the array `{name}` holds a value that is not a number for an annotator with annotations. "
                f"{path.name} is damaged."
            )
    limits = (sizes["annotators"], tasks, estimate.cell_evidence.shape[1])
    if (estimate.cells >= limits).any() or (np.diff(np.ravel_multi_index(tuple(estimate.cells.T), limits)) <= 0).any():
        raise RealmError(
            f"{path}: the array `cells` names no annotator, task and label in order. {path.name} is damaged."
        )
    _check_sums(path, "posterior", np.where(_inside(annotations), estimate.posterior, 0.0))
    return estimate


def _inside(annotations: Annotations) -> npt.NDArray[np.bool_]:
    """Which columns are options of the item. (items, Kmax)"""
    counts = annotations.option_counts
    return np.asarray(np.arange(int(counts.max(initial=0))) < counts[:, None])


def _check_sums(path: Path, name: str, probabilities: Floats) -> None:
    sums = probabilities.sum(axis=1)
    if (np.abs(sums - 1) > NORMALISED).any():
        row = int(np.abs(sums - 1).argmax())
        raise RealmError(
            f"{path}: the array `{name}`: the probabilities of item {row} sum to {sums[row]:.6g}, not to 1. "
            f"{path.name} is damaged."
        )


def read_summary(folder: Path, annotations: Annotations) -> dict[str, Floats]:
    """`summary.safetensors`: what the channel learned, by column (annotators, tasks); empty without one."""
    path = folder / layout.SUMMARY
    if not path.exists():
        return {}
    arrays = read_tensors(path)
    _check_columns(path, arrays, annotations, ("annotators", "tasks"))
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def read_trajectory(folder: Path, annotations: Annotations) -> tuple[npt.NDArray[np.int64], dict[str, Floats]] | None:
    """`trajectory.safetensors`: the logging steps (steps,), and columns (steps, annotators, tasks); None without."""
    path = folder / layout.TRAJECTORY
    if not path.exists():
        return None
    arrays = read_tensors(path)
    check_arrays(path, arrays, {"steps": Array("int", ("steps",), low=0)}, {})
    steps = arrays.pop("steps").astype(np.int64)
    if (np.diff(steps) < 0).any():
        raise RealmError(f"{path}: the array `steps` does not rise. {path.name} is damaged.")
    _check_columns(path, arrays, annotations, ("steps", "annotators", "tasks"), steps=len(steps))
    return steps, {name: array.astype(np.float64) for name, array in arrays.items()}


def _check_columns(
    path: Path, arrays: dict[str, npt.NDArray[Any]], annotations: Annotations, shape: tuple[str, ...], **sizes: int
) -> None:
    """Refuse columns of a channel that are of another shape, infinite, or no number for a pair with annotations."""
    sizes |= {"annotators": annotations.n_annotators, "tasks": len(annotations.tasks)}
    check_arrays(path, arrays, {name: Array("float", shape, nan=True) for name in arrays}, sizes)
    seen = np.zeros((sizes["annotators"], sizes["tasks"]), dtype=bool)
    seen[annotations.annotator, annotations.item_tasks[annotations.item]] = True
    for name, array in arrays.items():
        if not np.isfinite(array[..., seen]).all():
            raise RealmError(f"{path}: the array `{name}` holds a value that is not a finite number.")
