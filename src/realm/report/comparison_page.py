"""The page of `realm compare`: every figure of every method, where they differ, where they differ by label, limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from realm.comparison.results import SUMMARY, read_summary
from realm.comparison.significance import (
    deviation,
    difference_in_words,
    listed,
    verdict,
    what_is_tested,
)
from realm.display import counted
from realm.files import reading
from realm.metrics import METRICS
from realm.report.annotator_charts import Row, interval_rows
from realm.report.escaping import clipped
from realm.report.evaluation import NAME as NAME_WIDTH
from realm.report.evaluation import TaskFigures, task_figures
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.svg import compact
from realm.report.wording import Remark

Records = Sequence[dict[str, Any]]

SECTIONS = [
    ("summary", "In short"), ("differences", "Differences"), ("labels", "By label"), ("figures", "All figures"),
    ("limits", "Limits"),
]  # fmt: skip
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


def render(name: str, summary: dict[str, Any]) -> str:
    """The page of a comparison; `summary` as results.json has it: a record per method and per training."""
    methods, trainings = summary["methods"], summary["trainings"]
    columns = [figure for figure in FIGURES if any(figure in training for training in trainings)]
    by = summary["ranking"]["by"]
    context = {
        "name": name,
        "regime": summary.get("regime", "shared"),
        "seeds": int(summary.get("seeds", 1)),
        "sentences": _sentences(summary),
        "warnings": [str(text) for text in summary.get("warnings") or []],
        "means": [figure for name in dict.fromkeys((by, "macro_f1", "accuracy")) if (figure := _means(summary, name))],
        "differences": _differences(summary, by),
        "tests": _tests(summary, by),
        "outcomes": _outcomes(summary),
        "by_label": _by_label(summary),
        "confusions": _confusions(methods),
        "expertise": _expertise(methods, trainings),
        "columns": [FIGURES[figure][0] for figure in columns],
        "rows": [
            (each["method"], [_mean(trainings, each["method"], figure) for figure in columns]) for each in methods
        ],
        "limits": _limits(summary),
    }
    sections = [(id, title) for id, title in SECTIONS if id != "labels" or context["by_label"]]
    return fill("comparison.html", f"{name} · methods compared", sections, context)


def _values(trainings: Records, method: str, figure: str) -> list[float]:
    """A figure of every training of a method, where it was measured."""
    values = (training.get(figure) for training in trainings if training["method"] == method)
    return [float(value) for value in values if value is not None]


def _mean(trainings: Records, method: str, figure: str) -> str:
    values = _values(trainings, method, figure)
    return format(float(np.mean(values)), FIGURES[figure][1]) if values else "–"


def _means(summary: dict[str, Any], figure: str) -> Figure | None:
    """The mean of a figure with one standard deviation over seeds, the best first; a dot for every seed.

    None where no training measured it.
    """
    metric, rows = METRICS[figure], []
    shares = metric.format.endswith("%")
    for method in (entry["method"] for entry in summary["methods"]):
        if not (dots := _values(summary["trainings"], method, figure)):
            continue
        mean, spread = float(np.mean(dots)), deviation(dots) if len(dots) > 1 else 0.0
        beside = f"{100 * spread:.1f}" if shares else format(spread, metric.format)
        note = format(mean, metric.format) + (f" ± {beside}" if len(dots) > 1 else "")
        rows.append(Row(method, mean, mean - spread, mean + spread, note, 0 if method == "realm" else 2, dots))
    if not rows:
        return None
    rows.sort(key=lambda row: -row.middle if metric.higher_is_better else row.middle)
    rate = _values(summary["trainings"], rows[0].name, "base_rate") if figure == "accuracy" else []
    guides = [(rate[0], "base rate")] if rate else []
    low, high = _domain(rows, *(value for value, _ in guides))
    description = "; ".join(f"{row.name} {row.note}" for row in rows)
    title = f"{metric.title} on the test items"
    label_of = (lambda share: f"{100 * share:.1f}%") if shares else compact
    domain = (max(low, 0.0), min(high, 1.0)) if metric.higher_is_better else (max(low, 0.0), high)
    chart = interval_rows(f"{title} by method", description, rows, domain=domain, guides=guides, label_of=label_of)
    return Figure(chart, title, "mean over seeds, bar: one standard deviation, dots: each seed")


def _contrasts(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The reference (`realm`, where it was trained) with every other method, for every figure."""
    ranking = summary["ranking"]
    return [each for each in ranking["contrasts"] if each["first"] == ranking["reference"]]


