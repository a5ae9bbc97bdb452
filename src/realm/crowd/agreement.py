"""How far annotators agree beyond chance: Krippendorff's alpha, Fleiss' and Cohen's kappa, intraclass correlation.

Krippendorff (2011), Computing Krippendorff's alpha-reliability; Fleiss (1971), Psychological Bulletin 76; Cohen (1968),
Psychological Bulletin 70; Shrout and Fleiss (1979), Psychological Bulletin 86. Intervals are bootstraps over items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from realm.data.annotations import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
Scale = Literal["nominal", "ordinal", "interval"]
Statistic = Callable[[Floats], Floats]
"""Of how often each pattern occurs in each sample, (samples, patterns): its value in each. (samples,)"""

DRAWS = 1000
"""Bootstrap samples: the ends of an interval are then within a tenth of its width of their limits."""
MOST_NUMBERS = 5_000_000
"""Bootstrap weights that are held at once: 40 MB."""
MOST_PAIRED = 200
"""Annotators whose pairs are listed, those with the most labels: 19,900 pairs are more than anybody reads."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement statistics of a table, each with a 95% interval. Values are NaN where they are undefined.

    | table | columns |
    |---|---|
    | statistics | task, statistic, value, low, high, items: one row per statistic and task |
    | pairs | task, annotator_1, annotator_2, items, agreement, kappa, low, high: Cohen's kappa on shared items |
    | labels | task, label, alpha, low, high, annotations: of this label against all others |
    """

    statistics: pd.DataFrame
    pairs: pd.DataFrame
    labels: pd.DataFrame


def agreement(annotations: Annotations, *, scale: Scale = "nominal", draws: int = DRAWS, seed: int = 0) -> Agreement:
    """How far annotators agree beyond chance, over all of them, pair by pair and label by label.

    `scale` says how far apart two labels are: `nominal` (equal or not), `ordinal` (by their order in the task's
    labels; kappa has quadratic weights) or `interval` (labels are numbers, and so is their distance; with intraclass
    correlations). Where items list their own options, labels are compared by their place in the list.

    Examples:
        >>> agreement(Annotations.read("labels.csv")).statistics  # doctest: +SKIP
    """
    import pandas as pd

    if scale not in ("nominal", "ordinal", "interval"):
        raise RealmError(f"`scale={scale}`: must be nominal, ordinal or interval.")
    generator = np.random.default_rng(seed)
    statistics, pairs, labels = [], [], []
    for index, task in enumerate(annotations.tasks):
        rows = np.flatnonzero(annotations.item_tasks[annotations.item] == index)
        item, annotator, label = (getattr(annotations, name)[rows] for name in ("item", "annotator", "label"))
        names = task.labels or tuple(f"option {k + 1}" for k in range(int(label.max(initial=0)) + 1))
        values = _values(names, scale)
        distances = None if scale == "nominal" else _squared_distances(values)
        patterns, times = label_patterns(item, label, len(names))
        order = np.argsort(values, kind="stable")  # by value: 2 comes before 10
        in_order: Statistic = partial(alpha, patterns[:, order], scale=scale, values=values[order])
        parts: list[tuple[str, Statistic, Ints]] = [
            ("Krippendorff's alpha", in_order, times),
            ("Fleiss' kappa", partial(fleiss_kappa, patterns), times),
        ]
        if scale == "interval":
            parts.append(("ICC(1)", partial(icc1, patterns, values=values), times))
            if (scores := _complete(item, annotator, values[label])) is not None:
                for name, kind in (("ICC(2,1)", "absolute"), ("ICC(3,1)", "consistency")):
                    parts.append((name, partial(icc, scores, kind=kind), np.ones(len(scores), np.int64)))
        for name, of, each in parts:
            ends = interval_of(of, each, draws, generator)
            statistics.append({"task": task.name, "statistic": name, **ends, "items": int(each.sum())})
        for first, second, counts in _pair_counts(item, annotator, label, annotations.n_annotators, len(names)):
            cells: Statistic = partial(_kappa_of_cells, n_labels=len(names), distances=distances)
            ends = interval_of(cells, counts.ravel(), draws, generator, name="kappa")
            who = {"annotator_1": annotations.annotators[first], "annotator_2": annotations.annotators[second]}
            share = float(np.trace(counts) / counts.sum())
            pairs.append({"task": task.name, **who, "items": int(counts.sum()), "agreement": share, **ends})
        for k, name in enumerate(names):
            own, own_times = label_patterns(item, (label == k).astype(np.int64), 2)
            ends = interval_of(partial(alpha, own), own_times, draws, generator, name="alpha")
            labels.append({"task": task.name, "label": name, **ends, "annotations": int((label == k).sum())})
    columns = ["task", "annotator_1", "annotator_2", "items", "agreement", "kappa", "low", "high"]
    return Agreement(pd.DataFrame(statistics), pd.DataFrame(pairs, columns=columns), pd.DataFrame(labels))


# -------------------------------------------------------------------- statistics, each for many samples of items


def label_patterns(item: Ints, label: Ints, n_labels: int) -> tuple[Floats, Ints]:
    """How often each label was given, of items with two labels or more: distinct rows (P, labels), and of how many.

    Every statistic over items is a sum over patterns, which are few; a bootstrap sample is a weight for each.
    """
    _, item = np.unique(item, return_inverse=True)
    several = np.bincount(item, minlength=1)[item] > 1 if len(item) else np.zeros(0, bool)
    _, item = np.unique(item[several], return_inverse=True)
    counts = np.zeros((int(item.max(initial=-1)) + 1, n_labels), np.int32)
    np.add.at(counts, (item, label[several]), 1)
    base = int(counts.max(initial=0)) + 1
    if n_labels * np.log2(base) < 62:  # a pattern is a number, and sorting numbers is much faster than rows
        keys = counts @ base ** np.arange(n_labels, dtype=np.int64)
        _, first, times = np.unique(keys, return_index=True, return_counts=True)
        return counts[first].astype(np.float64), times
    patterns, times = np.unique(counts, axis=0, return_counts=True)
    return patterns.astype(np.float64), times


def krippendorff_alpha(item: Ints, label: Ints) -> float | None:
    """Nominal alpha of annotations (n,), (n,); None where no item has two labels or every label is the same.

    Examples:
        >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
        1.0
    """
    patterns, times = label_patterns(item, label, int(label.max(initial=0)) + 1)
    value = float(alpha(patterns, times[None].astype(np.float64))[0]) if len(times) else np.nan
    return None if np.isnan(value) else value


def alpha_by_task(annotations: Annotations) -> dict[str, float | None]:
    """Nominal alpha of each task; where items list their own options, labels are compared by their place."""
    task_of = annotations.item_tasks[annotations.item]
    masks = (task_of == index for index in range(len(annotations.tasks)))
    alphas = [krippendorff_alpha(annotations.item[mask], annotations.label[mask]) for mask in masks]
    return dict(zip((task.name for task in annotations.tasks), alphas, strict=True))


def alpha(patterns: Floats, weights: Floats, scale: Scale = "nominal", values: Floats | None = None) -> Floats:
    """Krippendorff's alpha, 1 - observed / expected disagreement. (P, labels), (samples, P) -> (samples,)

    The ordinal distance of two labels is that of their mean ranks in the sample; labels stand in their order.
    """
    size, totals = patterns.sum(axis=1), weights @ patterns
    n = totals.sum(axis=1)
    if scale == "nominal":
        observed = weights @ ((size**2 - (patterns**2).sum(axis=1)) / (size - 1))
        expected = (n**2 - (totals**2).sum(axis=1)) / (n - 1)
        return _one_minus(observed, expected)
    if scale == "ordinal":
        places = np.cumsum(totals, axis=1) - totals / 2
    else:
        assert values is not None
        places = np.broadcast_to(values, totals.shape)
    squares, sums = patterns @ (places**2).T, patterns @ places.T  # (P, samples)
    within = (size[:, None] * squares - sums**2) / (size - 1)[:, None]
    observed = np.einsum("sp,ps->s", weights, within)
    expected = (n * (totals * places**2).sum(axis=1) - (totals * places).sum(axis=1) ** 2) / (n - 1)
    return _one_minus(observed, expected)


def fleiss_kappa(patterns: Floats, weights: Floats) -> Floats:
    """Fleiss' kappa; items may have different numbers of labels. (P, labels), (samples, P) -> (samples,)"""
    size = patterns.sum(axis=1)
    same = ((patterns**2).sum(axis=1) - size) / (size * (size - 1))
    shares = weights @ patterns
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    observed = weights @ same / np.maximum(weights.sum(axis=1), 1)
    return _one_minus(1 - observed, 1 - (shares**2).sum(axis=1))


