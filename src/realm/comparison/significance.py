"""Which method is ahead of which: tests paired over seeds and over test items, the ranking, and both in sentences.

The outcome of a figure is ahead, behind, level or undecided (`what_is_tested` says when), or None where it is not
tested. A method is *best* only if it is ahead of every other on the figure that is ranked by, and no test puts it
behind another on any other figure: a gain that a label paid for is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd.label_figures import rarest_label
from realm.data import Task
from realm.methods import METHODS
from realm.metrics import LARGEST_MATRIX, METRICS, Metric

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEVEL = 0.05
"""A p-value below it is called significant, as in the paper."""
ROUNDING = 1e-12
"""Differences over seeds that lie closer than this are one difference: what remains are the last digits of sums."""
DRAWS = 10_000
"""Resamples of the bootstrap: the 2.5% quantile then rests on 250 of them."""
WEIGHTED_DRAWS, BLOCK = 2_000, 100
"""Resamples where they cost more than for a mean, and how many are in memory together (80 MB for 100,000 items)."""
FEWEST_ITEMS, FEWEST_SEEDS = 10, 3
"""Below which nothing is tested: of two seeds the t-value has one degree of freedom."""


def deviation(values: Sequence[float] | Floats) -> float:
    """The sample standard deviation over seeds (divided by n - 1); NaN with fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def paired_t_test(first: Floats, second: Floats) -> float | None:
    """p-value of the two-sided paired t-test over seeds (the paper's test). None with fewer than two seeds.

    Where every seed shows the same difference there is no variance to test against, and a sign test takes its place:
    0.25 for three seeds; 1 for no difference.
    """
    from scipy.stats import ttest_rel

    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(gaps) < 2:
        return None
    if np.ptp(gaps) <= ROUNDING:
        return 1.0 if abs(gaps[0]) <= ROUNDING else 2.0 ** (1 - len(gaps))
    return float(ttest_rel(first, second).pvalue)


def paired_bootstrap(first: Bools | Floats, second: Bools | Floats, seed: int = 0) -> tuple[float, float, float]:
    """95% interval of the difference and its p-value, resampling test items; (seeds, items) whether each is right."""
    # Items with the same gap are exchangeable, so a draw is a multinomial count of each gap that occurs.
    values, counts = np.unique(first.mean(0) - second.mean(0), return_counts=True)
    n = counts.sum()
    return _interval(np.random.default_rng(seed).multinomial(n, counts / n, size=DRAWS) @ values / n)


