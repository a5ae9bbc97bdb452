"""Annotators over time: whether accuracy changed, and how fast they label."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from realm.crowd.accuracy import LEVEL as COVERAGE
from realm.crowd.accuracy import accuracy_posterior, histogram, pairs_of
from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import estimate
from realm.crowd.verdicts import false_discoveries, right_by_others
from realm.data import Annotations

LEAST_SEGMENT, LEAST_LABELS = 10, 20
"""Labels that others can judge on either side of a cut, and in all: a few slips at the end are no change."""
LEAST_DISPERSION = 0.1
"""Labels that nobody can judge say nothing, however alike their probabilities are."""
BLOCKS, BLOCK_LABELS = 8, 10
"""Stretches of time that accuracy is shown for at most, and labels of each at the least."""
PAUSE = 30 * 60.0
"""Seconds without a label after which a session has ended."""
Interval = tuple[float, float, float]
"""An accuracy with the ends of its 95% interval."""


class AnnotatorOverTime(NamedTuple):
    """What the times of an annotator's labels in a task show; NaN and None where there are too few.

    `labels_per_hour` is that of sessions (a pause of half an hour ends one), `lead_time` the median in seconds.
    `stretches` (n, 4) are up to 8 of 10 labels or more: when each begins, in seconds since 1970, and the accuracy in it
    with its interval. `p_value` is that of the change; `changed` says whether it is one, by the p-values of all.
    """

    annotator: str
    task: str
    labels: int
    first: datetime
    last: datetime
    labels_per_hour: float
    lead_time: float
    stretches: Floats
    p_value: float = float("nan")
    changed: bool = False
    changed_at: datetime | None = None
    before: Interval | None = None
    after: Interval | None = None

    @property
    def fell(self) -> bool:
        """Whether accuracy fell, by chance or beyond it."""
        return self.before is not None and self.after is not None and self.after < self.before

    @property
    def change(self) -> str:
        """ "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04" """
        parts = [f"{share:.0%} ({low:.0%}–{high:.0%})" for share, low, high in filter(None, (self.before, self.after))]
        return f"accuracy {'fell' if self.fell else 'rose'} from {parts[0]} to {parts[1]} on {self.changed_at:%Y-%m-%d}"


def over_time(annotations: Annotations, right: Floats | None = None) -> list[AnnotatorOverTime]:
    """Every annotator in every task, in that order, as far as labels have a time; empty where none has.

    A change is the cut of the labels, in the order of their times, into two parts of different accuracy that explains
    best whether they are right by the other annotators of their items. `right` (annotations,) is the probability of
    that, NaN where there are no others; without it annotators are estimated from the labels alone.
    """
    times, pair = annotations.created_at, pairs_of(annotations)
    if times is None or not np.isfinite(times).any():
        return []
    right = right_by_others(annotations, estimate(annotations)) if right is None else right
    known = np.flatnonzero(np.isfinite(times))
    rows = known[np.lexsort((known, times[known], pair[known]))]  # of labels of one time the table's order decides
    groups = np.split(rows, np.flatnonzero(np.diff(pair[rows])) + 1)
    judged = [own[np.isfinite(right[own])] for own in groups]
    cuts = [change_point(right[own]) for own in judged]
    changed = false_discoveries(np.array([p_value for _, p_value in cuts]))
    blocks = [np.array_split(own, min(BLOCKS, len(own) // BLOCK_LABELS) or 1) for own in judged]
    parts = [[own[:cut], own[cut:], *each] for own, (cut, _), each in zip(judged, cuts, blocks, strict=True)]
    figures = accuracies([part for own in parts for part in own], right, annotations.option_counts[annotations.item])
    figures_of = np.split(figures, np.cumsum([len(own) for own in parts]))
    annotators = []
    for index, own in enumerate(groups):
        annotator, task = divmod(int(pair[own[0]]), len(annotations.tasks))
        gaps, (cut, p_value) = np.diff(times[own]), cuts[index]
        working = gaps[gaps <= PAUSE]
        lead = np.zeros(0) if annotations.lead_time is None else annotations.lead_time[own]
        starts = [times[part[0]] for part in blocks[index] if len(judged[index]) >= BLOCK_LABELS]
        each = AnnotatorOverTime(
            annotations.annotators[annotator],
            annotations.tasks[task].name,
            labels=len(own),
            first=datetime.fromtimestamp(times[own[0]], UTC),
            last=datetime.fromtimestamp(times[own[-1]], UTC),
            labels_per_hour=float(3600 * len(working) / working.sum()) if working.any() else float("nan"),
            lead_time=float(np.nanmedian(lead)) if np.isfinite(lead).any() else float("nan"),
            stretches=np.column_stack([starts, figures_of[index][2 : 2 + len(starts)]]),
        )
        if np.isfinite(p_value):
            each = each._replace(
                p_value=p_value,
                changed=bool(changed[index]),
                changed_at=datetime.fromtimestamp(times[judged[index][cut]], UTC),
                before=tuple(figures_of[index][0].tolist()),
                after=tuple(figures_of[index][1].tolist()),
            )
        annotators.append(each)
    return annotators


def change_point(right: Floats) -> tuple[int, float]:
    """The best cut of r (labels,) in their order, and its p-value; NaN below `LEAST_LABELS`.

    A cut c is as good as the log-likelihood ratio of two accuracies against one, LR(c) = c h(mean before) +
    (n - c) h(mean after) - n h(mean) with h(p) = p log p + (1 - p) log(1 - p), over the dispersion of r (its variance
    over mean (1 - mean): 1 where every r is 0 or 1). Of somebody steady x = sqrt(2 max LR) is the largest of a
    standardised random walk, whose tail James, James and Siegmund (1987, Biometrika 74) give:
    P(max > x) = x phi(x) [(1 - 1/x^2) log((1 - h)^2 / h^2) + 4 / x^2], with h = `LEAST_SEGMENT` / n.
    """
    n = len(right)
    if n < LEAST_LABELS:
        return 0, float("nan")

    def likelihood(successes: Floats, n: Ints | int) -> Floats:
        share = np.clip(successes / n, 0.0, 1.0)
        return np.asarray(n * (xlogy(share, share) + xlogy(1 - share, 1 - share)))

    before, sums, mean = np.arange(LEAST_SEGMENT, n - LEAST_SEGMENT + 1), np.cumsum(right), float(right.mean())
    first, total = sums[before - 1], sums[-1]
    ratio = likelihood(first, before) + likelihood(total - first, n - before) - likelihood(total, n)
    dispersion = float(np.clip(right.var() / max(mean * (1 - mean), 1e-12), LEAST_DISPERSION, 1.0))
    x = max(float(np.sqrt(2 * max(ratio.max(), 0.0) / dispersion)), 1.5)  # below, the probability is 1 anyway
    share = LEAST_SEGMENT / n
    bracket = (1 - 1 / x**2) * 2 * np.log((1 - share) / share) + 4 / x**2
    p_value = x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * bracket
    return int(before[ratio.argmax()]), min(float(p_value), 1.0)


def accuracies(parts: list[Ints], right: Floats, options: Ints) -> Floats:
    """Accuracy, low and high in each part (a list of annotations), drawn to that of all parts. Shape (parts, 3)

    `right` and `options` (annotations,) are of all.
    """
    rows, group = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if not len(rows):
        return np.full((len(parts), 3), np.nan)
    counts, none = histogram(right[rows], group, len(parts), np.ones(len(rows))), np.full(len(parts), np.nan)
    k = float(options[rows].mean())
    posterior = accuracy_posterior(counts, k, 1 / k, np.zeros(len(parts), np.int64), none, none)
    return np.stack([posterior.mean, *(posterior.quantile((1 + side * COVERAGE) / 2) for side in (-1, 1))], axis=1)
