"""What cells say, side by side: figures by configuration and arm, paired tests, tables in Markdown and verdicts.

An *arm* is what is trained in a configuration: a method, or a method with other settings (`paper 0.1`). Nothing here
trains or reads files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.comparison.significance import LEVEL, Contrast, contrast, paired_bootstrap, paired_t_test

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

REALM, ORACLE, PAPER = "realm", "oracle", "paper"
DRAWS = 1000
"""Resamples of the items for macro-F1 and log loss, which cost more than accuracy: p near 0.05 is then 0.007 off."""
QUALITY = ("macro_f1", "rarest_recall", "log_loss")
"""What must not be worse than `noisy` beside accuracy."""
HIGHER_IS_BETTER = {"accuracy": True, "macro_f1": True, "rarest_recall": True, "log_loss": False}


@dataclass(frozen=True)
class Measured:
    """What one arm of a configuration came to.

    | field | shape | meaning |
    |---|---|---|
    | metrics | name: (seeds,) | NaN where it is not defined |
    | labels | (seeds, items) | the answers; no items where they were not kept |
    | gold | (items,) | the truth |
    | gold_log_probs | (seeds, items) | log P of the truth |
    """

    metrics: Mapping[str, Floats]
    labels: Ints
    gold: Ints
    gold_log_probs: Floats

    @property
    def seeds(self) -> int:
        return len(self.labels)

    def mean(self, metric: str) -> float:
        """Mean over the seeds that have it; NaN where none has."""
        values = np.asarray(self.metrics.get(metric, [np.nan]), dtype=np.float64)
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else float("nan")


Arms = Mapping[str, Measured]
Table = Mapping[str, Arms]
"""Configurations by title; of each, its arms by name."""


# -------------------------------------------------------------------- paired tests


def compare_accuracy(arms: Arms, second: str, first: str = REALM) -> Contrast | None:
    """`first` against `second` on the seeds that both have; None where either is missing."""
    if first not in arms or second not in arms:
        return None
    one, other = arms[first], arms[second]
    seeds = min(one.seeds, other.seeds)
    if not seeds:
        return None
    correct = (one.labels[:seeds] == one.gold, other.labels[:seeds] == other.gold)
    same_items = np.array_equal(one.gold, other.gold) and len(one.gold) > 0
    accuracies = (one.metrics["accuracy"][:seeds], other.metrics["accuracy"][:seeds])
    return contrast((first, second), *accuracies, correct if same_items else None)


def is_loss(test: Contrast | None) -> bool:
    """Whether the first is significantly behind: over seeds *and* over test items, each of which can mislead alone.

    Seeds share the test items and items share the seeds, so either test alone takes the noise of the other for a
    difference.
    """
    if test is None or test.delta >= 0 or test.p_seeds is None:
        return False
    return test.p_seeds < LEVEL and (test.p_items is None or test.p_items < LEVEL)


def is_win(test: Contrast | None) -> bool:
    if test is None or test.delta <= 0 or test.p_seeds is None:
        return False
    return test.p_seeds < LEVEL and (test.p_items is None or test.p_items < LEVEL)


def is_worse(arms: Arms, metric: str, second: str = "noisy", first: str = REALM) -> bool | None:
    """Whether a metric is worse beyond noise, over seeds and over items; None where it cannot be told."""
    if first not in arms or second not in arms:
        return None
    one, other = arms[first], arms[second]
    seeds = min(one.seeds, other.seeds)
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    values = [sign * np.asarray(arm.metrics.get(metric, np.full(seeds, np.nan)))[:seeds] for arm in (one, other)]
    if seeds < 2 or np.isnan(values).any():
        return None
    p_seeds = paired_t_test(*values)
    assert p_seeds is not None
    if values[0].mean() >= values[1].mean() or p_seeds >= LEVEL:
        return False
    return p_over_items(metric, one, other, seeds) < LEVEL


def p_over_items(metric: str, one: Measured, other: Measured, seeds: int) -> float:
    """Two-sided p-value of a difference, resampling the test items."""
    if metric == "log_loss":
        return paired_bootstrap(one.gold_log_probs[:seeds], other.gold_log_probs[:seeds], draws=DRAWS)[2]
    if metric == "rarest_recall":
        counts = np.bincount(one.gold)
        rarest = one.gold == np.where(counts > 0, counts, len(one.gold) + 1).argmin()
        right = [arm.labels[:seeds, rarest] == arm.gold[rarest] for arm in (one, other)]
        return paired_bootstrap(right[0], right[1])[2]
    weights = np.random.default_rng(0).multinomial(len(one.gold), np.full(len(one.gold), 1 / len(one.gold)), size=DRAWS)
    gaps = sum(
        resampled_macro_f1(one.labels[seed], one.gold, weights)
        - resampled_macro_f1(other.labels[seed], other.gold, weights)
        for seed in range(seeds)
    )
    return float(min(2 * min(np.mean(gaps <= 0), np.mean(gaps >= 0)), 1.0))


def resampled_macro_f1(labels: Ints, gold: Ints, weights: npt.NDArray[np.int64]) -> Floats:
    """Macro-F1 of each resample; `weights` (draws, items) is how often each item was drawn."""
    scores = []
    weights = weights.astype(np.float32)
    for label in np.union1d(gold, labels):
        hits, both = (weights @ part.astype(np.float32) for part in (
            (gold == label) & (labels == label), (gold == label).astype(np.int8) + (labels == label)))  # fmt: skip
        scores.append(2 * hits / np.maximum(both, 1))
    return np.asarray(np.mean(scores, axis=0), dtype=np.float64)


def best_paper(arms: Arms) -> str | None:
    """The arm of the paper's setting whose rate of expertise has the best mean test accuracy."""
    papers = [name for name in arms if name.startswith(f"{PAPER} ")]
    return max(papers, key=lambda name: arms[name].mean("accuracy"), default=None)


