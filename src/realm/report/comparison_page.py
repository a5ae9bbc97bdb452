"""The page of `realm compare`: every figure of every method, where they differ, where they differ by label, limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from realm.comparison.results import SUMMARY, read_summary
from realm.comparison.significance import deviation, difference_in_words, listed, verdict, what_is_tested
from realm.files import reading
from realm.metrics import METRICS
from realm.report.charts import Row, interval_rows
from realm.report.escaping import clipped
from realm.report.evaluation import NAME as NAME_WIDTH
from realm.report.evaluation import TaskFigures, task_figures
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.svg import compact

Summary = dict[str, Any]
"""What results.json holds: a record per method (`methods`) and per training (`trainings`), and the `ranking`."""

SECTIONS = {
    "summary": "In short", "differences": "Differences", "labels": "By label", "figures": "All figures",
    "limits": "Limits",
}  # fmt: skip
FIGURES = {name: (metric.name_in_text, metric.format) for name, metric in METRICS.items()} | {
    "expertise_spearman": ("expertise, rank correlation", ".2f"),
    "expertise_trained_spearman": ("as trained, rank correlation", ".2f"),
}
"""Name in the text and format of each figure of a training."""
NARROWEST = 0.005
"""Least margin of an axis: half a point of accuracy, so that equal methods are not drawn far apart."""
LISTED = 60
"""Most labels of the table by label: what a person reads through."""


def holds_comparison(folder: Path) -> bool:
    """Whether a folder is the output of `realm compare`."""
    return (folder / SUMMARY).is_file()


def comparison_page(folder: Path, *, output: Path | None = None) -> Path:
    """Write the page of a finished comparison; FOLDER/report.html where no output is named."""
    folder = Path(folder)
    summary = read_summary(folder)
    path = Path(output) if output is not None else folder / NAME
    with reading(folder / SUMMARY, "the results of a comparison", KeyError, TypeError, AttributeError, IndexError):
        page = render(folder.resolve().name, summary)
    write_page(path, page)
    return path


def render(name: str, summary: Summary) -> str:
    """The page of a comparison."""
    methods = [entry["method"] for entry in summary["methods"]]
    figures = [name for name in FIGURES if any(name in training for training in summary["trainings"])]
    by = summary["ranking"]["by"]
    contrasts = _contrasts(summary)
    by_label = _by_label(summary)
    context = {
        "name": name,
        "summary": summary,
        "sentences": [*verdict(summary), *_pairs(contrasts)],
        "means": [figure for name in dict.fromkeys((by, "macro_f1", "accuracy")) if (figure := _means(summary, name))],
        "differences": _differences(contrasts, by),
        "tests": [
            (each["second"], _p(each["p_seeds"]), _p(each["p_items"])) for each in contrasts if each["figure"] == by
        ],
        "outcomes": _outcomes(contrasts, summary["ranking"]),
        "by_label": by_label,
        "confusions": _confusions(summary),
        "expertise": _expertise(summary, methods),
        "columns": [FIGURES[figure][0] for figure in figures],
        "rows": [(method, [_mean(summary, method, figure) for figure in figures]) for method in methods],
        "what_is_tested": what_is_tested(),
    }
    sections = [(id, title) for id, title in SECTIONS.items() if id != "labels" or by_label]
    return fill("comparison.html", f"{name} · methods compared", sections, context)


def _values(summary: Summary, method: str, figure: str) -> list[float]:
    """A figure of every training of a method, where it was measured."""
    values = (training.get(figure) for training in summary["trainings"] if training["method"] == method)
    return [float(value) for value in values if value is not None]


def _mean(summary: Summary, method: str, figure: str) -> str:
    values = _values(summary, method, figure)
    return format(float(np.mean(values)), FIGURES[figure][1]) if values else "–"


def _is_share(figure: str) -> bool:
    return METRICS[figure].format.endswith("%")


def _rows(summary: Summary, methods: Sequence[str], figure: str, form: str) -> list[Row]:
    """A line for each method: the mean with one standard deviation over seeds, and a dot for every seed."""
    rows = []
    for method in methods:
        if not (dots := _values(summary, method, figure)):
            continue
        mean, spread = float(np.mean(dots)), deviation(dots) if len(dots) > 1 else 0.0
        beside = f"{100 * spread:.1f}" if form.endswith("%") else format(spread, form)
        note = format(mean, form) + (f" ± {beside}" if len(dots) > 1 else "")
        rows.append(Row(method, mean, mean - spread, mean + spread, note, 0 if method == "realm" else 2, dots))
    return rows


def _means(summary: Summary, figure: str) -> Figure | None:
    """The methods by a figure, the best first; None where no training measured it."""
    metric, methods = METRICS[figure], [entry["method"] for entry in summary["methods"]]
    rows = _rows(summary, methods, figure, metric.format)
    if not rows:
        return None
    rows.sort(key=lambda row: -row.middle if metric.higher_is_better else row.middle)
    rates = _values(summary, rows[0].name, "base_rate")[:1] if figure == "accuracy" else []
    low, high = _domain(rows, *rates)
    domain = (max(low, 0.0), min(high, 1.0) if metric.higher_is_better else high)
    label_of = (lambda share: f"{100 * share:.1f}%") if _is_share(figure) else compact
    guides, title = [(rate, "base rate") for rate in rates], f"{metric.title} on the test items"
    chart = interval_rows(f"{title} by method", _words(rows), rows, domain=domain, guides=guides, label_of=label_of)
    return Figure(chart, title, "mean over seeds, bar: one standard deviation, dots: each seed")


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.name}: {row.note}" for row in rows)


def _domain(rows: Sequence[Row], *values: float) -> tuple[float, float]:
    """From the least to the greatest of the intervals, the dots and these values, with a margin."""
    ends = [*values, *(value for row in rows for value in (row.low, row.high, *row.dots))]
    margin = max(0.06 * (max(ends) - min(ends)), NARROWEST)
    return min(ends) - margin, max(ends) + margin


def _contrasts(summary: Summary) -> list[dict[str, Any]]:
    """The reference (`realm`, where it was trained) with every other method, for every figure."""
    ranking = summary["ranking"]
    return [each for each in ranking["contrasts"] if each["first"] == ranking["reference"]]


def _pairs(contrasts: list[dict[str, Any]]) -> list[str]:
    """The reference against every other method: on which figures it is ahead, behind, level."""
    sentences = []
    for pair in dict.fromkeys((each["first"], each["second"]) for each in contrasts):
        words: dict[str, list[str]] = {"ahead": [], "behind": [], "level": [], "undecided": [], "not tested": []}
        for each in contrasts:
            if (each["first"], each["second"]) == pair:
                gap = difference_in_words(each["figure"], each["difference"])
                words[each["outcome"] or "not tested"].append(f"{METRICS[each['figure']].name_in_text} ({gap})")
        parts = [f"{outcome} on {listed(figures)}" for outcome, figures in words.items() if figures]
        sentences.append(f"{pair[0]} against {pair[1]}: {'; '.join(parts)}.")
    return sentences


def _differences(contrasts: list[dict[str, Any]], by: str) -> Figure | None:
    """The reference minus each other method on the figure that is ranked by."""
    rows = []
    for each in contrasts:
        if each["figure"] == by and each["low"] is not None:
            gap, low, high = (float(each[name]) for name in ("difference", "low", "high"))
            values = [_signed(by, value) for value in (gap, low, high)]
            if not _is_share(by):
                values = [value.replace("0.", ".") for value in values]  # the chart has little room
            note = f"{values[0]}  ({values[1]} to {values[2]})"
            rows.append(Row(f"{each['first']} − {each['second']}", gap, low, high, note, 2 if low <= 0 <= high else 0))
    if not rows:
        return None
    title, guides = f"{METRICS[by].title}: differences", [(0.0, "no difference")]
    label_of = partial(_signed, by)
    chart = interval_rows(title, _words(rows), rows, domain=_domain(rows, 0.0), guides=guides, label_of=label_of)
    unit = "points" if _is_share(by) else "more is better" if METRICS[by].higher_is_better else "less is better"
    return Figure(chart, title, f"{unit}, 95% interval over test items; hollow: the interval holds zero")


def _signed(figure: str, gap: float) -> str:
    """A difference with its sign: in points for shares."""
    if abs(gap) < 1e-9:
        return "0"
    return f"{100 * gap:+.1f}" if _is_share(figure) else f"{gap:+.3f}"


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


class Outcomes(NamedTuple):
    """The reference against every other method (rows) on every figure (columns): difference and outcome."""

    reference: str
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def _outcomes(contrasts: list[dict[str, Any]], ranking: dict[str, Any]) -> Outcomes | None:
    if not contrasts:
        return None
    cells = {
        (each["second"], each["figure"]): (_signed(each["figure"], each["difference"]), each["outcome"] or "not tested")
        for each in contrasts
    }
    figures = list(dict.fromkeys(each["figure"] for each in contrasts))
    others = [method for method in ranking["order"] if method != ranking["reference"]]
    rows = [(method, [cells.get((method, figure), ("–", "")) for figure in figures]) for method in others]
    return Outcomes(ranking["reference"], [METRICS[figure].name_in_text for figure in figures], rows)


class LabelTable(NamedTuple):
    """Recall of every label of a task by method; a cell is marked where it is clearly above or below the reference."""

    title: str
    methods: list[str]
    rows: list[tuple[str, str, list[tuple[str, str]]]]
    left_out: int


def _by_label(summary: Summary) -> list[LabelTable]:
    ranking = summary["ranking"]
    entries = {entry["method"]: entry["labels"] for entry in summary["methods"]}
    marks = {"ahead": "below", "behind": "above"}  # of the other, seen from the reference
    outcomes = {(each["task"], each["label"], each["second"]): each["outcome"] for each in ranking["label_contrasts"]}
    tables, tasks = [], entries[ranking["reference"]]
    for index, task in enumerate(tasks):
        recalls = {
            method: {row["label"]: row["recall"] for row in entries[method][index]["labels"]}
            for method in ranking["order"]
        }
        labels = sorted(range(len(task["labels"])), key=lambda row: -task["labels"][row]["support"])[:LISTED]
        rows = []
        for label in (task["labels"][row] for row in sorted(labels)):
            cells = []
            for method, recall_of in recalls.items():
                recall = recall_of.get(label["label"])
                mark = marks.get(outcomes.get((task["task"], label["label"], method)) or "", "")
                cells.append(("–" if recall is None else f"{recall:.3f}", mark))
            rows.append((clipped(label["label"], NAME_WIDTH), f"{label['support']:,}", cells))
        what = "position of the option" if task["by_position"] else "label"
        title = f"Recall by {what}" + (f", {task['task']}" if len(tasks) > 1 else "")
        tables.append(LabelTable(title, ranking["order"], rows, len(task["labels"]) - len(rows)))
    return tables


def _confusions(summary: Summary) -> list[tuple[str, list[TaskFigures]]]:
    """The figures of every label of each method, with the confusion matrix."""
    return [
        (entry["method"], [task_figures(task, task["task"] * (len(entry["labels"]) > 1)) for task in entry["labels"]])
        for entry in summary["methods"]
        if entry.get("labels")
    ]


def _expertise(summary: Summary, methods: Sequence[str]) -> Figure | None:
    """How well learned expertise ranks the annotators, where it was measured."""
    rows = _rows(summary, methods, "expertise_spearman", ".2f")
    if not rows:
        return None
    title = "Rank correlation of learned expertise with agreement with gold"
    domain = (min(0.0, *(min(row.dots) for row in rows)), 1.0)
    chart = interval_rows(title, _words(rows), rows, domain=domain, label_of=compact)
    return Figure(chart, title, "1: annotators are ranked as gold would rank them")
