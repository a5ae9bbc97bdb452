"""Annotators over time: whether accuracy changed, how fast they label, and streaks of one answer.

**Drift.** The labels of an annotator in a task, in the order of their times, are cut at every place in turn. With r the
probability that a label is right, by the other annotators of its item (`realm.crowd.consensus`), a cut is as good as
the log-likelihood ratio of two accuracies against one,

    LR(c) = c h(mean of r before) + (n - c) h(mean of r after) - n h(mean of r),   h(p) = p log p + (1 - p) log(1 - p),

which is the Bernoulli one where every r is 0 or 1. The statistic is its maximum over c. Its null distribution is that
of the same labels in random order: an annotator who is steady gives them in any order alike, whatever r is. The
p-values of all annotators are judged together (Benjamini and Hochberg 1995), so that where all are steady some
annotator is flagged in one table of twenty. Labels of items that nobody else labelled say nothing and are left out.

**Accuracy** in a stretch of time is that of a coin whose labels are judged by r, a posterior on a grid under a flat
prior, with its equal-tailed 95% interval.

**Streaks.** That some answer of share p is given L times in a row somewhere among n labels has a probability of
(1 + (n - L) (1 - p)) p^L at most; summed over the answers this is what `streak_p` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.crowd.consensus import fit_consensus
from realm.crowd.evidence import Floats
from realm.data import Annotations

LEAST_LABELS = 20
"""Labels that others can judge from which drift is looked for: ten before and ten after at the least."""
LEAST_SEGMENT = 5
"""Labels on either side of a cut: one slip at the end is no change."""
LEVEL = 0.05
"""The false discovery rate at which an annotator is said to have changed."""
FIRST, MORE = 199, 9_999
"""Random orders for everybody, and for those whose p-value is then below `LEVEL`."""
CHUNK_SIZE = 2**22
"""Labels in random order at once: 32 MB."""
BLOCKS, BLOCK_LABELS = 8, 10
"""Stretches of time that accuracy is shown for at most, and labels of each at the least."""
PAUSE = 30 * 60.0
"""Seconds without a label after which a session has ended."""
STREAK_LEVEL = 0.001
"""A streak that chance would give with a smaller probability is told of."""
GRID = np.linspace(0.0025, 0.9975, 200)
"""Accuracies of the grid."""
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Drift:
    """Where an annotator's accuracy changed most, and how improbable that is of somebody steady.

    | field | meaning |
    |---|---|
    | p_value | by random orders |
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
    | streak, streak_label, streak_p | | the longest streak of one answer, the answer, and a bound on its p-value |
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
    streak: int
    streak_label: int
    streak_p: float
    times: Floats = field(default_factory=lambda: np.zeros(0))
    accuracy: Floats = field(default_factory=lambda: np.zeros(0))
    low: Floats = field(default_factory=lambda: np.zeros(0))
    high: Floats = field(default_factory=lambda: np.zeros(0))
    drift: Drift | None = None


def over_time(annotations: Annotations, seed: int = 0, *, changes: bool = True) -> list[AnnotatorOverTime]:
    """Every annotator in every task, in that order, as far as labels have a time; empty where none has.

    `changes=False` looks for no change and judges no label: what is left is how fast they are, and streaks.
    """
    times = annotations.created_at
    if times is None:
        return []
    judged = (annotations.annotations_per_item[annotations.item] > 1) & changes
    right = fit_consensus(annotations).others if judged.any() else np.zeros(len(annotations))
    task = annotations.item_tasks[annotations.item]
    pair = annotations.annotator.astype(np.int64) * len(annotations.tasks) + task
    known = np.flatnonzero(np.isfinite(times))
    # of labels of one time the table's order decides
    order = known[np.lexsort((known, times[known], pair[known]))]
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    groups = np.split(order, starts[1:]) if len(order) else []
    generator = np.random.default_rng(seed)
    scans = [_scan(annotations, rows[judged[rows]], right, generator) for rows in groups]
    flagged = false_discoveries(np.array([np.nan if scan is None else scan.p_value for scan in scans]), LEVEL)
    return [
        _annotator(annotations, rows, judged, right, scan, bool(flag))
        for rows, scan, flag in zip(groups, scans, flagged, strict=True)
    ]