def without_gold(arms: Arms) -> list[str]:
    """The methods that `realm` must not lose to; the paper's setting at its best rate is one of them."""
    best = best_paper(arms)
    methods = [name for name in arms if name not in (REALM, ORACLE) and not name.startswith(f"{PAPER} ")]
    return methods + ([best] if best else [])


# -------------------------------------------------------------------- tables


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def accuracy_table(table: Table) -> str:
    """A row per configuration, a column per arm: mean test accuracy in percent, against `realm`.

    `*`: `realm` is significantly ahead of it; `!`: significantly behind. The paper's setting is shown at its best rate.
    """
    columns = list(dict.fromkeys(name for arms in table.values() for name in arms if not name.startswith(f"{PAPER} ")))
    columns = sorted(columns, key=lambda name: (name != REALM, name == ORACLE))  # stable: realm first, oracle last
    papers = any(best_paper(arms) for arms in table.values())
    rows = []
    for title, arms in table.items():
        row = [title, *(_accuracy(arms, name) for name in columns)]
        if papers:
            best = best_paper(arms)
            row.append("-" if best is None else f"{_accuracy(arms, best)} ({best.removeprefix(PAPER + ' ')})")
        rows.append(row)
    return markdown(["configuration", *columns, *(["paper, best rate"] if papers else [])], rows)


def _accuracy(arms: Arms, name: str) -> str:
    if name not in arms:
        return "-"
    figure = f"{100 * arms[name].mean('accuracy'):.1f}"
    if name in (REALM, ORACLE):
        return figure
    test = compare_accuracy(arms, name)
    return figure + ("*" if is_win(test) else "!" if is_loss(test) else "")


def quality_table(table: Table, rivals: Sequence[str] = ("noisy",)) -> str:
    """A row per configuration: macro-F1, recall of the rarest label and log loss, `realm` / each rival; and how
    expertise ranks the annotators, as trained and as re-estimated."""
    rows = []
    for title, arms in table.items():
        names = [name for name in (REALM, *rivals) if name in arms]
        figures = [" / ".join(_figure(arms[name].mean(metric)) for name in names) for metric in QUALITY]
        marks = ["!" if is_worse(arms, metric) else "" for metric in QUALITY]
        ranks = [_figure(arms[REALM].mean(name)) if REALM in arms else "-" for name in ("spearman_trained", "spearman")]
        rows.append([title, *(figure + mark for figure, mark in zip(figures, marks, strict=True)), *ranks])
    versus = " / ".join((REALM, *rivals))
    header = [f"macro-F1: {versus}", "recall of the rarest label", "log loss", "Spearman, trained", "re-estimated"]
    return markdown(["configuration", *header], rows)


def difference_table(table: Table) -> str:
    """A row per configuration and rival: `realm` minus it in points, 95% over items, p over seeds."""
    rows = []
    for title, arms in table.items():
        for name in without_gold(arms):
            if (test := compare_accuracy(arms, name)) is not None:
                interval = "-" if test.low is None else f"{100 * test.low:+.1f} to {100 * (test.high or 0):+.1f}"
                p = "-" if test.p_seeds is None else f"{test.p_seeds:.3f}"
                rows.append([title, name, f"{100 * test.delta:+.2f}", interval, p, test.signs])
    return markdown(["configuration", "method", "realm minus it", "95% over items", "p over seeds", "seeds"], rows)