def _differences(summary: dict[str, Any], by: str) -> Figure | None:
    """The reference minus each other method on the figure that is ranked by."""
    rows = []
    for each in _contrasts(summary):
        if each["figure"] != by or each["low"] is None:
            continue
        gap, low, high = (float(each[name]) for name in ("difference", "low", "high"))
        values = [_signed(by, value) for value in (gap, low, high)]
        if not METRICS[by].format.endswith("%"):
            values = [value.replace("0.", ".") for value in values]  # the chart has little room
        note = f"{values[0]}  ({values[1]} to {values[2]})"
        kind = 2 if low <= 0 <= high else 0
        rows.append(Row(f"{each['first']} − {each['second']}", gap, low, high, note, kind))
    if not rows:
        return None
    description = "; ".join(f"{row.name}: {row.note}" for row in rows)
    guides = [(0.0, "no difference")]
    title = f"{METRICS[by].title}: differences"
    label_of = partial(_signed, by)
    chart = interval_rows(title, description, rows, domain=_domain(rows, 0.0), guides=guides, label_of=label_of)
    unit = (
        "points"
        if METRICS[by].format.endswith("%")
        else ("more is better" if METRICS[by].higher_is_better else "less is better")
    )
    return Figure(chart, title, f"{unit}, 95% interval over test items; hollow: the interval holds zero")


def _domain(rows: Sequence[Row], *values: float) -> tuple[float, float]:
    """From the least to the greatest of the intervals, the dots and these values, with a margin."""
    ends = [*values, *(value for row in rows for value in (row.low, row.high, *row.dots))]
    margin = max(0.06 * (max(ends) - min(ends)), NARROWEST)
    return min(ends) - margin, max(ends) + margin


def _signed(figure: str, gap: float) -> str:
    """A difference with its sign: in points for shares."""
    if abs(gap) < 1e-9:
        return "0"
    return f"{100 * gap:+.1f}" if METRICS[figure].format.endswith("%") else f"{gap:+.3f}"


def _tests(summary: dict[str, Any], by: str) -> list[tuple[str, str, str]]:
    def p_value(value: float | None) -> str:
        return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"

    return [
        (each["second"], p_value(each["p_seeds"]), p_value(each["p_items"]))
        for each in _contrasts(summary)
        if each["figure"] == by
    ]


class Outcomes(NamedTuple):
    """Rows of methods, columns of figures or methods, and a cell with its mark: ahead, behind, level or none."""

    reference: str
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def _outcomes(summary: dict[str, Any]) -> Outcomes | None:
    """The reference against every other method on every figure."""
    ranking = summary["ranking"]
    if not (contrasts := _contrasts(summary)):
        return None
    cells = {(each["second"], each["figure"]): each for each in contrasts}
    figures = list(dict.fromkeys(each["figure"] for each in contrasts))
    rows = []
    for method in (name for name in ranking["order"] if name != ranking["reference"]):
        row = [cells.get((method, figure)) for figure in figures]
        rows.append((method, [_cell(each) for each in row]))
    return Outcomes(ranking["reference"], [METRICS[figure].name_in_text for figure in figures], rows)


def _cell(contrast: dict[str, Any] | None) -> tuple[str, str]:
    if contrast is None:
        return "–", ""
    return _signed(contrast["figure"], contrast["difference"]), contrast["outcome"] or "not tested"


class LabelTable(NamedTuple):
    """Recall of every label of a task by method; a cell is marked where it is clearly above or below the reference."""

    title: str
    methods: list[str]
    rows: list[tuple[str, str, list[tuple[str, str]]]]
    left_out: str


def _by_label(summary: dict[str, Any]) -> list[LabelTable]:
    ranking = summary["ranking"]
    entries = {entry["method"]: entry["labels"] for entry in summary["methods"]}
    marks = {"ahead": "below", "behind": "above"}  # of the other, seen from the reference
    outcomes = {(each["task"], each["label"], each["second"]): each["outcome"] for each in ranking["label_contrasts"]}
    tables = []
    for index, task in enumerate(entries[ranking["reference"]]):
        rows = []
        for label in task["labels"]:
            cells = []
            for method in ranking["order"]:
                same = [row for row in entries[method][index]["labels"] if row["label"] == label["label"]]
                recall = same[0]["recall"] if same else None
                mark = marks.get(outcomes.get((task["task"], label["label"], method)) or "", "")
                cells.append(("–" if recall is None else f"{recall:.3f}", mark))
            rows.append((clipped(label["label"], NAME_WIDTH), f"{label['support']:,}", cells))
        shown = sorted(sorted(range(len(rows)), key=lambda row: -task["labels"][row]["support"])[:LISTED])
        what = "position of the option" if task["by_position"] else "label"
        title = f"Recall by {what}" + (f", {task['task']}" if len(entries[ranking["reference"]]) > 1 else "")
        left_out = f"{len(rows) - len(shown):,}" if len(rows) > len(shown) else ""
        tables.append(LabelTable(title, ranking["order"], [rows[row] for row in shown], left_out))
    return tables


