"""A run, or a table alone, as one self-contained HTML file: sentences, charts and lists put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.check import examine
from realm.data import Annotations
from realm.display import counted
from realm.report import annotator_charts, annotator_table, chart_data, charts, item_lists, limits, summary, wording
from realm.report.disputes import disputes
from realm.report.escaping import clipped
from realm.report.evaluation import evaluation
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.over_time import time_section
from realm.report.pseudonyms import names_in_texts, pseudonymised
from realm.report.run_data import RunData, read_run, read_table
from realm.report.settling import settling
from realm.report.since import since
from realm.report.svg import percent
from realm.runs import Run

RANKINGS = 4
"""Most tasks whose annotators are ranked: two rows of two charts."""
BALANCES = 6
"""Most tasks whose label balance is drawn: three rows of two charts."""
JUDGES = {"gold": "right by gold", "annotators": "confirmed by annotators", "labels": "same as the label given"}
"""The vertical axis of the calibration chart, by who judges."""
SECTIONS = {
    "summary": "Labels", "annotators-section": "Annotators", "unclear": "Unclear", "disputed": "Disputed",
    "since": "Changes", "check": "Check", "test": "Test", "training": "Model", "limits": "Limits",
    "making": "How it was made",
}  # fmt: skip
"""The sections by id, in the order of a manager's questions, and what the bar at the top calls them."""


def write_report(
    run: Run | str | Path, *, output: Path | None = None, pseudonymise: bool = False, title: str = ""
) -> Path:
    """Write the report of a run as one HTML file, whole or not at all; RUN/report.html where no output is named."""
    data = read_run(run)
    folder = run.folder if isinstance(run, Run) else Path(run)
    path = Path(output) if output is not None else folder / NAME
    write_page(path, render(data, pseudonymise=pseudonymise, title=title))
    return path


def write_table_report(
    annotations: Annotations,
    file: str | Path,
    *,
    output: Path | None = None,
    pseudonymise: bool = False,
    title: str = "",
    use_gold: bool = False,
) -> Path:
    """Write the report of a table of annotations, without any model: what `realm check` finds, and agreement alone.

    `file` is where the table came from, for the page and for the name of the output: NAME.report.html here.
    """
    file = Path(file)
    path = Path(output) if output is not None else Path(table_report_name(file))
    data = read_table(annotations, file, use_gold=use_gold)
    write_page(path, render(data, pseudonymise=pseudonymise, title=title))
    return path


def table_report_name(file: Path) -> str:
    """`labels.csv` and `labels.csv.gz` get `labels.report.html`."""
    return f"{file.name.split('.')[0] or file.name}.{NAME}"