def _figure(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


# -------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Verdict:
    """One thing that must hold: whether it does (None: not measured), and the figures."""

    claim: str
    holds: bool | None
    figures: str

    def __str__(self) -> str:
        word = {True: "holds", False: "FAILS", None: "not measured"}[self.holds]
        return f"- **{word}**: {self.claim} ({self.figures})"


def no_losses(table: Table) -> Verdict:
    """`realm` is significantly behind no method without gold in any configuration."""
    tests = [
        (title, name, test)
        for title, arms in table.items()
        for name in without_gold(arms)
        if (test := compare_accuracy(arms, name)) is not None and test.p_seeds is not None
    ]
    losses = [f"{title}: {100 * test.delta:+.2f} to {name}" for title, name, test in tests if is_loss(test)]
    behind = sum(test.delta < 0 for _, _, test in tests)
    figures = f"{len(losses)} losses in {len(tests)} comparisons, behind at all in {behind}"
    claim = "no significant loss to any method without gold"
    return Verdict(claim, not losses if tests else None, "; ".join([figures, *losses]))


def lead(table: Table, rival: str, least: float, titles: Sequence[str] | None = None, each: bool = False) -> Verdict:
    """The lead over a rival in points: the mean over these configurations, or in `each`, is `least` or more."""
    titles = list(table) if titles is None else [title for title in titles if title in table]
    deltas = {
        title: 100 * test.delta for title in titles if (test := compare_accuracy(table[title], rival)) is not None
    }
    where = "in each of" if each else "in the mean of"
    claim = f"lead over {rival} of {least:+g} points or more {where} {len(titles)} configurations"
    if len(deltas) < len(titles) or not deltas:
        return Verdict(claim, None, f"{len(deltas)} of {len(titles)} measured")
    value = min(deltas.values()) if each else float(np.mean(list(deltas.values())))
    figures = ", ".join(f"{title}: {delta:+.2f}" for title, delta in deltas.items())
    return Verdict(claim, value >= least, f"{value:+.2f}; {figures}")


def never_below(table: Table, rivals: Sequence[str]) -> Verdict:
    """The mean of `realm` is not below that of any of the rivals, in any configuration that has it."""
    deltas = {
        f"{title}, {name}": 100 * test.delta
        for title, arms in table.items()
        for name in rivals
        if (test := compare_accuracy(arms, name)) is not None
    }
    behind = [f"{where}: {delta:+.2f}" for where, delta in deltas.items() if delta < 0]
    claim = f"mean accuracy not below {', '.join(rivals)}"
    return Verdict(claim, not behind if deltas else None, "; ".join([f"{len(deltas)} comparisons", *behind]))


def ahead_of_paper(table: Table) -> Verdict:
    """`realm` is ahead of the paper's setting at the best of its rates, in the mean over configurations."""
    deltas = [
        100 * test.delta
        for arms in table.values()
        if (best := best_paper(arms)) and (test := compare_accuracy(arms, best)) is not None
    ]
    claim = "ahead of the paper's setting at its best rate, in the mean"
    if not deltas:
        return Verdict(claim, None, "no configuration measured")
    ahead = sum(delta > 0 for delta in deltas)
    return Verdict(claim, float(np.mean(deltas)) > 0, f"{np.mean(deltas):+.2f}; ahead in {ahead} of {len(deltas)}")


def quality_kept(table: Table) -> Verdict:
    """Macro-F1, recall of the rarest label and log loss are not worse than those of `noisy` beyond noise."""
    verdicts = {(title, m): is_worse(arms, m) for title, arms in table.items() for m in QUALITY}
    told = {key: worse for key, worse in verdicts.items() if worse is not None}
    worse = [
        f"{title}: {metric} {_figure(table[title][REALM].mean(metric))} / {_figure(table[title]['noisy'].mean(metric))}"
        for (title, metric), is_so in told.items()
        if is_so
    ]
    claim = "macro-F1, recall of the rarest label and log loss no worse than noisy's, within noise"
    return Verdict(claim, not worse if told else None, "; ".join([f"{len(worse)} worse of {len(told)}", *worse]))


def at_least(claim: str, figures: Mapping[str, float], bounds: Mapping[str, float]) -> Verdict:
    """Each figure is at least its bound; figures that are missing or NaN are not measured."""
    known = {name: figures[name] for name in bounds if name in figures and not np.isnan(figures[name])}
    shown = ", ".join(f"{name}: {value:.2f} (at least {bounds[name]:.2f})" for name, value in known.items())
    holds = all(value >= bounds[name] for name, value in known.items()) if known else None
    return Verdict(claim, holds, shown or "not measured")


def small_range(accuracies: Mapping[str, Mapping[float, float]], most: float) -> Verdict:
    """Over the factors of each knob, accuracy moves by less than `most` points. `accuracies`: knob: factor: share."""
    ranges = {knob: 100 * float(np.ptp(list(by.values()))) for knob, by in accuracies.items() if len(by) > 1}
    figures = ", ".join(f"{knob}: {value:.2f}" for knob, value in ranges.items())
    claim = f"accuracy moves by less than {most:g} point over the range of each knob"
    return Verdict(claim, all(value < most for value in ranges.values()) if ranges else None, figures or "no knobs")
