"""Annotators whose labels carry no information, as far as labels alone show it.

An annotator may give the same label always, labels in turn, or labels that the others do not bear out. Who copies is
found in `realm.crowd.copies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import pairs_of
from realm.crowd.consensus import Consensus, fit_consensus
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import Annotations

CHANCE = 1e-4
"""A pattern is reported when luck produces it this rarely, over all annotators or pairs: one table in ten thousand."""
FEW = 10
"""Annotations below which nothing is said of an annotator: shorter patterns are common by luck."""
ENOUGH_TO_JUDGE = 20
"""Annotations from which agreement is judged: its standard error is then about 0.1."""
READS = 0.5
"""One answer always is reported of those who would hardly have given it if they read half of the items."""
LONGEST_PERIOD = 6
"""Of labels in turn: nobody keeps a longer list going by hand."""
STANDARD_ERRORS = 2.5
"""How far below half the typical agreement an annotator must be: about one honest annotator in 160 is, by luck."""
LEAST_TYPICAL = 0.1
"""Typical agreement below which nobody is judged by it: everybody is close to chance."""
ORDINARY_SHARE = 0.75
"""An annotator with this share of the typical agreement is like the others, however their labels look."""
TINY = 1e-12
"""Keeps a probability that is divided by above 0."""
Kind = Literal["constant", "alternating", "chance", "below chance"]
KINDS: tuple[Kind, Kind] = ("constant", "alternating")
"""The patterns that labels show by themselves."""


@dataclass(frozen=True)
class Suspect:
    """An annotator to look at (by index): in which task (None: over all), what they seem to do, and in words."""

    annotator: int
    task: int | None
    kind: Kind
    evidence: str


def find_suspects(annotations: Annotations) -> list[Suspect]:
    """Each annotator at most once in a task, the plainest pattern first."""
    consensus = fit_consensus(annotations)
    suspects = _confirmed(annotations, _patterns(annotations), consensus)
    agreement = _agreement(annotations, consensus, annotations.annotator, annotations.n_annotators)
    patterned = {suspect.annotator for suspect in suspects}
    for index in np.flatnonzero(annotations.annotations_per_annotator >= ENOUGH_TO_JUDGE).tolist():
        suspect = None if index in patterned else _by_chance(index, agreement)
        if suspect is not None:
            suspects.append(suspect)
    return sorted(suspects, key=lambda suspect: suspect.annotator)


def fixed_patterns(annotations: Annotations) -> list[Suspect]:
    """Those of `find_suspects` who always give the same answer, or answers in turn.

    Where nobody seems to, which is the rule, the others need not be asked what they make of the items.
    """
    patterns = _patterns(annotations)
    if not patterns:
        return []
    return _confirmed(annotations, patterns, fit_consensus(annotations))


def _patterns(annotations: Annotations) -> list[tuple[Suspect, Indices]]:
    """Who gave one label only, or labels in turn, in a task, and by which annotations, in the order of the rows."""
    order = annotations.item if annotations.source_rows is None else annotations.source_rows
    pair, n_tasks = pairs_of(annotations), len(annotations.tasks)
    n_pairs = annotations.n_annotators * n_tasks
    rows = np.lexsort((order, pair))
    counts = np.bincount(pair, minlength=n_pairs)
    stops = np.cumsum(counts)
    patterns = []
    for index in np.flatnonzero(counts >= FEW).tolist():
        own = rows[stops[index] - counts[index] : stops[index]]
        words = _constant(annotations, own), _alternating(annotations, own)
        for kind, evidence in zip(KINDS, words, strict=True):
            if evidence:
                patterns.append((Suspect(*divmod(index, n_tasks), kind, evidence), own))
                break
    return patterns


def _confirmed(
    annotations: Annotations, patterns: list[tuple[Suspect, Indices]], consensus: Consensus
) -> list[Suspect]:
    """Those whose pattern is not simply that of their items."""
    n_tasks = len(annotations.tasks)
    agreement = _agreement(annotations, consensus, pairs_of(annotations), annotations.n_annotators * n_tasks)
    support = _support(annotations, consensus)
    suspects = []
    for suspect, own in patterns:
        kappa = agreement.kappa[suspect.annotator * n_tasks + (suspect.task or 0)]
        luck = np.log(support[own]).sum() + np.log(annotations.n_annotators)
        if suspect.kind == "constant":
            confirmed = luck < np.log(CHANCE)
        else:
            confirmed = not kappa >= ORDINARY_SHARE * agreement.typical
        if confirmed:
            suspects.append(suspect)
    return suspects


def _constant(annotations: Annotations, own: Indices) -> str | None:
    labels = annotations.label[own]
    if (labels != labels[0]).any():
        return None
    return f"always answers {answer_in_words(annotations, int(own[0]))}"


def answer_in_words(annotations: Annotations, row: int) -> str:
    """The label of an annotation: its name, or its place where items list options of their own."""
    label, item = int(annotations.label[row]), int(annotations.item[row])
    names = annotations.tasks[annotations.item_tasks[item]].labels
    return f"the {ordinal(label + 1)} option" if names is None else f"`{names[label]}`"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def _alternating(annotations: Annotations, own: Indices) -> str | None:
    """The same few labels over and over, where chance would hardly have kept the order."""
    labels, n = annotations.label[own], len(own)
    repeat_by_luck = float(((np.bincount(labels) / n) ** 2).sum())
    for period in range(2, min(LONGEST_PERIOD, n // 3) + 1):
        if repeat_by_luck < 1 and (labels[period:] == labels[:-period]).all():
            if (n - period) * np.log(repeat_by_luck) + np.log(annotations.n_annotators) >= np.log(CHANCE):
                return None
            return f"repeats the same {period} answers in turn"
    return None


def _by_chance(index: int, agreement: _Agreement) -> Suspect | None:
    kappa, typical = float(agreement.kappa[index]), agreement.typical
    highest = kappa + STANDARD_ERRORS * float(agreement.error[index])
    if typical <= LEAST_TYPICAL or not highest < 0.5 * typical:
        return None
    # without the sign of a negative number that is rounded to zero
    evidence = f"chance-corrected agreement with the others {round(kappa, 2) + 0.0:.2f}, typical here {typical:.2f}"
    return Suspect(index, None, "below chance" if highest < 0 else "chance", evidence)


def _support(annotations: Annotations, consensus: Consensus) -> Floats:
    """How probable this label is of somebody who reads half of the items and else always gives it. (annotations,)

    It is below 1 where the others say something else; on items that nobody else labelled, as often as the task's
    labels do.
    """
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)
    key = _task_label(annotations)
    share = np.bincount(key)[key] / np.bincount(task_of)[task_of]
    right = np.where(annotations.annotations_per_item[annotations.item] > 1, consensus.others, share)
    return np.asarray(1 - READS * (1 - right))


def _task_label(annotations: Annotations) -> Indices:
    """A number for each annotation's (task, label). Shape (annotations,)."""
    width = int(annotations.option_counts.max(initial=1))
    return annotations.item_tasks[annotations.item].astype(np.int64) * width + annotations.label