def render(data: RunData, *, pseudonymise: bool = False, title: str = "") -> str:
    """The page of a run, or of a table alone. `title` is its heading; by default the name of the table or run."""
    names = data.annotations.annotators
    if pseudonymise:
        [data] = pseudonymised([data])
    plan, broken = settling(data), item_lists.broken(data)
    apart = item_lists.disagreements(data) if data.has_model else item_lists.Listed([], 0)
    votes = item_lists.disputes(data) if data.has_model else []
    table = annotator_table.rows(data)
    warnings = [str(text) for name in ("notes", "warnings") for text in data.metrics.get(name, [])]
    shown = [*apart.items, *plan.items.items, *broken.items]
    if pseudonymise and (n := names_in_texts(names, shown, _texts(data, table.examples))):
        warnings.append(
            f"{counted(n, 'annotator name')} also occur{'s' * (n == 1)} in the items' own texts or ids, "
            "which are shown as they are."
        )
    heat, heat_note = _heat_map(data)
    calibration = chart_data.calibration(data) if data.has_model else None
    first_rows = annotator_table.first_rows(data)
    test, changed = evaluation(data.metrics.get("test")), since(data)
    findings = [] if data.has_model else examine(data.annotations, screens=data.screens).findings
    heading = title or data.file or data.name
    context = {
        "heading": heading,
        "facts": _facts(data, heading),
        "has_model": data.has_model,
        "answer": summary.answer(data),
        "alarms": summary.alarms(data),
        "cards": summary.cards(data),
        "sentences": summary.sentences(data),
        "notices": wording.notices(data),
        "verdict_chart": annotator_charts.verdict_bars(_verdict_rows(data)),
        "meanings": wording.MEANINGS,
        "relative": bool(data.estimate.relative_tasks.any()),
        "one_label_each": data.one_label_each,
        "rankings": _rankings(data),
        "tasks": [clipped(name, annotator_table.LONGEST_NAME) for name in data.task_names],
        "columns": annotator_table.columns(data),
        "rows": table.json,
        "rows_left_out": f"{table.left_out:,}" if table.left_out else "",
        "without_details": f"{table.without_details:,}" if table.without_details else "",
        "first_rows": first_rows,
        "rows_shown": len(first_rows),
        "rows_total": len(data.ranked),
        "where_annotators": "all are in expertise.csv" if data.has_model else "realm aggregate writes all",
        "where_labels": "All cleaned labels are in labels.csv of the run."
        if data.has_model
        else "realm aggregate writes a label for every item; realm train also asks a model about them.",
        "heat": heat,
        "heat_note": heat_note,
        "confidence": _confidence(data),
        "calibration": calibration and charts.reliability(calibration, JUDGES[calibration.judge]),
        "calibration_text": calibration and wording.calibration_text(calibration),
        **_balances(data),
        "apart": apart,
        "apart_text": wording.disagreement_text(data, len(apart.items), apart.total),
        "vote_chart": charts.dispute_bars(votes) if votes else None,
        "settling": plan,
        "disputes": disputes(data),
        "broken": broken,
        "broken_text": wording.broken_text(len(broken.items), broken.total),
        "curves": _curves(data) if data.has_model else [],
        "test": test,
        "since": changed,
        "time": time_section(data),
        "findings": findings,
        "dropped": [(reason, f"{count:,}") for reason, count in data.annotations.ledger.counts.items()],
        "limits": limits.limits(data),
        "making": limits.making(data),
        "warnings": warnings,
        "settings": [(key, str(value)) for key, value in sorted(data.settings.items())],
    }
    absent = {"since": changed, "check": findings, "test": test, "training": data.has_model}
    sections = [(id, name) for id, name in SECTIONS.items() if absent.get(id, True)]
    return fill("run.html", f"{heading} · annotator report", sections, context)


def _facts(data: RunData, heading: str) -> list[str]:
    """What the report is about, under its heading: the table, the run, the model and the day."""
    facts = [data.file if data.file != heading else "", f"run {data.name}" if data.has_model else "no model trained"]
    if data.has_model and data.config.get("model"):
        facts.append(f"model {data.config['model']}")
    return [fact for fact in (*facts, data.date) if fact and fact != heading]


def _texts(data: RunData, items: list[int]) -> list[str]:
    return [data.annotations.texts[item].as_py() or "" for item in items]


# -------------------------------------------------------------------- annotators


def _verdict_rows(data: RunData) -> list[tuple[str, list[int]]]:
    annotators, annotations = chart_data.verdict_counts(data)
    if not data.several_tasks:
        return [("annotators", annotators), ("their annotations", annotations)]
    tasks = [(data.task_names[task], chart_data.verdict_counts(data, task)[0]) for task in _busiest(data, BALANCES)]
    return [*tasks, ("all annotations", annotations)]


def _busiest(data: RunData, most: int) -> list[int]:
    """The tasks with the most annotations, in their own order."""
    counts = data.estimate.annotations.sum(axis=0)
    tasks = np.sort(np.argsort(-counts, kind="stable")[:most])
    return [int(task) for task in tasks if counts[task]]


