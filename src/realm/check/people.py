"""Annotators who do not seem to read: the same answer always, answers in turn, or answers nobody bears out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from realm.check.consensus import Consensus
from realm.crowd.coin import label_probability
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import Annotations

FEW = 10
ENOUGH_TO_JUDGE = 20
CHANCE = 1e-4
LONGEST_PERIOD = 6
SURE = 2.5
LEAST_TYPICAL = 0.1
Kind = Literal["constant", "alternating", "chance", "below chance"]


@dataclass(frozen=True)
class Suspect:
    """An annotator to look at: what they seem to do, on how many annotations, and in words."""

    annotator: str
    kind: Kind
    annotations: int
    evidence: str


def find_suspects(annotations: Annotations, consensus: Consensus) -> list[Suspect]:
    """Each annotator at most once, the plainest pattern first. The order of labelling is that of the source's rows."""
    rows = annotations.item if annotations.source_rows is None else annotations.source_rows
    support = _support(annotations, consensus)
    standing = _standing(annotations, consensus)
    order = np.lexsort((rows, annotations.annotator))
    starts = np.searchsorted(annotations.annotator[order], np.arange(annotations.n_annotators + 1))
    found = []
    for person, name in enumerate(annotations.annotators):
        mine = order[starts[person] : starts[person + 1]]
        labels = annotations.label[mine].astype(np.int64)
        suspect = None
        if len(mine) >= FEW and not standing.is_like_others(person):
            suspect = _constant(name, annotations, mine, labels, support) or _alternating(name, annotations, labels)
        if suspect is None and len(mine) >= ENOUGH_TO_JUDGE:
            suspect = _by_chance(name, len(mine), person, standing)
        if suspect is not None:
            found.append(suspect)
    return found


def _constant(name: str, annotations: Annotations, mine: Indices, labels: Indices, support: Floats) -> Suspect | None:
    """The same label always, where an ordinary annotator would hardly have given it to all these items."""
    if (labels != labels[0]).any():
        return None
    if np.log(support[mine]).sum() + np.log(annotations.n_annotators) >= np.log(CHANCE):
        return None
    label = annotations.label_name(int(annotations.item[mine[0]]), int(labels[0]))
    return Suspect(name, "constant", len(mine), f"gave '{label}' {len(mine):,} times out of {len(mine):,}")


def _alternating(name: str, annotations: Annotations, labels: Indices) -> Suspect | None:
    """The same few labels over and over, where chance would hardly have kept the order."""
    n = len(labels)
    by_luck = float(((np.bincount(labels) / n) ** 2).sum())
    for period in range(2, min(LONGEST_PERIOD, n // 3) + 1):
        if by_luck < 1 and (labels[period:] == labels[:-period]).all():
            if (n - period) * np.log(by_luck) + np.log(annotations.n_annotators) < np.log(CHANCE):
                return Suspect(name, "alternating", n, f"repeats the same {period} answers in turn, {n:,} in all")
            return None
    return None


def _by_chance(name: str, n: int, person: int, standing: _Standing) -> Suspect | None:
    kappa, error, typical = float(standing.kappa[person]), float(standing.error[person]), standing.typical
    if typical <= LEAST_TYPICAL or not kappa + SURE * error < 0.5 * typical:
        return None
    told = f"agreement with the others beyond chance {kappa:.2f}, where {typical:.2f} is typical here"
    return Suspect(name, "below chance" if kappa + SURE * error < 0 else "chance", n, told)


@dataclass(frozen=True)
class _Standing:
    """Each annotator's agreement with the others' consensus beyond chance, its standard error (annotators,), and what
    is typical; NaN where there is nothing to compare with."""

    kappa: Floats
    error: Floats
    typical: float

    def is_like_others(self, person: int) -> bool:
        return bool(self.kappa[person] >= 0.75 * self.typical)


def _support(annotations: Annotations, consensus: Consensus) -> Floats:
    """How probable an ordinary annotator's giving this label is, from what the others say. Shape (annotations,)."""
    options = annotations.option_counts[annotations.item].astype(np.float64)
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)
    width = int(annotations.option_counts.max(initial=1))
    key = task_of * width + annotations.label
    share = np.bincount(key, minlength=int(key.max(initial=0)) + 1)[key] / np.bincount(task_of)[task_of]
    ordinary = float(np.median(consensus.accuracy))
    judged = label_probability(ordinary, consensus.others, options)
    return np.where(annotations.annotations_per_item[annotations.item] > 1, judged, share)


def _standing(annotations: Annotations, consensus: Consensus) -> _Standing:
    compared = annotations.annotations_per_item[annotations.item] > 1
    nothing = np.full(annotations.n_annotators, np.nan)
    if not compared.any():
        return _Standing(nothing, nothing, 0.0)
    person = annotations.annotator[compared].astype(np.int64)
    agree = consensus.others[compared]
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)[compared]
    width = int(annotations.option_counts.max(initial=1))
    key = task_of * width + annotations.label[compared]
    size = int(key.max(initial=0)) + 1
    in_task = np.bincount(task_of, agree)[np.arange(size) // width]
    base = np.bincount(key, agree, minlength=size) / np.maximum(in_task, 1e-12)
    n = np.bincount(person, minlength=annotations.n_annotators).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(person, agree, minlength=len(n)) / n
        # Chance is that of the whole task, not of the items one was given: to have got one class is no fault.
        chance = np.bincount(person, base[key], minlength=len(n)) / n
        spread = np.bincount(person, agree**2, minlength=len(n)) / n - mean**2
        error = np.sqrt(np.maximum(spread, chance * (1 - chance)) / n)
        kappa, error = (mean - chance) / (1 - chance), error / (1 - chance)
    judged = (annotations.annotations_per_annotator >= ENOUGH_TO_JUDGE) & np.isfinite(kappa)
    return _Standing(kappa, error, float(np.median(kappa[judged])) if judged.any() else 0.0)


def too_few(annotations: Annotations) -> list[str]:
    """Annotators with fewer annotations than anything can be said from, fewest first."""
    counts = annotations.annotations_per_annotator
    return [annotations.annotators[i] for i in np.argsort(counts, kind="stable") if counts[i] < FEW]
