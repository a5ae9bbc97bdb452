"""Annotators over time: whether accuracy changed, and how fast they label.

A change is the cut of an annotator's labels, in the order of their times, into two parts of different accuracy that
explains best whether the labels are right by the other annotators of their items. Items that nobody else labelled are
left out; all annotators are judged together at one false discovery rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from realm.crowd.accuracy import LEVEL as COVERAGE
from realm.crowd.accuracy import accuracy_posterior, histogram, pairs_of
from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import estimate
from realm.crowd.verdicts import false_discoveries, judged_by_others
from realm.data import Annotations

LEAST_SEGMENT, LEAST_LABELS = 10, 20
"""Labels that others can judge on either side of a cut, and in all: a few slips at the end are no change."""
LEAST_DISPERSION = 0.1
"""Labels that nobody can judge say nothing, however alike their probabilities are."""
BLOCKS, BLOCK_LABELS = 8, 10
"""Stretches of time that accuracy is shown for at most, and labels of each at the least."""
PAUSE = 30 * 60.0
"""Seconds without a label after which a session has ended."""
CHUNK_SIZE = 10_000
"""Stretches of time whose accuracies are computed at once: 20 MB."""


@dataclass(frozen=True, eq=False)
class Drift:
    """Where an annotator's accuracy changed most, and how improbable that is of somebody steady.

    `flagged` says whether it is a change, by the p-values of all annotators together; `time` is that of the first label
    after it, in seconds since 1970; `before` and `after` are (accuracy, low, high) with a 95% interval.
    """

    p_value: float
    flagged: bool
    time: float
    before: tuple[float, float, float]
    after: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class AnnotatorOverTime:
    """What the times of an annotator's labels in a task show. `nan` where there are too few.

    | field | shape | meaning |
    |---|---|---|
    | annotator, task | | rows of the table |
    | labels | | how many of the labels have a time |
    | first, last | | seconds since 1970 |
    | per_hour | | labels per hour of sessions, which end with a pause of half an hour |
    | lead_time | | the median, in seconds |
    | times, accuracy, low, high | (blocks,) | when each stretch begins, and the accuracy in it with its interval |
    | drift | | None where fewer than 20 labels can be judged |
    """

    annotator: int
    task: int
    labels: int
    first: float
    last: float
    per_hour: float
    lead_time: float
    times: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    drift: Drift | None = None


def over_time(annotations: Annotations, right: Floats | None = None) -> list[AnnotatorOverTime]:
    """Every annotator in every task, in that order, as far as labels have a time; empty where none has.

    `right` (annotations,) is the probability that each label is right by the others of its item, NaN where there are
    none (`realm.crowd.verdicts`); without it annotators are estimated from the labels alone.
    """
    times = annotations.created_at
    if times is None or not np.isfinite(times).any():
        return []
    right = judged_by_others(annotations, estimate(annotations)).right if right is None else right
    known, pair = np.flatnonzero(np.isfinite(times)), pairs_of(annotations)
    rows = known[np.lexsort((known, times[known], pair[known]))]  # of labels of one time the table's order decides
    groups = np.split(rows, np.flatnonzero(np.diff(pair[rows])) + 1)
    judged = [own[np.isfinite(right[own])] for own in groups]
    cuts = [change_point(right[own]) for own in judged]
    flagged = false_discoveries(np.array([p_value for _, p_value in cuts]))
    blocks = [np.array_split(own, min(BLOCKS, len(own) // BLOCK_LABELS) or 1) for own in judged]
    parts = [[*each, own[:cut], own[cut:]] for each, own, (cut, _) in zip(blocks, judged, cuts, strict=True)]
    figures = accuracies([part for own in parts for part in own], right, annotations.option_counts[annotations.item])
    figures_of = np.split(figures, np.cumsum([len(own) for own in parts]))
    annotators = []
    for index, own in enumerate(groups):
        cut, p_value = cuts[index]
        *shown, before, after = figures_of[index].tolist()
        enough = len(judged[index]) >= BLOCK_LABELS
        shares = np.array(shown).reshape(-1, 3)[: len(shown) * enough]
        drift = None
        if np.isfinite(p_value):
            drift = Drift(p_value, bool(flagged[index]), float(times[judged[index][cut]]), tuple(before), tuple(after))
        lead = np.zeros(0) if annotations.lead_time is None else annotations.lead_time[own]
        annotators.append(
            AnnotatorOverTime(
                *divmod(int(pair[own[0]]), len(annotations.tasks)),
                labels=len(own),
                first=float(times[own[0]]),
                last=float(times[own[-1]]),
                per_hour=labels_per_hour(times[own]),
                lead_time=float(np.nanmedian(lead)) if np.isfinite(lead).any() else float("nan"),
                times=np.array([times[part[0]] for part in blocks[index][: len(shares)]]),
                accuracy=shares[:, 0],
                low=shares[:, 1],
                high=shares[:, 2],
                drift=drift,
            )
        )
    return annotators


def change_point(right: Floats) -> tuple[int, float]:
    """The best cut of r (labels,) in their order, and its p-value; NaN below `LEAST_LABELS`.

    A cut c is as good as the log-likelihood ratio of two accuracies against one, LR(c) = c h(mean before) +
    (n - c) h(mean after) - n h(mean) with h(p) = p log p + (1 - p) log(1 - p), over the dispersion of r (its variance
    over mean (1 - mean): 1 where every r is 0 or 1). Of somebody steady x = sqrt(2 max LR) is the largest of a
    standardised random walk, whose tail James, James and Siegmund (1987, Biometrika 74) give:
    P(max > x) = x phi(x) [(1 - 1/x^2) log((1 - h)^2 / h^2) + 4 / x^2], with h = `LEAST_SEGMENT` / n. (Simulated
    accuracies of .6 to .97 and 20 to 600 labels exceed it no more often than it says.)
    """
    n = len(right)
    if n < LEAST_LABELS:
        return 0, float("nan")
    before, sums, mean = np.arange(LEAST_SEGMENT, n - LEAST_SEGMENT + 1), np.cumsum(right), float(right.mean())
    first, total = sums[before - 1], sums[-1]
    ratio = _likelihood(first, before) + _likelihood(total - first, n - before) - _likelihood(total, n)
    dispersion = float(np.clip(right.var() / max(mean * (1 - mean), 1e-12), LEAST_DISPERSION, 1.0))
    x = max(float(np.sqrt(2 * max(ratio.max(), 0.0) / dispersion)), 1.5)  # below, the probability is 1 anyway
    share = LEAST_SEGMENT / n
    bracket = (1 - 1 / x**2) * 2 * np.log((1 - share) / share) + 4 / x**2
    p_value = x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * bracket
    return int(before[ratio.argmax()]), min(float(p_value), 1.0)


def _likelihood(successes: Floats, n: Ints | int) -> Floats:
    """n h(successes / n): the log-likelihood at its maximum."""
    share = np.clip(successes / n, 0.0, 1.0)
    return np.asarray(n * (xlogy(share, share) + xlogy(1 - share, 1 - share)))


def accuracies(parts: list[Ints], right: Floats, options: Ints) -> Floats:
    """Accuracy and its 95% interval in each part, (accuracy, low, high): drawn to that of all parts. Shape (parts, 3)

    A part is a list of annotations; `right` and `options` (annotations,) are of all.
    """
    figures = np.full((len(parts), 3), np.nan)
    for start in range(0, len(parts), CHUNK_SIZE):
        chunk = parts[start : start + CHUNK_SIZE]
        rows, group = np.concatenate(chunk), np.repeat(np.arange(len(chunk)), [len(part) for part in chunk])
        if not len(rows):
            continue
        counts, none = histogram(right[rows], group, len(chunk), np.ones(len(rows))), np.full(len(chunk), np.nan)
        k = float(options[rows].mean())
        posterior = accuracy_posterior(counts, k, 1 / k, np.zeros(len(chunk), np.int64), none, none)
        ends = (posterior.quantile(level) for level in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
        figures[start : start + CHUNK_SIZE] = np.stack([posterior.mean, *ends], axis=1)
    return figures


def labels_per_hour(times: Floats) -> float:
    """Labels per hour of work: gaps longer than `PAUSE` do not count. NaN where no two labels are near each other."""
    gaps = np.diff(times)
    within = gaps[gaps <= PAUSE]
    return float(3600 * len(within) / within.sum()) if within.sum() > 0 else float("nan")