def _rankings(data: RunData) -> list[tuple[Figure, Markup]]:
    """The annotators of each task, ranked: a picture, and a narrow one for a telephone."""
    figures = []
    for task in _busiest(data, RANKINGS):
        pool = chart_data.pool(data, task)
        caption = f"{counted(len(pool.names), 'annotator')}, most accurate first"
        caption = f"{pool.task}: {caption}" if pool.task else caption
        note = "relative values: mostly one label per item" if data.estimate.relative_tasks[task] else ""
        picture = Figure(annotator_charts.ranking(pool, beside=data.several_tasks), caption, note)
        figures.append((picture, annotator_charts.ranking(pool, narrow=True)))
    return figures


def _heat_map(data: RunData) -> tuple[Markup | None, str]:
    """Annotator by task, and which of them are drawn; None with one task."""
    if not data.several_tasks:
        return None, ""
    estimate, counts = data.estimate, data.estimate.annotations
    tasks = _busiest(data, annotator_charts.HEAT_COLUMNS)
    rows = np.argsort(-counts.sum(axis=1), kind="stable")[: annotator_charts.HEAT_ROWS]
    weighted = np.nansum(estimate.expertise[rows] * counts[rows], axis=1)
    rows = rows[np.argsort(-weighted / np.maximum(counts[rows].sum(axis=1), 1), kind="stable")]
    part = np.ix_(rows, np.array(tasks))
    note = ""
    if len(rows) < data.annotations.n_annotators or len(tasks) < len(data.task_names):
        note = f"Shown are the {len(rows)} annotators with the most labels, in {len(tasks)} tasks."
    names = [data.annotations.annotators[row] for row in rows]
    titles = [data.task_names[task] for task in tasks]
    chart = annotator_charts.heat_map(
        names, titles, estimate.expertise[part], estimate.accuracy[part], data.verdicts[part]
    )
    return chart, note


# -------------------------------------------------------------------- labels and training


def _confidence(data: RunData) -> Markup:
    counts, edges = chart_data.confidence_counts(data)
    return charts.histogram("Confidence of the cleaned labels", counts, edges, "confidence of the label")


def _balances(data: RunData) -> dict[str, Any]:
    by_task = [chart_data.label_balance(data, task) for task in range(len(data.annotations.tasks))]
    balances = [balance for balance in by_task if balance is not None]
    figures = []
    for balance in balances[:BALANCES]:
        series = [("as given", balance.given), ("majority", balance.majority), ("cleaned", balance.cleaned)]
        if data.one_label_each:
            del series[1]  # the same as given
        title = "Label balance" + (f", {balance.task}" if balance.task else "")
        chart = charts.balance(title, balance.labels, series)
        figures.append(Figure(chart, title, "figures are of the cleaned labels"))
    note = f"{len(balances) - BALANCES} more tasks are not drawn." if len(balances) > BALANCES else ""
    return {"balances": figures, "balance_note": note}


def _curves(data: RunData) -> list[Figure]:
    figures = []
    loss = chart_data.history(data.metrics, "loss", "training loss")
    if len(loss.x) > 1:
        chart = charts.line_chart("Training loss", [loss], "training step", "loss per annotation")
        figures.append(Figure(chart, "Learning curve", "mean loss per annotation"))
    accuracy = chart_data.history(data.metrics, "eval_accuracy", "accuracy")
    if len(accuracy.x) > 1:
        chart = charts.line_chart("Accuracy on the test items", [accuracy], "training step", "accuracy", percent)
        figures.append(Figure(chart, "Accuracy on the test items", "gold is used to measure, not to train"))
    if (trajectory := chart_data.mean_trajectory(data)) is not None:
        steps, expertise, kinds = trajectory
        names = list(data.annotations.annotators) if (kinds >= 0).any() else []
        note = "share of labels that come from the item, as training learned it"
        note += "; coloured by the verdict at the end" * bool(names)
        if data.several_tasks:
            note += "; averaged over an annotator's tasks"
        figures.append(Figure(charts.fan(steps, expertise, kinds, names), "How expertise was learned", note))
    return figures