@dataclass(frozen=True)
class _Agreement:
    """Each group's agreement with the others' consensus beyond chance, its standard error (groups,), and what is
    typical; NaN where there is nothing to compare with."""

    kappa: Floats
    error: Floats
    typical: float


def _agreement(
    annotations: Annotations, consensus: Consensus, group: npt.NDArray[np.integer], n_groups: int
) -> _Agreement:
    """By annotator, or by annotator and task: `group` (annotations,) says by what."""
    shared = annotations.annotations_per_item[annotations.item] > 1
    if not shared.any():
        nothing = np.full(n_groups, np.nan)
        return _Agreement(nothing, nothing, 0.0)
    agree, key = consensus.others[shared], _task_label(annotations)[shared]
    task_of = annotations.item_tasks[annotations.item].astype(np.int64)[shared]
    # Chance is that of the whole task, not of the items one was given: to have got one class is no fault.
    base = np.bincount(key, agree)[key] / np.maximum(np.bincount(task_of, agree)[task_of], TINY)

    def sums(values: Floats | None = None) -> Floats:
        return np.bincount(group[shared], values, n_groups).astype(np.float64)

    n = sums()
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, chance = sums(agree) / n, sums(base) / n
        spread = sums(agree**2) / n - mean**2
        error = np.sqrt(np.maximum(spread, chance * (1 - chance)) / n) / (1 - chance)
        kappa = (mean - chance) / (1 - chance)
    enough = (np.bincount(group, minlength=n_groups) >= ENOUGH_TO_JUDGE) & np.isfinite(kappa)
    return _Agreement(kappa, error, float(np.median(kappa[enough])) if enough.any() else 0.0)
