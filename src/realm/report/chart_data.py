"""The numbers behind the charts: verdicts, a task's annotators, calibration without gold, label balance, curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats
from realm.crowd.verdicts import NO_BETTER, RELIABLE, VERDICTS, posterior_of_labels
from realm.data.annotations import UNKNOWN
from realm.report.run_data import TRAINED, RunData

BINS = 10
"""Bins of confidence: ten percent each."""
FEWEST = 5
"""A bin with fewer items says too little to be drawn."""
LABELS = 12
"""Most bars of a label balance that fit beside each other; the rarest labels are added up."""


@dataclass(frozen=True)
class Pool:
    """The annotators of one task, most accurate first. Shapes (annotators,); `chance` is that of always giving
    the most frequent label."""

    task: str
    names: list[str]
    accuracy: Floats
    low: Floats
    high: Floats
    n: npt.NDArray[np.int64]
    verdict: npt.NDArray[np.int64]
    chance: float

    @property
    def thresholds(self) -> tuple[float, float]:
        """The accuracies a fifth of the way and half-way from chance to always right: shaded below and above."""
        low, high = (self.chance + (1 - self.chance) * share for share in (NO_BETTER, RELIABLE))
        return low, high


def verdict_counts(data: RunData, task: int | None = None) -> tuple[list[int], list[int]]:
    """How many annotators have each verdict (pairs of annotator and task, over all tasks), and their annotations."""
    kinds = data.verdicts if task is None else data.verdicts[:, [task]]
    n = data.estimate.annotations if task is None else data.estimate.annotations[:, [task]]
    return (
        [int((kinds == kind).sum()) for kind in range(len(VERDICTS))],
        [int(n[kinds == kind].sum()) for kind in range(len(VERDICTS))],
    )


def pool(data: RunData, task: int) -> Pool:
    """The annotators of a task, most accurate first."""
    estimate = data.estimate
    rows = data.ranked[data.ranked % len(data.task_names) == task] // len(data.task_names)
    counts = estimate.annotations[rows, task]
    return Pool(
        task=data.task_names[task] if data.several_tasks else "",
        names=[data.annotations.annotators[row] for row in rows],
        accuracy=estimate.accuracy[rows, task],
        low=estimate.low[rows, task],
        high=estimate.high[rows, task],
        n=counts,
        verdict=data.verdicts[rows, task],
        chance=float(np.average(estimate.chance[rows, task], weights=counts)) if len(rows) else 0.5,
    )


# -------------------------------------------------------------------- calibration


@dataclass(frozen=True)
class Reliability:
    """How sure the model is, how often it is confirmed, and which share of the items that is. Shapes (bins,)."""

    sure: Floats
    confirmed: Floats
    share: Floats


@dataclass(frozen=True)
class Calibration(Reliability):
    """How sure the model is of the training items and how often it is confirmed. `judge` says by whom.

    `agreed` is how often the label given is the model's favourite, `expected` how often it would be if model and
    annotators were as good as they are said to be.
    """

    judge: str
    agreed: float
    expected: float

    @property
    def gap(self) -> float:
        """Mean distance from the diagonal."""
        return float((np.abs(self.sure - self.confirmed) * self.share).sum() / max(float(self.share.sum()), 1e-12))


def calibration(data: RunData) -> Calibration | None:
    """The model's confidence held against gold where the run used it, else against the annotators alone.

    In-sample the model was trained on that gold, so that being right there says nothing, and the annotators judge.
    With several labels per item they are weighed by their expertise, the model having no say; with one label per item
    the label as given is all there is, and its errors count against the model.
    """
    table = data.annotations
    favourite = data.model_probs.argmax(axis=1)
    sure = data.model_probs.max(axis=1)
    if data.out_of_fold and table.gold is not None and (table.gold != UNKNOWN).any():
        items = np.flatnonzero(table.gold != UNKNOWN)
        confirmed, judge = (table.gold[items] == favourite[items]).astype(np.float64), "gold"
    elif not data.one_label_each:
        items = np.flatnonzero(table.annotations_per_item > 1)
        confirmed, judge = posterior_of_labels(table, data.estimate)[items, favourite[items]], "annotators"
    else:
        items = np.flatnonzero(table.annotations_per_item == 1)
        confirmed, judge = data.votes[items, favourite[items]].astype(np.float64), "labels"
    if not len(items):
        return None
    bins = np.minimum((sure[items] * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    large = counts >= min(FEWEST, len(items))
    return Calibration(
        sure=np.bincount(bins, sure[items], minlength=BINS)[large] / counts[large],
        confirmed=np.bincount(bins, confirmed, minlength=BINS)[large] / counts[large],
        share=counts[large] / len(items),
        judge=judge,
        agreed=float((table.label == favourite[table.item]).mean()),
        expected=_expected(data, sure),
    )


def _expected(data: RunData, sure: Floats) -> float:
    """How often a label would be the model's favourite, were everybody as accurate as is said."""
    table = data.annotations
    accuracy = data.estimate.accuracy[table.annotator, table.item_tasks[table.item]]
    wrong = (1 - accuracy) / np.maximum(table.option_counts[table.item] - 1, 1)
    return float((accuracy * sure[table.item] + wrong * (1 - sure[table.item])).mean())


