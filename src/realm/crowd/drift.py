"""Annotators over time: whether accuracy changed, and how fast they label.

The labels of an annotator in a task, in the order of their times, are cut at every place in turn. With r the
probability that a label is right by the other annotators of its item, a cut is as good as the log-likelihood ratio of
two accuracies against one,

    LR(c) = c h(mean of r before) + (n - c) h(mean of r after) - n h(mean of r),   h(p) = p log p + (1 - p) log(1 - p)

and the statistic is its maximum over c, divided by the dispersion of r (its variance over mean (1 - mean): 1 where
every r is 0 or 1, less where the others are unsure). Of somebody steady x = sqrt(2 max LR) is the largest of a
standardised random walk, whose tail James, James and Siegmund (1987, Biometrika 74) give: with h = `LEAST_SEGMENT` / n

    P(max > x) = x phi(x) [(1 - 1/x^2) log((1 - h)^2 / h^2) + 4 / x^2]

(simulated accuracies of .6 to .97 and 20 to 1,000 labels exceed it at most as often as it says). The p-values of all
annotators are judged together. Labels of items that nobody else labelled are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.others import judged_by_others
from realm.data import Annotations

LEAST_LABELS = 20
"""Labels that others can judge from which drift is looked for: ten before and ten after."""
LEAST_SEGMENT = 5
"""Labels on either side of a cut: one slip at the end is no change."""
LEAST_DISPERSION = 0.1
"""Labels that nobody can judge say nothing, however alike their r are."""
LEVEL = 0.05
"""The false discovery rate of every screen that names annotators."""
BLOCKS, BLOCK_LABELS = 8, 10
"""Stretches of time that accuracy is shown for at most, and labels of each at the least."""
PAUSE = 30 * 60.0
"""Seconds without a label after which a session has ended."""
GRID = np.linspace(0.0025, 0.9975, 200)
"""Accuracies whose likelihood is taken."""
STEPS = 100
"""Values that r is rounded to there: an accuracy is known to no better than a hundredth."""
CHUNK_SIZE = 10_000
"""Stretches of time whose likelihoods are computed at once: 16 MB."""
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Drift:
    """Where an annotator's accuracy changed most, and how improbable that is of somebody steady.

    | field | meaning |
    |---|---|
    | p_value | of so large a change somewhere |
    | flagged | whether the p-values of all annotators together say that this one has changed |
    | time | of the first label after the change, seconds since 1970 |
    | before, after | accuracy with its 95% interval: (accuracy, low, high) |
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
    none (`realm.crowd.others`); without it annotators are estimated from the labels alone.
    """
    times = annotations.created_at
    if times is None or not np.isfinite(times).any():
        return []
    if right is None:
        right = _right(annotations)
    known, pair = np.flatnonzero(np.isfinite(times)), pairs_of(annotations)
    rows = known[np.lexsort((known, times[known], pair[known]))]  # of labels of one time the table's order decides
    pairs, starts = np.unique(pair[rows], return_index=True)
    judged = rows[np.isfinite(right[rows])]
    place = np.searchsorted(pairs, pair[judged])  # of the pair of each judged label, ascending
    counts = np.bincount(place, minlength=len(pairs))
    first = np.cumsum(counts) - counts
    options = annotations.option_counts[annotations.item[judged]]
    cut, p_value = change_points(right[judged], counts)
    flagged = false_discoveries(p_value, LEVEL)
    position = np.arange(len(judged)) - first[place]
    halves = accuracies(2 * place + (position >= cut[place]), right[judged], options, 2 * len(pairs))
    n_blocks = np.minimum(BLOCKS, counts // BLOCK_LABELS)
    first_block = np.cumsum(n_blocks) - n_blocks
    block = first_block[place] + position * n_blocks[place] // np.maximum(counts[place], 1)
    shown = n_blocks[place] > 0
    blocks = accuracies(block[shown], right[judged][shown], options[shown], int(n_blocks.sum()))
    _, block_starts = np.unique(block[shown], return_index=True)
    block_times = times[judged[shown][block_starts]]
    annotators = []
    for index, own in enumerate(np.split(rows, starts[1:])):
        drift = None
        if np.isfinite(p_value[index]):
            before, after = (tuple(halves[2 * index + side].tolist()) for side in (0, 1))
            when = float(times[judged[first[index] + cut[index]]])
            drift = Drift(float(p_value[index]), bool(flagged[index]), when, before, after)
        part = slice(first_block[index], first_block[index] + n_blocks[index])
        annotators.append(
            AnnotatorOverTime(
                *divmod(int(pairs[index]), len(annotations.tasks)),
                labels=len(own),
                first=float(times[own[0]]),
                last=float(times[own[-1]]),
                per_hour=labels_per_hour(times[own]),
                lead_time=_median(annotations.lead_time, own),
                times=block_times[part],
                accuracy=blocks[part, 0],
                low=blocks[part, 1],
                high=blocks[part, 2],
                drift=drift,
            )
        )
    return annotators


def _right(annotations: Annotations) -> Floats:
    from realm.crowd.estimate import estimate

    return judged_by_others(annotations, estimate(annotations)).right


def change_points(right: Floats, counts: Ints) -> tuple[Ints, Floats]:
    """The best cut of each annotator's r, and its p-value (NaN below `LEAST_LABELS`). Shapes (annotators,).

    `right` (labels,) holds one annotator's labels after another's, in their order; `counts` (annotators,) how many.
    """
    n: Floats = np.repeat(counts, counts).astype(np.float64)
    first = np.cumsum(counts) - counts
    sums = np.concatenate([[0.0], np.cumsum(right)])
    total = np.repeat(sums[first + counts] - sums[first], counts)
    before: Floats = (np.arange(len(right)) - np.repeat(first, counts) + 1).astype(np.float64)  # with this label
    part = sums[1:] - np.repeat(sums[first], counts)
    inside = (before >= LEAST_SEGMENT) & (n - before >= LEAST_SEGMENT)
    ratio = np.full(len(right), -np.inf)
    before, part, total, n = before[inside], part[inside], total[inside], n[inside]
    ratio[inside] = _likelihood(part, before) + _likelihood(total - part, n - before) - _likelihood(total, n)
    cut, p_value = np.zeros(len(counts), np.int64), np.full(len(counts), np.nan)
    enough = np.flatnonzero(counts >= LEAST_LABELS)
    if len(enough):
        owner = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((np.arange(len(ratio)), -ratio, owner))  # the best cut of each first
        best = order[first[enough]]
        cut[enough] = best - first[enough] + 1
        mean, square = (np.bincount(owner, values, minlength=len(counts))[enough] / counts[enough]
                        for values in (right, right**2))  # fmt: skip
        dispersion = np.clip((square - mean**2) / np.maximum(mean * (1 - mean), TINY), LEAST_DISPERSION, 1.0)
        x = np.sqrt(2 * np.maximum(ratio[best], 0.0) / dispersion)
        p_value[enough] = _tail(x, LEAST_SEGMENT / counts[enough])
    return cut, p_value


def _likelihood(successes: Floats, n: Floats) -> Floats:
    """n h(successes / n): the log-likelihood at its maximum."""
    p = np.clip(successes / n, TINY, 1 - TINY)
    return np.asarray(n * (p * np.log(p) + (1 - p) * np.log1p(-p)))


def _tail(x: Floats, share: Floats) -> Floats:
    """P(max > x) of somebody steady, where the shortest segment is this share of the labels: see the module."""
    x = np.maximum(x, 1.5)  # below it the probability is 1 by any formula
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    tail = x * density * ((1 - 1 / x**2) * 2 * np.log((1 - share) / share) + 4 / x**2)
    return np.asarray(np.minimum(tail, 1.0))


def false_discoveries(p_values: Floats, level: float, tests: int | None = None) -> Bools:
    """Which p-values (NaN: none) are discoveries at this false discovery rate, by Benjamini and Hochberg (1995).

    `tests` is how many there were, where the p-values of those that are certainly none are left out.
    """
    known = np.flatnonzero(np.isfinite(p_values))
    flagged = np.zeros(len(p_values), dtype=bool)
    order = known[np.argsort(p_values[known], kind="stable")]
    below = np.flatnonzero(p_values[order] <= level * np.arange(1, len(order) + 1) / max(tests or len(order), 1))
    if len(below):
        flagged[order[: below[-1] + 1]] = True
    return flagged


def accuracies(group: npt.NDArray[np.integer], right: Floats, options: npt.NDArray[np.integer], n: int) -> Floats:
    """Accuracy and its 95% interval of `n` groups of labels, under a flat prior. Shape (n, 3)

    `group`, `right`, `options` are (labels,): the group, the probability by others that the label is right, and K. The
    likelihood of a label is a r + (1 - a) (1 - r) / (K - 1).
    """
    level = np.rint(right * STEPS).astype(np.int64)
    counts = np.bincount(group * (STEPS + 1) + level, minlength=n * (STEPS + 1)).reshape(n, STEPS + 1)
    others = np.bincount(group, 1 / np.maximum(options - 1, 1), minlength=n) / np.maximum(counts.sum(axis=1), 1)
    others = np.round(others, 2)
    shares = np.arange(STEPS + 1) / STEPS
    figures = np.empty((n, 3))
    for spread in np.unique(others):  # one number of options as a rule
        rows = np.flatnonzero(others == spread)
        logs = np.log(np.maximum(np.outer(shares, GRID) + spread * np.outer(1 - shares, 1 - GRID), TINY))
        for start in range(0, len(rows), CHUNK_SIZE):
            part = rows[start : start + CHUNK_SIZE]
            values = counts[part] @ logs
            mass = np.exp(values - values.max(axis=1, keepdims=True))
            mass /= mass.sum(axis=1, keepdims=True)
            below = np.cumsum(mass, axis=1)
            figures[part, 0] = mass @ GRID
            for column, tail in ((1, 0.025), (2, 0.975)):
                figures[part, column] = [np.interp(tail, row, GRID) for row in below]
    return figures


def labels_per_hour(times: Floats) -> float:
    """Labels per hour of work: gaps longer than `PAUSE` do not count. NaN where no two labels are near each other."""
    gaps = np.diff(times)
    within = gaps[gaps <= PAUSE]
    return float(3600 * len(within) / within.sum()) if within.sum() > 0 else float("nan")


def _median(values: Floats | None, rows: Ints) -> float:
    known = np.zeros(0) if values is None else values[rows][np.isfinite(values[rows])]
    return float(np.median(known)) if len(known) else float("nan")