# -------------------------------------------------------------------- the change


@dataclass(frozen=True, eq=False)
class _Scan:
    rows: npt.NDArray[np.int64]
    cut: int
    p_value: float


def _scan(
    annotations: Annotations, rows: npt.NDArray[np.int64], right: Floats, generator: np.random.Generator
) -> _Scan | None:
    if len(rows) < LEAST_LABELS:
        return None
    cut, p_value = change_point(right[rows], generator)
    return _Scan(rows, cut, p_value)


def change_point(right: Floats, generator: np.random.Generator) -> tuple[int, float]:
    """The best cut of r (labels,) in their order, and its p-value by random orders.

    Those that `FIRST` orders find improbable are asked about `MORE`.
    """
    statistics = segment_ratios(right[None])[0]
    cut = int(statistics.argmax()) + LEAST_SEGMENT
    observed = float(statistics.max()) - TINY  # rounding is no difference
    p_value = 1.0
    for orders in (FIRST, MORE):
        exceeding, done = 0, 0
        while done < orders:
            n = min(orders - done, max(CHUNK_SIZE // len(right), 1))
            shuffled = generator.permuted(np.broadcast_to(right, (n, len(right))), axis=1)
            exceeding += int((segment_ratios(shuffled).max(axis=1) >= observed).sum())
            done += n
        p_value = (1 + exceeding) / (1 + orders)
        if p_value > LEVEL:
            break
    return cut, p_value


def segment_ratios(right: Floats) -> Floats:
    """LR of every cut that leaves `LEAST_SEGMENT` labels on either side. (orders, labels) to (orders, cuts)."""
    n = right.shape[1]
    before = np.arange(LEAST_SEGMENT, n - LEAST_SEGMENT + 1)
    sums = np.cumsum(right, axis=1)
    first, total = sums[:, before - 1], sums[:, -1:]
    return np.asarray(_likelihood(first, before) + _likelihood(total - first, n - before) - _likelihood(total, n))


def _likelihood(successes: Floats, n: npt.ArrayLike) -> Floats:
    """n h(successes / n): the log-likelihood at its maximum."""
    counts = np.asarray(n, np.float64)
    p = np.clip(successes / counts, TINY, 1 - TINY)
    return np.asarray(counts * (p * np.log(p) + (1 - p) * np.log1p(-p)))


def false_discoveries(p_values: Floats, level: float) -> npt.NDArray[np.bool_]:
    """Which p-values (NaN: none) are discoveries at this false discovery rate, by Benjamini and Hochberg."""
    known = np.flatnonzero(np.isfinite(p_values))
    flagged = np.zeros(len(p_values), dtype=bool)
    order = known[np.argsort(p_values[known], kind="stable")]
    below = np.flatnonzero(p_values[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1))
    if len(below):
        flagged[order[: below[-1] + 1]] = True
    return flagged


# -------------------------------------------------------------------- what is told of an annotator


def _annotator(
    annotations: Annotations,
    rows: npt.NDArray[np.int64],
    judged: npt.NDArray[np.bool_],
    right: Floats,
    scan: _Scan | None,
    flagged: bool,
) -> AnnotatorOverTime:
    times = annotations.created_at
    assert times is not None
    when = times[rows]
    options = annotations.option_counts[annotations.item]
    lead = np.full(1, np.nan) if annotations.lead_time is None else annotations.lead_time[rows]
    lead = lead[np.isfinite(lead)]
    length, label, p_value = longest_streak(annotations.label[rows])
    own = rows[judged[rows]]
    parts = np.array_split(own, min(BLOCKS, len(own) // BLOCK_LABELS)) if len(own) >= BLOCK_LABELS else []
    blocks = np.array([accuracy_interval(right[part], options[part]) for part in parts]).reshape(-1, 3)
    drift = None
    if scan is not None:
        halves = (
            accuracy_interval(right[part], options[part]) for part in (scan.rows[: scan.cut], scan.rows[scan.cut :])
        )
        drift = Drift(scan.p_value, flagged, float(times[scan.rows[scan.cut]]), *halves)
    return AnnotatorOverTime(
        annotator=int(annotations.annotator[rows[0]]),
        task=int(annotations.item_tasks[annotations.item[rows[0]]]),
        labels=len(rows),
        first=float(when[0]),
        last=float(when[-1]),
        per_hour=labels_per_hour(when),
        lead_time=float(np.median(lead)) if len(lead) else float("nan"),
        streak=length,
        streak_label=label,
        streak_p=p_value,
        times=np.array([times[part[0]] for part in parts]),
        accuracy=blocks[:, 0],
        low=blocks[:, 1],
        high=blocks[:, 2],
        drift=drift,
    )


def accuracy_interval(right: Floats, options: npt.NDArray[np.integer]) -> tuple[float, float, float]:
    """Accuracy and its 95% interval, of labels that are right with probability r (labels,) by others' judgement.

    The likelihood of a label is a r + (1 - a) (1 - r) / (K - 1).
    """
    others = (1 - right) / np.maximum(options - 1, 1)
    values = np.log(np.maximum(np.outer(GRID, right) + np.outer(1 - GRID, others), TINY)).sum(axis=1)
    posterior = np.exp(values - values.max())
    posterior /= posterior.sum()
    low, high = np.interp([0.025, 0.975], np.cumsum(posterior), GRID)
    return float(posterior @ GRID), float(low), float(high)


def labels_per_hour(times: Floats) -> float:
    """Labels per hour of work: gaps longer than `PAUSE` do not count. NaN where no two labels are near each other."""
    gaps = np.diff(times)
    within = gaps[gaps <= PAUSE]
    return float(3600 * len(within) / within.sum()) if within.sum() > 0 else float("nan")


def longest_streak(labels: npt.NDArray[np.integer]) -> tuple[int, int, float]:
    """The longest run of one answer, the answer, and a bound on the probability of one as long in a random order."""
    n = len(labels)
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    lengths = np.diff(np.append(starts, n))
    longest = int(lengths.argmax())
    length = int(lengths[longest])
    shares = np.bincount(labels) / n
    shares = shares[shares > 0]
    if len(shares) == 1:  # one answer always: no order says anything, and `realm.crowd.suspects` does
        return length, int(labels[0]), 1.0
    bound = float(((1 + (n - length) * (1 - shares)) * shares**length).sum())
    return length, int(labels[starts[longest]]), min(bound, 1.0)


# -------------------------------------------------------------------- in words


def day(seconds: float) -> str:
    """The date of a time, UTC."""
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def drift_in_words(drift: Drift) -> str:
    """What a change was: "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04"."""
    (before, *first), (after, *second) = drift.before, drift.after
    verb = "fell" if after < before else "rose"
    spans = [f"{share:.0%} ({low:.0%}–{high:.0%})" for share, (low, high) in ((before, first), (after, second))]
    return f"accuracy {verb} from {spans[0]} to {spans[1]} on {day(drift.time)}"


def streak_in_words(annotations: Annotations, each: AnnotatorOverTime) -> str:
    """What a streak was: "gave `no` 48 times in a row"."""
    labels = annotations.tasks[each.task].labels
    answer = f"option {each.streak_label + 1}" if labels is None else f"`{labels[each.streak_label]}`"
    return f"gave {answer} {each.streak:,} times in a row"


def notable(annotations: Annotations, each: AnnotatorOverTime) -> list[str]:
    """What is beyond chance, in words; empty where nothing is."""
    told = [drift_in_words(each.drift)] if each.drift is not None and each.drift.flagged else []
    return [*told, *([streak_in_words(annotations, each)] if each.streak_p < STREAK_LEVEL else [])]