def cohen_kappa(counts: Floats, weights: Floats | None = None) -> Floats:
    """Cohen's kappa of two annotators' counts (samples, labels, labels); `weights`: how far apart two labels are."""
    distance = 1.0 - np.eye(counts.shape[1]) if weights is None else weights
    total = np.maximum(counts.sum(axis=(1, 2)), 1)
    expected = counts.sum(axis=2)[:, :, None] * counts.sum(axis=1)[:, None, :] / total[:, None, None]
    return _one_minus((distance * counts).sum(axis=(1, 2)), (distance * expected).sum(axis=(1, 2)))


def _kappa_of_cells(weights: Floats, n_labels: int, distances: Floats | None) -> Floats:
    return cohen_kappa(weights.reshape(-1, n_labels, n_labels), distances)


def icc1(patterns: Floats, weights: Floats, values: Floats) -> Floats:
    """ICC(1): one-way random effects; items may have different numbers of scores. -> (samples,)"""
    size, sums, squares = patterns.sum(axis=1), patterns @ values, patterns @ values**2
    groups, n = weights.sum(axis=1), weights @ size
    between = (weights @ (sums**2 / size) - (weights @ sums) ** 2 / n) / (groups - 1)
    within = weights @ (squares - sums**2 / size) / (n - groups)
    typical = (n - weights @ size**2 / n) / (groups - 1)
    return _ratio(between - within, between + (typical - 1) * within)


