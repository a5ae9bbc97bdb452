"""Which method is ahead of which, figure by figure and label by label, and whether any may be called best.

Two methods are paired by seed and by test item. On one figure the first is *ahead* or *behind* where the 95% interval
of the difference over test items excludes zero and, with three seeds or more, the paired t-test over seeds is
significant too; otherwise they are *level*. A method is *best* only if it is ahead of every other on the figure that is
ranked by, and neither test alone puts it behind another on any other figure: a gain that a label paid for is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.comparison.significance import LEVEL, paired_bootstrap, paired_t_test
from realm.crowd.label_figures import rarest_label
from realm.data import Task
from realm.errors import RealmError
from realm.methods import METHODS
from realm.metrics import LARGEST_MATRIX, METRICS, Metric, figures_by_label

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DRAWS = 2_000
"""Resamples of the items where they cost more than for accuracy: a p-value near 0.05 is then 0.007 off."""
BLOCK = 100
"""Resamples taken together: of 100,000 items they hold 80 MB."""
FEWEST_ITEMS = 10
"""Fewest items on which a difference is tested: of five or fewer, all alike, a sign test could show nothing either."""
ENOUGH_SEEDS = 3
"""From here on the test over seeds counts: with two its t-value has one degree of freedom."""
RECALL = "recall"
"""The figure that is compared label by label."""


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """The test items with gold: true label and task of each, (items,), and the tasks."""

    gold: Ints
    task: Ints
    tasks: tuple[Task, ...]

    @property
    def rankable(self) -> list[Metric]:
        """The metrics that methods can be ranked by on these items."""
        shared = any(self.tasks[task].labels is not None for task in np.unique(self.task))
        return [m for m in METRICS.values() if not m.of_table and m.needs is None and (shared or not m.by_label)]


@dataclass(frozen=True, eq=False)
class MethodResults:
    """What a method did: metrics, each (seeds,), NaN where missing; answers and log P of the truth, (seeds, items)."""

    metrics: Mapping[str, Floats]
    labels: Ints
    gold_log_probs: Floats

    def mean(self, figure: str) -> float:
        values = self.metrics.get(figure, np.array([np.nan]))
        return float(np.nanmean(values)) if (~np.isnan(values)).any() else np.nan


def rank_metric(rank_by: str | None, items: ScoredItems) -> Metric:
    """The metric to rank by: the one named, else macro-F1 where items share a label set and accuracy elsewhere."""
    rankable = {metric.name: metric for metric in items.rankable}
    if rank_by is None:
        return rankable.get("macro_f1", METRICS["accuracy"])
    name = rank_by.strip().lower().replace("-", "_").replace(" ", "_")
    if name in METRICS and name not in rankable:
        reason = "is the same for every method" if METRICS[name].of_table else "is not defined on these test items"
        raise RealmError(f"`rank_by={rank_by}`: {reason}. Rank by one of: {_names(rankable)}.")
    if name not in rankable:
        raise RealmError(f"`rank_by={rank_by}`: no such figure. Rank by one of: {_names(rankable)}.")
    return rankable[name]


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(name.replace("_", "-") for name in names)


# -------------------------------------------------------------------- two methods


def ranking(methods: Mapping[str, MethodResults], items: ScoredItems, metric: Metric) -> dict[str, Any]:
    """The methods in order, the best one if there is one, and every contrast. Plain values that JSON holds.

    | entry | meaning |
    |---|---|
    | by | the metric that is ranked by |
    | order | the methods, the best mean first |
    | leader | the first of those that compete: one that is trained on gold does not |
    | best | the leader, if it may be called so; None otherwise |
    | reference | `realm`, or the leader where it is not among the methods: whom contrasts are taken from |
    | contrasts | of the reference and of the leader with every other method, for every figure |
    | label_contrasts | of the reference with every other method, the recall of every label |
    """
    sign = 1 if metric.higher_is_better else -1
    if missing := [name for name, method in methods.items() if np.isnan(method.mean(metric.name))]:
        raise RealmError(
            f"`rank_by={metric.name}`: the results hold no such figure of {', '.join(missing)}: they are of an earlier "
            "version. Rank by another, or train again with `overwrite`."
        )
    order = sorted(methods, key=lambda name: -sign * methods[name].mean(metric.name))
    competing = [name for name in order if not METHODS[name].needs_gold] or order
    leader = competing[0]
    reference = "realm" if "realm" in methods else leader
    draws = _resampled(methods, items)
    contrasts = [
        made
        for first in dict.fromkeys((reference, leader))
        for second in methods
        if second != first
        for figure in items.rankable
        if (made := _contrast(methods, (first, second), figure, items, draws)) is not None
    ]
    return {
        "by": metric.name,
        "order": order,
        "leader": leader,
        "best": leader if _is_best(leader, competing, metric.name, contrasts) else None,
        "reference": reference,
        "contrasts": contrasts,
        "label_contrasts": _label_contrasts(methods, reference, items),
    }


def _is_best(leader: str, competing: Sequence[str], figure: str, contrasts: Sequence[Mapping[str, Any]]) -> bool:
    others = [each for each in contrasts if each["first"] == leader and each["second"] in competing]
    ahead = [each["second"] for each in others if each["figure"] == figure and each["outcome"] == "ahead"]
    return len(ahead) == len(competing) - 1 > 0 and not any(each["may_be_behind"] for each in others)


def _contrast(
    methods: Mapping[str, MethodResults],
    names: tuple[str, str],
    metric: Metric,
    items: ScoredItems,
    draws: Mapping[str, Mapping[str, Floats]],
) -> dict[str, Any] | None:
    """One figure of two methods; None where no seed has it for both."""
    one, other = (methods[name] for name in names)
    values = [method.metrics.get(metric.name, np.array([np.nan])) for method in (one, other)]
    interval = None
    if len(items.gold) >= FEWEST_ITEMS:
        if metric.name == "accuracy":
            interval = paired_bootstrap(one.labels == items.gold, other.labels == items.gold)
        elif all(metric.name in draws[name] for name in names):
            interval = _interval(draws[names[0]][metric.name] - draws[names[1]][metric.name])
    return _outcome(names, metric.name, values, interval, metric.higher_is_better)


def _label_contrasts(methods: Mapping[str, MethodResults], reference: str, items: ScoredItems) -> list[dict[str, Any]]:
    """The recall of every label with enough items, of the reference and of every other method."""
    contrasts = []
    for task_index, task in enumerate(items.tasks):
        of_task = items.task == task_index
        counts = np.bincount(items.gold[of_task])
        for label in np.flatnonzero(counts >= FEWEST_ITEMS)[:LARGEST_MATRIX].tolist():
            rows = of_task & (items.gold == label)
            right = {name: method.labels[:, rows] == label for name, method in methods.items()}
            name = f"option {label + 1}" if task.labels is None else task.labels[label]
            for second in (each for each in methods if each != reference):
                interval = paired_bootstrap(right[reference], right[second])
                values = [right[each].mean(axis=1) for each in (reference, second)]
                made = _outcome((reference, second), RECALL, values, interval, higher_is_better=True)
                if made is not None:
                    contrasts.append({**made, "task": task.name, "label": name})
    return contrasts


def _outcome(
    names: tuple[str, str],
    figure: str,
    values: Sequence[Floats],
    interval: tuple[float, float, float] | None,
    higher_is_better: bool,
) -> dict[str, Any] | None:
    """The record of a contrast. `values` are both methods' figures, (seeds,); `interval` is low, high and p over items.

    `outcome` is None where neither items nor seeds are enough for a test.
    """
    both = np.isfinite(values[0]) & np.isfinite(values[1])
    if not both.any():
        return None
    first, second = (np.asarray(each)[both] for each in values)
    difference, p_seeds = float((first - second).mean()), paired_t_test(first, second)
    tests = [] if interval is None else [interval[0] > 0 or interval[1] < 0]
    if p_seeds is not None and len(first) >= ENOUGH_SEEDS:
        tests.append(p_seeds < LEVEL)
    better = difference > 0 if higher_is_better else difference < 0
    outcome = None if not tests else "level" if not all(tests) or difference == 0 else "ahead" if better else "behind"
    low, high, p_items = interval or (None, None, None)
    return {
        "first": names[0],
        "second": names[1],
        "figure": figure,
        "difference": difference,
        "low": low,
        "high": high,
        "p_items": p_items,
        "p_seeds": p_seeds,
        "outcome": outcome,
        "may_be_behind": any(tests) and difference != 0 and not better,
    }


# -------------------------------------------------------------------- resampled items


def _resampled(methods: Mapping[str, MethodResults], items: ScoredItems) -> dict[str, dict[str, Floats]]:
    """Log loss, macro-F1 and recall of the rarest label of each method, mean over seeds, on the same resamples.

    By method and metric, (draws,). As in `realm.metrics`, the last two are means over the tasks that have a label set;
    a figure that cannot be tested is left out.
    """
    n = len(items.gold)
    if n < FEWEST_ITEMS:
        return {name: {} for name in methods}
    tasks = [task for task in np.unique(items.task).tolist() if items.tasks[task].labels is not None]
    by_label = {name: [_LabelCounts(items, task, method.labels) for task in tasks] for name, method in methods.items()}
    rarest_is_tested = all(part.rarest_items >= FEWEST_ITEMS for parts in by_label.values() for part in parts)
    draws: dict[str, list[dict[str, Floats]]] = {name: [] for name in methods}
    generator = np.random.default_rng(0)
    for _ in range(DRAWS // BLOCK):
        counts = [np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(BLOCK)]
        weights = np.stack(counts, axis=1).astype(np.float64)
        for name, method in methods.items():
            figures = {}
            if np.isfinite(method.gold_log_probs).all():
                figures["log_loss"] = -method.gold_log_probs.mean(axis=0) @ weights / n
            if tasks:
                macro, rarest = np.mean([part.figures(weights) for part in by_label[name]], axis=0)
                figures |= {"macro_f1": macro} | ({"rarest_recall": rarest} if rarest_is_tested else {})
            draws[name].append(figures)
    return {
        name: {figure: np.concatenate([b[figure] for b in blocks]) for figure in blocks[0]}
        for name, blocks in draws.items()
    }


class _LabelCounts:
    """The answers to one task's items as sparse indicators (labels, items), whose product with weights are counts."""

    def __init__(self, items: ScoredItems, task: int, labels: Ints) -> None:
        rows = np.flatnonzero(items.task == task)
        self.shape = (len(items.tasks[task].labels or ()), len(items.gold))
        self.support = self._indicator(items.gold, rows)
        self.answered = [self._indicator(one, rows) for one in labels]
        self.hits = [self._indicator(one, rows[one[rows] == items.gold[rows]]) for one in labels]
        self.rarest = rarest_label(items.gold[rows])
        self.rarest_items = int((items.gold[rows] == self.rarest).sum())

    def _indicator(self, labels: Ints, rows: Ints) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix((np.ones(len(rows)), (labels[rows], rows)), shape=self.shape)

    def figures(self, weights: Floats) -> Floats:
        """Macro-F1 and recall of the rarest label, mean over seeds, (2, draws); `weights` is (items, draws)."""
        support = self.support @ weights
        by_seed = []
        for hits, answered in (
            (one @ weights, other @ weights) for one, other in zip(self.hits, self.answered, strict=True)
        ):
            either = support + answered
            f1 = np.divide(2 * hits, either, out=np.zeros_like(hits), where=either > 0)
            with np.errstate(invalid="ignore"):  # a resample may hold no item of the rarest label, or of the task
                by_seed.append([f1.sum(axis=0) / (either > 0).sum(axis=0), hits[self.rarest] / support[self.rarest]])
        return np.asarray(np.mean(by_seed, axis=0))