# -------------------------------------------------------------------- labels


@dataclass(frozen=True)
class Balance:
    """Shares of the labels of one task: among the annotations, by majority (ties divided), and cleaned."""

    task: str
    labels: list[str]
    given: Floats
    majority: Floats
    cleaned: Floats


def label_balance(data: RunData, task: int) -> Balance | None:
    """Label balance of a task. Where every item lists its own options their places are counted instead."""
    items = np.flatnonzero(data.annotations.item_tasks == task)
    names = data.annotations.tasks[task].labels
    width = len(names) if names is not None else int(data.annotations.option_counts[items].max(initial=0))
    if not len(items) or not data.votes[items].any():
        return None
    labels = list(names) if names is not None else [f"option {k + 1}" for k in range(width)]
    votes = data.votes[items, :width].astype(np.float64)
    labelled = votes[votes.sum(axis=1) > 0]
    top = labelled == labelled.max(axis=1, keepdims=True)
    cleaned = np.bincount(data.labels[items], minlength=width)[:width].astype(np.float64)
    counts_of = [votes.sum(axis=0), (top / top.sum(axis=1, keepdims=True)).sum(axis=0), cleaned]
    shares = [counts / counts.sum() for counts in counts_of]
    if width > LABELS:
        frequent = np.sort(np.argsort(-shares[2], kind="stable")[: LABELS - 1])
        rest = np.setdiff1d(np.arange(width), frequent)
        labels = [labels[k] for k in frequent] + [f"{len(rest)} others"]
        shares = [np.append(share[frequent], share[rest].sum()) for share in shares]
    return Balance(data.task_names[task] if data.several_tasks else "", labels, *shares)


def confidence_counts(data: RunData) -> tuple[npt.NDArray[np.int64], Floats]:
    """How many labels are how sure: counts of bins of ten percent, and the bins' edges."""
    edges = np.linspace(0, 1, BINS + 1)
    counts, _ = np.histogram(np.clip(data.confidence, 0, 1), edges)
    first = int(np.flatnonzero(counts)[0]) if counts.any() else 0
    return counts[first:].astype(np.int64), edges[first:]


# -------------------------------------------------------------------- training


@dataclass(frozen=True)
class Series:
    """One curve. Shapes (points,)."""

    name: str
    x: Floats
    y: Floats


def history(metrics: dict[str, Any], figure: str, name: str) -> Series:
    """A figure of the training log over its steps, where it is a finite number."""
    entries = [entry for entry in metrics.get("history", []) if figure in entry and "step" in entry]
    x, y = (np.array([entry[key] for entry in entries], dtype=np.float64) for key in ("step", figure))
    return Series(name, x[np.isfinite(y)], y[np.isfinite(y)])


def mean_trajectory(data: RunData) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]] | None:
    """Steps, expertise (steps, annotators) averaged over an annotator's tasks, and the verdict of each (or -1)."""
    if data.trajectory is None or len(data.trajectory.steps) < 2:
        return None
    counts = data.estimate.annotations
    weight = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    verdict = data.verdicts[np.arange(len(counts)), counts.argmax(axis=1)]
    return data.trajectory.steps, np.einsum("sat,at->sa", data.trajectory.columns[TRAINED], weight), verdict