def icc(scores: Floats, weights: Floats, kind: str) -> Floats:
    """ICC(2,1), `absolute`, or ICC(3,1), `consistency`, of a whole table (items, annotators). -> (samples,)"""
    k, n = scores.shape[1], weights.sum(axis=1)
    grand = weights @ scores.mean(axis=1) / n
    rows = k * (weights @ scores.mean(axis=1) ** 2 - n * grand**2)
    columns = n * (((weights @ scores / n[:, None]) - grand[:, None]) ** 2).sum(axis=1)
    total = weights @ (scores**2).sum(axis=1) - n * k * grand**2
    error = (total - rows - columns) / ((n - 1) * (k - 1))
    rows, columns = rows / (n - 1), columns / (k - 1)
    more = k * (columns - error) / n if kind == "absolute" else 0.0
    return _ratio(rows - error, rows + (k - 1) * error + more)


def interval_of(
    statistic: Statistic,
    times: Ints,
    draws: int,
    generator: np.random.Generator,
    name: str = "value",
) -> dict[str, float]:
    """The statistic, a function of how often each pattern occurs, with its 95% bootstrap interval."""
    n = int(times.sum())
    if n < 2:
        return {name: float("nan"), "low": float("nan"), "high": float("nan")}
    value = float(statistic(times[None].astype(np.float64))[0])
    chunk = max(MOST_NUMBERS // len(times), 1)
    parts = [
        statistic(generator.multinomial(n, times / n, size=min(chunk, draws - start)).astype(np.float64))
        for start in range(0, draws, chunk)
    ]
    samples = np.concatenate(parts)
    defined = samples[np.isfinite(samples)]
    low, high = np.quantile(defined, (0.025, 0.975)) if len(defined) and np.isfinite(value) else (np.nan, np.nan)
    return {name: value, "low": float(low), "high": float(high)}


def _one_minus(observed: Floats, expected: Floats) -> Floats:
    """1 - observed / expected; NaN where nothing else can be expected."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - observed / expected, np.nan))


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below > 0, above / below, np.nan))


# -------------------------------------------------------------------- from a table to counts


def _values(names: tuple[str, ...], scale: Scale) -> Floats:
    """The number that a label stands for: itself on an interval scale, else its place, of numbers by their size."""
    try:
        numbers = np.array([float(name) for name in names])
    except ValueError:
        if scale == "interval":
            raise RealmError(
                f"`scale=interval`: the labels {', '.join(map(repr, names[:4]))} are not numbers. Use ordinal."
            ) from None
        return np.arange(len(names), dtype=np.float64)
    return numbers if scale == "interval" else np.argsort(np.argsort(numbers)).astype(np.float64)


def _squared_distances(values: Floats) -> Floats:
    return np.asarray((values[:, None] - values[None, :]) ** 2)


def _complete(item: Ints, annotator: Ints, scores: Floats) -> Floats | None:
    """Scores (items, annotators) where every annotator scored every item once; None elsewhere."""
    items, row = np.unique(item, return_inverse=True)
    annotators, column = np.unique(annotator, return_inverse=True)
    table = np.full((len(items), len(annotators)), np.nan)
    table[row, column] = scores
    return table if len(scores) == table.size and not np.isnan(table).any() and table.shape[1] > 1 else None


def _pair_counts(
    item: Ints, annotator: Ints, label: Ints, n_annotators: int, n_labels: int
) -> list[tuple[int, int, Ints]]:
    """Each pair of annotators with the labels (labels, labels) that they gave to the items they share."""
    sizes = np.bincount(annotator, minlength=n_annotators)
    listed = np.zeros(n_annotators, bool)
    listed[np.argsort(-sizes, kind="stable")[:MOST_PAIRED]] = True
    rows = np.flatnonzero(listed[annotator])
    rows = rows[np.argsort(item[rows], kind="stable")]
    item, annotator, label = item[rows], annotator[rows].astype(np.int64), label[rows].astype(np.int64)
    counts: dict[tuple[int, int], Ints] = {}
    for gap in range(1, int(np.unique(item, return_counts=True)[1].max(initial=1))):
        left = np.flatnonzero(item[:-gap] == item[gap:])  # annotations of one item so many rows apart
        right = left + gap
        left, right = left[annotator[left] != annotator[right]], right[annotator[left] != annotator[right]]
        swap = annotator[left] > annotator[right]
        left, right = np.where(swap, right, left), np.where(swap, left, right)
        cell = label[left] * n_labels + label[right]
        key, times = np.unique(
            (annotator[left] * n_annotators + annotator[right]) * n_labels**2 + cell, return_counts=True
        )
        for pair in np.unique(key // n_labels**2):
            of = key // n_labels**2 == pair
            first, second = divmod(int(pair), n_annotators)
            table = counts.setdefault((first, second), np.zeros((n_labels, n_labels), np.int64))
            table.ravel()[key[of] % n_labels**2] += times[of]
    return [(first, second, table) for (first, second), table in sorted(counts.items())]