def _interval(gaps: Floats) -> tuple[float, float, float] | None:
    """95% interval and two-sided p-value of resampled differences; draws without the figure are left out."""
    gaps = gaps[~np.isnan(gaps)]
    if not len(gaps):
        return None
    low, high = np.quantile(gaps, [0.025, 0.975])
    p = 2 * min((gaps <= 0).mean(), (gaps >= 0).mean())
    return float(low), float(high), float(min(p, 1.0))


# -------------------------------------------------------------------- label by label


def method_labels(method: MethodResults, items: ScoredItems) -> list[dict[str, Any]]:
    """The figures of every label of each task: means over seeds, and the confusion matrix summed over them."""
    tasks = []
    for index in np.unique(items.task).tolist():
        rows, task = items.task == index, items.tasks[index]
        width = int(max(items.gold[rows].max(), method.labels[:, rows].max())) + 1  # of options of the items' own
        names = task.labels or tuple(f"option {position + 1}" for position in range(width))
        by_seed = [figures_by_label(items.gold[rows], labels[rows], names) for labels in method.labels]
        labels = [
            {"label": same[0]["label"], "support": same[0]["support"]}
            | {name: _mean([each[name] for each in same]) for name in ("precision", "recall", "f1")}
            for same in zip(*(each["labels"] for each in by_seed), strict=True)
        ]
        matrices = [each["confusion"] for each in by_seed]
        confusion = None if matrices[0] is None else np.sum(matrices, axis=0).tolist()
        by_position = task.labels is None
        tasks.append({"task": task.name, "by_position": by_position, "labels": labels, "confusion": confusion})
    return tasks


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
