"""One run as one self-contained HTML file: `write_report` puts sentences, charts and lists together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.report import annotator_charts, annotator_table, chart_data, charts, item_lists, wording
from realm.report.escaping import clipped
from realm.report.evaluation import evaluation
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.over_time import time_section
from realm.report.pseudonyms import names_in_texts, pseudonymised
from realm.report.run_data import RunData, read_run
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
    "summary": "In short", "since": "Since the last run", "annotators-section": "Annotators",
    "time": "Over time", "tasks": "By task", "labels": "Labels",
    "disagreements": "Disagreements", "relabel": "Relabel", "test": "Test", "training": "Training", "limits": "Limits",
    "making": "How it was made",
}  # fmt: skip


def write_report(run: Run | str | Path, *, output: Path | None = None, pseudonymise: bool = False) -> Path:
    """Write the report of a run as one HTML file, whole or not at all; RUN/report.html where no output is named."""
    data = read_run(run)
    folder = run.folder if isinstance(run, Run) else Path(run)
    path = Path(output) if output is not None else folder / NAME
    write_page(path, render(data, pseudonymise=pseudonymise))
    return path


def render(data: RunData, *, pseudonymise: bool = False) -> str:
    """The page of a run."""
    names = data.annotations.annotators
    if pseudonymise:
        [data] = pseudonymised([data])
    apart, queue, broken = item_lists.disagreements(data), item_lists.to_relabel(data), item_lists.broken(data)
    disputes = item_lists.disputes(data)
    warnings = [str(text) for name in ("notes", "warnings") for text in data.metrics.get(name, [])]
    if pseudonymise and (n := names_in_texts(names, [*apart.items, *queue.items, *broken.items])):
        warnings.append(
            f"{wording.plural(n, 'annotator name')} also occur{'s' * (n == 1)} in the items' own texts or ids, "
            "which are shown as they are."
        )
    heat, heat_note = _heat_map(data)
    calibration = chart_data.calibration(data)
    rows, left_out = annotator_table.rows(data)
    test, changed = evaluation(data.metrics.get("test")), since(data)
    times = time_section(data)
    context = {
        "name": data.name,
        "findings": data.findings,
        "cards": wording.cards(data),
        "sentences": wording.sentences(data),
        "notices": wording.notices(data),
        "verdict_chart": annotator_charts.verdict_bars(_verdict_rows(data)),
        "meanings": wording.MEANINGS,
        "relative": bool(data.estimate.relative_tasks.any()),
        "one_label_each": data.one_label_each,
        "rankings": _rankings(data),
        "tasks": [clipped(name, annotator_table.LONGEST_NAME) for name in data.task_names],
        "columns": annotator_table.columns(data),
        "agreement_sentences": wording.agreement_sentences(data),
        "rows": rows,
        "rows_left_out": f"{left_out:,}" if left_out else "",
        "first_rows": annotator_table.first_rows(data),
        "heat": heat,
        "heat_note": heat_note,
        "confidence": _confidence(data),
        "calibration": calibration and charts.reliability(calibration, JUDGES[calibration.judge]),
        "calibration_text": calibration and wording.calibration_text(calibration),
        **_balances(data),
        "apart": apart,
        "apart_text": wording.disagreement_text(data, len(apart.items), apart.total),
        "disputes": charts.dispute_bars(disputes) if disputes else None,
        "queue": queue,
        "broken": broken,
        "broken_text": wording.broken_text(len(broken.items), broken.total),
        "curves": _curves(data),
        "test": test,
        "since": changed,
        "time": times,
        "limits": wording.limits(data),
        "making": wording.making(data),
        "warnings": warnings,
        "settings": [(key, str(value)) for key, value in sorted(data.settings.items())],
    }
    absent = {id for id, shown in (("since", changed), ("time", times), ("tasks", heat), ("test", test)) if not shown}
    sections = [(id, name) for id, name in SECTIONS.items() if id not in absent]
    return fill("run.html", f"{data.name} · annotator report", sections, context)


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


def _rankings(data: RunData) -> list[Figure]:
    figures = []
    for task in _busiest(data, RANKINGS):
        pool = chart_data.pool(data, task)
        caption = f"{wording.plural(len(pool.names), 'annotator')}, most accurate first"
        caption = f"{pool.task}: {caption}" if pool.task else caption
        note = "relative values: mostly one label per item" if data.estimate.relative_tasks[task] else ""
        figures.append(Figure(annotator_charts.ranking(pool, beside=data.several_tasks), caption, note))
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
    return charts.histogram("How sure the labels are", counts, edges, "confidence of the label")


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
        note = "sigma(omega), as it was learned; coloured by the verdict at the end" if names else "sigma(omega)"
        if data.several_tasks:
            note += "; averaged over an annotator's tasks"
        figures.append(Figure(charts.fan(steps, expertise, kinds, names), "How expertise was learned", note))
    return figures