def _confusions(methods: Records) -> list[tuple[str, list[TaskFigures]]]:
    """The figures of every label of each method, with the confusion matrix."""
    several = {entry["method"]: len(entry.get("labels") or []) > 1 for entry in methods}
    return [
        (entry["method"], [task_figures(task, task["task"] * several[entry["method"]]) for task in entry["labels"]])
        for entry in methods
        if entry.get("labels")
    ]


def _expertise(methods: Records, trainings: Records) -> Figure | None:
    """How well learned expertise ranks the annotators, where it was measured."""
    rows = []
    for method in (entry["method"] for entry in methods):
        if dots := _values(trainings, method, "expertise_spearman"):
            mean, spread = float(np.mean(dots)), deviation(dots) if len(dots) > 1 else 0.0
            rows.append(Row(method, mean, mean - spread, mean + spread, f"{mean:.2f}", 0, dots))
    if not rows:
        return None
    low = min(0.0, *(min(row.dots) for row in rows))
    description = "; ".join(f"{row.name} {row.note}" for row in rows)
    title = "Rank correlation of learned expertise with agreement with gold"
    chart = interval_rows(title, description, rows, domain=(low, 1.0), label_of=compact)
    return Figure(chart, title, "1: annotators are ranked as gold would rank them")


def _sentences(summary: dict[str, Any]) -> list[str]:
    methods, seeds = counted(len(summary["methods"]), "method"), counted(int(summary.get("seeds", 1)), "seed")
    trained = f"{methods} trained on the same annotations with {seeds} each, scored on the same test items."
    return [trained, *verdict(summary), *_pairs(summary)]


def _pairs(summary: dict[str, Any]) -> list[str]:
    """The reference against every other method: on which figures it is ahead, behind, level."""
    ranking, sentences = summary["ranking"], []
    for second in (name for name in ranking["order"] if name != ranking["reference"]):
        words: dict[str, list[str]] = {"ahead": [], "behind": [], "level": [], "undecided": [], "not tested": []}
        for each in ranking["contrasts"]:
            if (each["first"], each["second"]) == (ranking["reference"], second):
                gap = difference_in_words(each["figure"], each["difference"])
                words[each["outcome"] or "not tested"].append(f"{METRICS[each['figure']].name_in_text} ({gap})")
        parts = [f"{outcome} on {listed(figures)}" for outcome, figures in words.items() if figures]
        sentences += [f"{ranking['reference']} against {second}: {'; '.join(parts)}."] if parts else []
    return sentences


def _limits(summary: dict[str, Any]) -> list[Remark]:
    remarks = [
        (True, "Two kinds of chance",
            "p over seeds asks whether training again would show the same; p and interval over items ask whether other "
            "test items would. A difference worth acting on survives both."),
        (True, "Ahead, behind, level",
            f"{what_is_tested()} Level does not mean equal: it means that these tests cannot tell. A method is called "
            "best only if it is ahead of all others on the figure ranked by and no test puts it behind on another."),
        (True, "One table, one model",
            "Methods are ranked for these annotators, this model and these settings. Others can rank them otherwise."),
        (int(summary.get("seeds", 1)) < 3, "Few seeds",
            "With fewer than three seeds the spread over seeds says next to nothing, and nothing is tested."),
        (any(entry["method"] == "oracle" for entry in summary["methods"]), "oracle",
            "The oracle is trained on gold labels. It shows what could be reached, not what competes."),
        (bool(summary.get("gold_used")), "Gold was used",
            "Every method was told the gold of some training items. Items of the test are not among them, and how "
            "well annotators are ranked is not shown: it was learned from that gold."),
        (True, "Settings",
            "Rates were chosen, if at all, by the likelihood of held-out annotations; never by gold."),
    ]  # fmt: skip
    return [Remark(title, text) for applies, title, text in remarks if applies]
