"""One run as one self-contained HTML file: `write_report` puts words, pictures and lists together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.report import annotator_charts, annotator_table, chart_data, charts, item_lists, wording
from realm.report.escaping import clipped
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.pseudonyms import names_in_texts, pseudonymised
from realm.report.run_data import RunData, read_run
from realm.report.svg import percent
from realm.runs import Run

RANKINGS = 4
BALANCES = 6
MEANINGS = (
    "right clearly more often than half-way between guessing and always",
    "the interval spans a threshold: more labels would tell",
    "hardly above guessing, by the whole interval",
    "below guessing, by the whole interval",
)
SECTIONS = {
    "summary": "In short", "annotators-section": "Annotators", "tasks": "By task", "labels": "Labels",
    "disagreements": "Disagreements", "relabel": "Relabel", "training": "Training", "limits": "Limits",
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
    warnings = [str(text) for text in data.metrics.get("warnings", [])]
    if pseudonymise and (found := names_in_texts(names, [*apart.items, *queue.items, *broken.items])):
        warnings.append(
            f"{wording.plural(found, 'annotator name')} also occur{'s' * (found == 1)} in the items' own texts or ids, "
            "which are shown as they are."
        )
    heat, heat_note = _heat(data)
    calibration = chart_data.calibration(data)
    rows, left_out = annotator_table.rows(data)
    context = {
        "name": data.name,
        "cards": wording.cards(data),
        "sentences": wording.sentences(data),
        "notices": wording.notices(data),
        "verdict_chart": annotator_charts.verdict_bars(_verdict_rows(data)),
        "meanings": MEANINGS,
        "relative": bool(data.estimate.relative_tasks.any()),
        "one_label_each": data.one_label_each,
        "rankings": _rankings(data),
        "tasks": [clipped(name, annotator_table.LONGEST_NAME) for name in data.task_names],
        "columns": annotator_table.columns(data),
        "rows": rows,
        "rows_left_out": f"{left_out:,}" if left_out else "",
        "first_rows": annotator_table.first_rows(data),
        "heat": heat,
        "heat_note": heat_note,
        "confidence": _confidence(data),
        "calibration": calibration and _calibration(calibration),
        "calibration_told": calibration and wording.calibration_told(calibration),
        **_balances(data),
        "apart": apart,
        "apart_told": wording.apart_told(data, len(apart.items), apart.total),
        "disputes": charts.dispute_bars(disputes) if disputes else None,
        "queue": queue,
        "broken": broken,
        "broken_told": wording.broken_told(len(broken.items), broken.total),
        "curves": _curves(data),
        "test": wording.test_figures(data.metrics),
        "limits": wording.limits(data),
        "making": wording.making(data),
        "warnings": warnings,
        "settings": [(key, str(value)) for key, value in sorted(data.config.get("settings", {}).items())],
    }
    sections = [(id, name) for id, name in SECTIONS.items() if id != "tasks" or heat]
    return fill("run.html", f"{data.name} · annotator report", sections, context)


# -------------------------------------------------------------------- annotators


def _verdict_rows(data: RunData) -> list[tuple[str, list[int]]]:
    if data.several_tasks:
        shown = _busiest(data, BALANCES)
        return [(data.task_names[task], chart_data.verdict_counts(data, task)[0]) for task in shown] + [
            ("all annotations", chart_data.verdict_counts(data)[1])
        ]
    annotators, annotations = chart_data.verdict_counts(data)
    return [("annotators", annotators), ("their annotations", annotations)]


def _busiest(data: RunData, most: int) -> list[int]:
    """The tasks with the most annotations, in their own order."""
    n = data.estimate.annotations.sum(axis=0)
    kept = np.argsort(-n, kind="stable")[:most]
    return [int(task) for task in np.sort(kept) if n[task]]


def _rankings(data: RunData) -> list[Figure]:
    shown = _busiest(data, RANKINGS)
    made = []
    for task in shown:
        pool = chart_data.pool(data, task)
        caption = f"{wording.plural(len(pool.names), 'annotator')}, most accurate first"
        caption = f"{pool.task}: {caption}" if pool.task else caption
        note = "relative values: mostly one label per item" if data.estimate.relative_tasks[task] else ""
        made.append(Figure(annotator_charts.ranking(pool, beside=data.several_tasks), caption, note))
    return made


def _heat(data: RunData) -> tuple[Markup | None, str]:
    if not data.several_tasks:
        return None, ""
    tasks = _busiest(data, annotator_charts.HEAT_COLUMNS)
    n = data.estimate.annotations
    busiest = np.argsort(-n.sum(axis=1), kind="stable")[: annotator_charts.HEAT_ROWS]
    with np.errstate(invalid="ignore"):
        skill = np.nansum(data.estimate.expertise[busiest] * n[busiest], axis=1) / np.maximum(n[busiest].sum(axis=1), 1)
    busiest = busiest[np.argsort(-skill, kind="stable")]
    part = np.ix_(busiest, np.array(tasks))
    names = [data.annotations.annotators[person] for person in busiest]
    note = ""
    if len(busiest) < data.annotations.n_annotators or len(tasks) < len(data.task_names):
        note = f"Shown are the {len(busiest)} annotators with the most labels, in {len(tasks)} tasks."
    titles = [data.task_names[task] for task in tasks]
    estimate = data.estimate
    return annotator_charts.heat_map(
        names, titles, estimate.expertise[part], estimate.accuracy[part], data.verdicts[part]
    ), note


# -------------------------------------------------------------------- labels and training


def _confidence(data: RunData) -> Markup:
    counts, edges = chart_data.confidence_counts(data)
    return charts.histogram("How sure the labels are", counts, edges, "confidence of the label")


def _calibration(found: chart_data.Calibration) -> Markup:
    by = {"gold": "right by gold", "annotators": "confirmed by annotators", "labels": "same as the label given"}
    return charts.reliability(found.sure, found.confirmed, found.share, by[found.judge])


def _balances(data: RunData) -> dict[str, Any]:
    found = [chart_data.label_balance(data, task) for task in range(len(data.annotations.tasks))]
    known = [balance for balance in found if balance is not None]
    made = []
    for balance in known[:BALANCES]:
        series = [("as given", balance.given), ("majority", balance.majority), ("cleaned", balance.cleaned)]
        series = [("as given", balance.given), ("cleaned", balance.cleaned)] if data.one_label_each else series
        title = "Label balance" + (f", {balance.task}" if balance.task else "")
        made.append(Figure(charts.balance(title, balance.labels, series), title, "figures are of the cleaned labels"))
    note = f"{len(known) - BALANCES} more tasks are not drawn." if len(known) > BALANCES else ""
    return {"balances": made, "balance_note": note}


def _curves(data: RunData) -> list[Figure]:
    made = []
    loss = chart_data.history(data.metrics, "loss", "training loss")
    if len(loss.x) > 1:
        picture = charts.line_chart("Training loss", [loss], "training step", "loss per annotation")
        made.append(Figure(picture, "Learning curve", "mean loss per annotation"))
    accuracy = chart_data.history(data.metrics, "eval_accuracy", "accuracy")
    if len(accuracy.x) > 1:
        picture = charts.line_chart("Accuracy on the test items", [accuracy], "training step", "accuracy", percent)
        made.append(Figure(picture, "Accuracy on the test items", "gold is used to measure, not to train"))
    if (found := chart_data.mean_trajectory(data)) is not None:
        steps, expertise, kinds = found
        names = list(data.annotations.annotators) if (kinds >= 0).any() else []
        note = "sigma(omega), as it was learned; coloured by the verdict at the end" if names else "sigma(omega)"
        if data.several_tasks:
            note += "; averaged over an annotator's tasks"
        made.append(Figure(charts.fan(steps, expertise, kinds, names), "How expertise was learned", note))
    return made
