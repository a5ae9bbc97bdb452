"""The page of `realm compare`: where the methods differ, recall by label, every figure, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from realm.comparison.results import SUMMARY, read_summary
from realm.comparison.significance import verdict, what_is_tested
from realm.files import reading
from realm.metrics import METRICS
from realm.report.charts import Row, interval_rows
from realm.report.escaping import clipped
from realm.report.html import NAME, Figure, fill, write_page

Summary = dict[str, Any]
"""What results.json holds: a record per method (`methods`) and per training (`trainings`), and the `ranking`."""

FIGURES = {name: (metric.name_in_text, metric.format) for name, metric in METRICS.items()} | {
    "expertise_spearman": ("expertise, rank correlation", ".2f"),
    "expertise_trained_spearman": ("as trained, rank correlation", ".2f"),
}
"""Name in the text and format of each figure of a training."""
NARROWEST = 0.005
"""Least margin of an axis: half a point of accuracy, so that equal methods are not drawn far apart."""
LISTED, LABEL = 60, 40
"""Most labels of the table by label (what a person reads through), and characters of a label."""


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
    ranking, methods = summary["ranking"], [entry["method"] for entry in summary["methods"]]
    contrasts = [each for each in ranking["contrasts"] if each["first"] == ranking["reference"]]
    figures = [name for name in FIGURES if any(name in training for training in summary["trainings"])]
    by_label = _by_label(summary)
    context = {
        "name": name,
        "summary": summary,
        "sentences": verdict(summary),
        "reference": ranking["reference"],
        "differences": _differences(contrasts, ranking["by"]),
        "outcome_columns": [f"#{METRICS[each].name_in_text}" for each in dict.fromkeys(c["figure"] for c in contrasts)],
        "outcomes": _outcomes(contrasts, ranking["by"]),
        "by_label": by_label,
        "columns": ["Method", *(f"#{FIGURES[figure][0]}" for figure in figures)],
        "rows": [[method, *(_mean(summary, method, figure) for figure in figures)] for method in methods],
        "what_is_tested": what_is_tested(),
    }
    sections = {"summary": "In short", "differences": "Differences", "labels": "By label", "figures": "All figures"}
    sections |= {"limits": "Limits"}
    if not by_label:
        del sections["labels"]
    return fill("comparison.html", f"{name} · methods compared", list(sections.items()), context)


def _mean(summary: Summary, method: str, figure: str) -> str:
    """The mean of a figure over the trainings of a method and, of shares and where there are several, the spread."""
    trainings = [training for training in summary["trainings"] if training["method"] == method]
    values = [float(training[figure]) for training in trainings if training.get(figure) is not None]
    if not values:
        return "–"
    mean, form = format(float(np.mean(values)), FIGURES[figure][1]), FIGURES[figure][1]
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{mean} ± {100 * spread:.1f}" if form.endswith("%") and len(values) > 1 else mean


def _differences(contrasts: list[dict[str, Any]], by: str) -> Figure | None:
    """The reference minus each other method on the figure that is ranked by."""
    rows, metric = [], METRICS[by]
    for each in contrasts:
        if each["figure"] == by and each["low"] is not None:
            gap, low, high = (float(each[name]) for name in ("difference", "low", "high"))
            note = f"{_signed(by, gap)}  ({_signed(by, low)} to {_signed(by, high)})"
            rows.append(Row(each["second"], gap, low, high, note, 2 if low <= 0 <= high else 0))
    if not rows:
        return None
    ends = [0.0, *(value for row in rows for value in (row.low, row.high))]
    margin = max(0.06 * (max(ends) - min(ends)), NARROWEST)
    title, words = (
        f"{metric.title}: {contrasts[0]['first']} minus each other method",
        "; ".join(f"{row.name}: {row.note}" for row in rows),
    )
    domain, guide = (min(ends) - margin, max(ends) + margin), (0.0, "no difference")
    chart = interval_rows(title, words, rows, domain=domain, guide=guide, form=lambda gap: _signed(by, gap))
    is_share = metric.format.endswith("%")
    unit = "points" if is_share else "more is better" if metric.higher_is_better else "less is better"
    return Figure(chart, title, f"{unit}, 95% interval over test items; hollow: the interval holds zero")


def _signed(figure: str, gap: float) -> str:
    """A difference with its sign: in points for shares."""
    if abs(gap) < 1e-9:
        return "0"
    return f"{100 * gap:+.1f}" if METRICS[figure].format.endswith("%") else f"{gap:+.3f}"


def _outcomes(contrasts: list[dict[str, Any]], by: str) -> list[list[str]]:
    """For each other method: the difference with its outcome on every figure, and both p on the one ranked by."""
    rows: dict[str, list[str]] = {}
    p_values: dict[str, list[str]] = {}
    for each in contrasts:
        row = rows.setdefault(each["second"], [each["second"]])
        row.append(f"{_signed(each['figure'], each['difference'])} {each['outcome'] or 'not tested'}")
        if each["figure"] == by:
            p_values[each["second"]] = [_p(each["p_seeds"]), _p(each["p_items"])]
    return [[*row, *p_values.get(method, ["–", "–"])] for method, row in rows.items()]


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _by_label(summary: Summary) -> list[dict[str, Any]]:
    """Recall of every label of a task by method, marked where it is clearly above or below the reference's."""
    ranking = summary["ranking"]
    entries = {entry["method"]: entry["labels"] for entry in summary["methods"]}
    marks = {"ahead": " below", "behind": " above"}  # of the other, seen from the reference
    outcomes = {(each["task"], each["label"], each["second"]): each["outcome"] for each in ranking["label_contrasts"]}
    tables, tasks = [], entries[ranking["reference"]]
    for index, task in enumerate(tasks):
        recalls = {
            method: {row["label"]: row["recall"] for row in entries[method][index]["labels"]}
            for method in ranking["order"]
        }
        rows = []
        for label in sorted(task["labels"], key=lambda label: -label["support"])[:LISTED]:
            row = [clipped(label["label"], LABEL), f"{label['support']:,}"]
            for method, recall_of in recalls.items():
                recall = recall_of.get(label["label"])
                mark = marks.get(outcomes.get((task["task"], label["label"], method)) or "", "")
                row.append("–" if recall is None else f"{recall:.3f}{mark}")
            rows.append(row)
        what = "position of the option" if task["by_position"] else "label"
        title = f"Recall by {what}" + (f", {task['task']}" if len(tasks) > 1 else "")
        columns = ["Label", "#Items", *(f"#{method}" for method in ranking["order"])]
        tables.append({"title": title, "columns": columns, "rows": rows, "left_out": len(task["labels"]) - len(rows)})
    return tables