def _interval(gaps: Floats) -> tuple[float, float, float]:
    """95% interval and two-sided p-value of resampled differences, which is never 0."""
    low, high = np.quantile(gaps, [0.025, 0.975])
    beyond = min((gaps <= 0).sum(), (gaps >= 0).sum())
    return float(low), float(high), float(min(2 * (beyond + 1) / (len(gaps) + 1), 1.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted so that the chance of any false one among them stays below the level (Holm 1979).

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(np.minimum(np.asarray(p_values, np.float64)[order] * factors, 1.0))
    return [float(p) for p in adjusted]


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """The test items with gold."""

    gold: Ints  # true label of each, (items,)
    task: Ints  # (items,)
    tasks: tuple[Task, ...]

    @property
    def rankable(self) -> dict[str, Metric]:
        """The metrics that methods can be ranked by on these items."""
        shared = any(self.tasks[task].labels is not None for task in np.unique(self.task))
        return {m.name: m for m in METRICS.values() if not m.of_table and not m.needs and (shared or not m.by_label)}


@dataclass(frozen=True, eq=False)
class MethodResults:
    """What a method did."""

    metrics: Mapping[str, Floats]  # each (seeds,)
    labels: Ints  # its answers, (seeds, items)
    gold_log_probs: Floats  # log P of the truth, (seeds, items)


def ranking(methods: Mapping[str, MethodResults], items: ScoredItems, metric: Metric) -> dict[str, Any]:
    """The methods in order, the best one if there is one, and every contrast. Plain values that JSON holds."""
    sign = -1 if metric.higher_is_better else 1
    order = sorted(methods, key=lambda name: sign * float(methods[name].metrics[metric.name].mean()))
    competing = [name for name in order if not METHODS[name].needs_gold] or order
    leader = competing[0]
    reference = "realm" if "realm" in methods else leader
    metrics, draws = {name: method.metrics for name, method in methods.items()}, _resampled(methods, items)
    contrasts = []
    for first in dict.fromkeys((reference, leader)):
        for figure, each in items.rankable.items():
            family = []
            for second in (name for name in methods if name != first):
                if any(figure not in metrics[name] for name in (first, second)):
                    continue
                values, drawn = ([source[name].get(figure) for name in (first, second)] for source in (metrics, draws))
                interval = None if drawn[0] is None or drawn[1] is None else _interval(drawn[0] - drawn[1])
                family.append({"first": first, "second": second, "figure": figure, **_tests(values, interval, each)})
            contrasts += _with_outcomes(family)
    mine = [each for each in contrasts if each["first"] == leader and each["second"] in competing]
    ahead = [each for each in mine if each["figure"] == metric.name and each["outcome"] == "ahead"]
    is_best = len(ahead) == len(competing) - 1 > 0 and not any(each["may_be_behind"] for each in mine)
    return {
        "by": metric.name,
        "order": order,  # the best mean first
        "leader": leader,  # the first of those that compete: one that is trained on gold does not
        "best": leader if is_best else None,
        "reference": reference,  # `realm`, or the leader where it is not among the methods
        "contrasts": contrasts,  # of the reference and of the leader with every other method, for every figure
        "label_contrasts": _label_contrasts(methods, reference, items),
    }


def _tests(values: Sequence[Any], interval: tuple[float, float, float] | None, metric: Metric) -> dict[str, Any]:
    """Difference, interval and p-values of one figure of two methods, (seeds,) each."""
    first, second = values
    difference = float(first.mean() - second.mean())
    p_seeds = paired_t_test(first, second) if len(first) >= FEWEST_SEEDS else None
    low, high, p_items = interval or (None, None, None)
    worse = difference < 0 if metric.higher_is_better else difference > 0
    doubted = any(p is not None and p < LEVEL for p in (p_items, p_seeds))
    figures = {"difference": difference, "low": low, "high": high, "p_items": p_items, "p_seeds": p_seeds}
    return {**figures, "may_be_behind": worse and doubted, "p": None, "outcome": None}


def _with_outcomes(family: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The contrasts with `p`, the larger p-value adjusted for the others of the family, and `outcome`."""
    tested = [each for each in family if each["p_items"] is not None and each["p_seeds"] is not None]
    adjusted = holm([max(each["p_items"], each["p_seeds"]) for each in tested])
    for each, p in zip(tested, adjusted, strict=True):
        neither = min(each["p_items"], each["p_seeds"]) >= LEVEL
        sure = "behind" if each["may_be_behind"] else "ahead"
        each |= {"p": p, "outcome": sure if p < LEVEL else "level" if neither else "undecided"}
    return family


def _label_contrasts(methods: Mapping[str, MethodResults], reference: str, items: ScoredItems) -> list[dict[str, Any]]:
    """The recall of every label with enough items, of the reference and of every other method."""
    family = []
    for index, task in enumerate(items.tasks):
        counts = np.bincount(items.gold[items.task == index])
        for label in np.flatnonzero(counts >= FEWEST_ITEMS)[:LARGEST_MATRIX].tolist():
            rows = (items.task == index) & (items.gold == label)
            right = {name: method.labels[:, rows] == label for name, method in methods.items()}
            shown = f"option {label + 1}" if task.labels is None else task.labels[label]
            for second in (each for each in methods if each != reference):
                values = [right[each].mean(axis=1) for each in (reference, second)]
                interval = paired_bootstrap(right[reference], right[second])
                about = {"first": reference, "second": second, "figure": "recall", "task": task.name, "label": shown}
                family.append({**about, **_tests(values, interval, METRICS["accuracy"])})
    return _with_outcomes(family)


def _resampled(methods: Mapping[str, MethodResults], items: ScoredItems) -> dict[str, dict[str, Floats]]:
    """The figures of each method that are functions of the items, mean over seeds, on the same resamples.

    By method and metric, (draws,). As in `realm.metrics`, those by label are means over the tasks that have a label
    set. Too few items, and none is tested; too few of the rarest label, and its recall is not.
    """
    n = len(items.gold)
    draws: dict[str, dict[str, list[Floats]]] = {name: {} for name in methods}
    generator = np.random.default_rng(0)
    for _ in range(WEIGHTED_DRAWS // BLOCK if n >= FEWEST_ITEMS else 0):
        counts = [np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(BLOCK)]
        weights = np.stack(counts, axis=1).astype(np.float64)
        for name, method in methods.items():
            means = {"accuracy": (method.labels == items.gold).mean(0), "log_loss": -method.gold_log_probs.mean(0)}
            figures = {figure: values @ weights / n for figure, values in means.items() if np.isfinite(values).all()}
            for figure, values in (figures | _by_label(method.labels, items, weights)).items():
                draws[name].setdefault(figure, []).append(values)
    return {name: {figure: np.concatenate(parts) for figure, parts in each.items()} for name, each in draws.items()}


def _by_label(labels: Ints, items: ScoredItems, weights: Floats) -> dict[str, Floats]:
    """Macro-F1 and recall of the rarest label, mean over tasks and seeds, with items so weighted (items, draws)."""
    from scipy.sparse import csr_matrix

    f1, rarest, enough = [], [], True
    for index in (task for task in np.unique(items.task).tolist() if items.tasks[task].labels is not None):
        rows = np.flatnonzero(items.task == index)
        gold, shape = items.gold[rows], (len(items.tasks[index].labels or ()), len(items.gold))
        least = rarest_label(gold)
        enough &= bool((gold == least).sum() >= FEWEST_ITEMS)
        support = np.asarray(csr_matrix((np.ones(len(rows)), (gold, rows)), shape=shape) @ weights)
        for answers in labels[:, rows]:
            hits = np.asarray(csr_matrix(((answers == gold).astype(float), (gold, rows)), shape=shape) @ weights)
            either = support + np.asarray(csr_matrix((np.ones(len(rows)), (answers, rows)), shape=shape) @ weights)
            each = np.divide(2 * hits, either, out=np.zeros_like(hits), where=either > 0)
            f1.append(each.sum(axis=0) / np.maximum((either > 0).sum(axis=0), 1))
            rarest.append(hits[least] / np.maximum(support[least], 1))
    figures = {"macro_f1": np.mean(f1, axis=0)} if f1 else {}
    return figures | ({"rarest_recall": np.mean(rarest, axis=0)} if f1 and enough else {})


def what_is_tested() -> str:
    """How a difference is judged."""
    return (
        f"Ahead or behind: the paired t-test over seeds and the bootstrap over test items both have p < {LEVEL:g}, "
        "adjusted (Holm) for all that is compared on a figure. Level: neither sees a difference. Undecided: between. "
        f"With fewer than {FEWEST_SEEDS} seeds or {FEWEST_ITEMS} items nothing is tested, and calibration error never."
    )


def difference_in_words(figure: str, difference: float) -> str:
    """A difference with its sign: points for shares, the figure's own digits otherwise."""
    form = METRICS[figure].format
    return f"{100 * difference:+.1f} points" if form.endswith("%") else f"{difference:+{form}}"


def verdict(summary: Mapping[str, Any]) -> list[str]:
    """Who is best, or why nobody is, and what the base rate is. `summary` is as `results.json` holds it."""
    ranking, figures = summary["ranking"], {each["method"]: each["figures"] for each in summary["methods"]}
    by, leader, sentences = METRICS[ranking["by"]], ranking["leader"], list[str]()
    others = [name for name in ranking["order"] if name != leader and not METHODS[name].needs_gold]
    mine = [each for each in ranking["contrasts"] if each["first"] == leader and each["second"] in others]
    doubts = [each for each in mine if each["may_be_behind"] and each["figure"] != by.name]
    if others and ranking["best"]:
        tested = dict.fromkeys(each["figure"] for each in mine if each["outcome"] and each["figure"] != by.name)
        behind = f", and behind none on {listed(METRICS[name].name_in_text for name in tested)}" if tested else ""
        sentences.append(f"Ranked by {by.name_in_text}, {leader} is best: ahead of every other method{behind}.")
    elif others:
        most, value = "highest" if by.higher_is_better else "lowest", figures[leader][by.name]["mean"]
        unsure = [each for each in mine if each["figure"] == by.name and each["outcome"] != "ahead"]
        reason = ""
        if any(each["outcome"] is None for each in unsure):
            reason = "; differences are not tested here"
        elif unsure:
            reason = f", but the tests do not tell it apart from {listed(each['second'] for each in unsure)}"
        text = f"Ranked by {by.name_in_text}, no method is called best. {leader} has the {most}, {value:{by.format}}"
        sentences.append(f"{text}{reason}.")
    if doubts:
        words = (
            f"{METRICS[each['figure']].name_in_text} ({each['second']}, "
            f"{difference_in_words(each['figure'], each['difference'])})"
            for each in doubts
        )
        sentences.append(f"By one of the tests or both, {leader} is behind on other figures: {'; '.join(words)}.")
    rate = next((each["base_rate"]["mean"] for each in figures.values() if "base_rate" in each), None)
    if rate is not None:
        low = [name for name, each in figures.items() if each["accuracy"]["mean"] <= rate]
        text = f"Always giving the most frequent label would be right on {rate:.1%} of the test items"
        sentences.append(f"{text}; no more often than that: {listed(low)}." if low else f"{text}.")
    return sentences


def listed(words: Iterable[str]) -> str:
    """Words with commas, and `and` before the last."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
