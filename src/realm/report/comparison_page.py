"""The page of `realm compare`: every method's accuracy over seeds, the differences with intervals, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realm.errors import RealmError
from realm.files import read_json
from realm.metrics import METRICS
from realm.report.annotator_charts import Row, interval_rows
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.svg import compact
from realm.report.wording import Remark, plural

Records = Sequence[dict[str, Any]]

RESULTS = "results.json"
SECTIONS = [("summary", "In short"), ("differences", "Differences"), ("figures", "All figures"), ("limits", "Limits")]
FIGURES = {name: (metric.name_in_text, metric.format) for name, metric in METRICS.items()} | {
    "expertise_spearman": ("expertise, rank correlation", ".2f"),
    "expertise_trained_spearman": ("as trained, rank correlation", ".2f"),
}
"""Name in the text and format of each figure of a training."""
NARROWEST = 0.005
"""Least margin of an axis of accuracies: half a point, so that equal methods are not drawn far apart."""


def holds_comparison(folder: Path) -> bool:
    """Whether a folder is the output of `realm compare`."""
    return (folder / RESULTS).is_file()


def comparison_page(folder: Path, *, output: Path | None = None) -> Path:
    """Write the page of a finished comparison; FOLDER/report.html where no output is named."""
    folder = Path(folder)
    if not holds_comparison(folder):
        raise RealmError(f"{folder} holds no {RESULTS}: it is not the folder of a finished `realm compare`.")
    summary = read_json(folder / RESULTS)
    if not isinstance(summary, dict) or not summary.get("methods") or not summary.get("trainings"):
        raise RealmError(f"{folder / RESULTS} is not what `realm compare` writes; run it again.")
    path = Path(output) if output is not None else folder / NAME
    write_page(path, render(folder.resolve().name, summary))
    return path


def render(name: str, summary: dict[str, Any]) -> str:
    """The page of a comparison; `summary` as results.json has it: a record per method and per training."""
    methods, trainings = summary["methods"], summary["trainings"]
    columns = [figure for figure in FIGURES if any(figure in training for training in trainings)]
    context = {
        "name": name,
        "regime": summary.get("regime", "shared"),
        "seeds": int(summary.get("seeds", 1)),
        "sentences": _sentences(summary),
        "means": _means(methods, trainings),
        "differences": _differences(methods),
        "tests": _tests(methods),
        "expertise": _expertise(methods, trainings),
        "columns": [FIGURES[figure][0] for figure in columns],
        "rows": [
            (each["method"], [_mean(trainings, each["method"], figure) for figure in columns]) for each in methods
        ],
        "limits": _limits(summary),
    }
    return fill("comparison.html", f"{name} · methods compared", SECTIONS, context)


def _values(trainings: Records, method: str, figure: str) -> list[float]:
    """A figure of every training of a method, where it was measured."""
    values = (training.get(figure) for training in trainings if training["method"] == method)
    return [float(value) for value in values if value is not None]


def _mean(trainings: Records, method: str, figure: str) -> str:
    values = _values(trainings, method, figure)
    return format(float(np.mean(values)), FIGURES[figure][1]) if values else "–"


def _means(methods: Records, trainings: Records) -> Figure:
    """Mean accuracy with one standard deviation over seeds; a dot for every seed."""
    rows = []
    for entry in sorted(methods, key=lambda entry: -entry["mean"]):
        mean, spread = float(entry["mean"]), float(entry["std"])
        dots = _values(trainings, entry["method"], "accuracy")
        note = f"{100 * mean:.1f}%" + (f" ± {100 * spread:.1f}" if len(dots) > 1 else "")
        kind = 0 if entry["method"] == "realm" else 1
        rows.append(Row(entry["method"], mean, mean - spread, mean + spread, note, kind, dots))
    low, high = _domain(rows)
    description = "; ".join(f"{row.name} {row.note}" for row in rows)
    title, domain = "Accuracy on the test items by method", (max(low, 0.0), min(high, 1.0))
    chart = interval_rows(title, description, rows, domain=domain, label_of=lambda share: f"{100 * share:.1f}%")
    return Figure(chart, "Accuracy on the test items", "mean over seeds, bar: one standard deviation, dots: each seed")


def _differences(methods: Records) -> Figure | None:
    rows = []
    for entry in methods:
        if (interval := entry.get("interval_items")) is None:
            continue
        low, high = (float(value) for value in interval)
        gap = float(entry["realm_minus_this"])
        note = f"{100 * gap:+.1f}  ({100 * low:+.1f} to {100 * high:+.1f})"
        rows.append(Row(f"realm − {entry['method']}", gap, low, high, note, 1 if low <= 0 <= high else 0))
    if not rows:
        return None
    description = "; ".join(f"{row.name}: {row.note} points" for row in rows)
    title, guides = "realm minus each other method", [(0.0, "no difference")]
    chart = interval_rows(title, description, rows, domain=_domain(rows, 0.0), guides=guides, label_of=_points)
    return Figure(chart, title, "points of accuracy, 95% interval over test items; hollow: the interval holds zero")


def _domain(rows: Sequence[Row], *values: float) -> tuple[float, float]:
    """From the least to the greatest of the intervals, the dots and these values, with a margin."""
    ends = [*values, *(value for row in rows for value in (row.low, row.high, *row.dots))]
    margin = max(0.06 * (max(ends) - min(ends)), NARROWEST)
    return min(ends) - margin, max(ends) + margin


def _points(gap: float) -> str:
    """A difference in points of accuracy."""
    return "0" if abs(gap) < 1e-9 else f"{100 * gap:+.3g}"


def _tests(methods: Records) -> list[tuple[str, str, str]]:
    def p_value(value: float | None) -> str:
        return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"

    return [
        (entry["method"], p_value(entry.get("p_seeds")), p_value(entry.get("p_items")))
        for entry in methods
        if "realm_minus_this" in entry
    ]


def _expertise(methods: Records, trainings: Records) -> Figure | None:
    """How well learned expertise ranks the annotators, where it was measured."""
    rows = []
    for method in (entry["method"] for entry in methods):
        if dots := _values(trainings, method, "expertise_spearman"):
            mean, spread = float(np.mean(dots)), float(np.std(dots))
            rows.append(Row(method, mean, mean - spread, mean + spread, f"{mean:.2f}", 0, dots))
    if not rows:
        return None
    low = min(0.0, *(min(row.dots) for row in rows))
    description = "; ".join(f"{row.name} {row.note}" for row in rows)
    title = "Rank correlation of learned expertise with agreement with gold"
    chart = interval_rows(title, description, rows, domain=(low, 1.0), label_of=compact)
    return Figure(chart, title, "1: annotators are ranked as gold would rank them")


def _sentences(summary: dict[str, Any]) -> list[str]:
    methods = summary["methods"]
    best = max(methods, key=lambda entry: entry["mean"])
    seeds = plural(int(summary.get("seeds", 1)), "seed")
    sentences = [
        f"{plural(len(methods), 'method')} trained on the same annotations with {seeds} each, scored on the "
        f"same test items; the highest mean accuracy is {best['method']}'s, {100 * best['mean']:.1f}%."
    ]
    for entry in methods:
        if (interval := entry.get("interval_items")) is None:
            continue
        gap, (low, high) = 100 * entry["realm_minus_this"], interval
        chance = "the interval excludes zero" if low > 0 or high < 0 else "the interval holds zero: it may be chance"
        where = "above" if gap > 0 else "below" if gap < 0 else "level with"
        sentences.append(f"realm is {abs(gap):.1f} points {where} {entry['method']}; {chance}.")
    return sentences


def _limits(summary: dict[str, Any]) -> list[Remark]:
    remarks = [
        (True, "Two kinds of chance",
            "p over seeds asks whether training again would show the same; p and interval over items ask whether other "
            "test items would. A difference worth acting on survives both."),
        (True, "One table, one model",
            "Methods are ranked for these annotators, this model and these settings. Others can rank them otherwise."),
        (int(summary.get("seeds", 1)) < 3, "Few seeds",
            "With fewer than three seeds the spread over seeds says next to nothing."),
        (any(entry["method"] == "oracle" for entry in summary["methods"]), "oracle",
            "The oracle is trained on gold labels. It shows what could be reached, not what competes."),
        (bool(summary.get("gold_used")), "Gold was used",
            "Every method was told the gold of some training items. Items of the test are not among them, and how "
            "well annotators are ranked is not shown: it was learned from that gold."),
        (True, "Settings",
            "Rates were chosen, if at all, by the likelihood of held-out annotations; never by gold."),
    ]  # fmt: skip
    return [Remark(title, text) for applies, title, text in remarks if applies]
