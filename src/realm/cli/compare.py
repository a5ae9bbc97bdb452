"""`realm compare`: methods side by side on the same annotations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import print_json
from realm.cli.flags import AsJson, LabelsFiles, takes
from realm.cli.models import fetch_named_model
from realm.cli.output_files import refuse_inside
from realm.cli.progress import logged_to, progress_display
from realm.cli.reading_flags import ReadingFlags, optional_in_test
from realm.cli.terminal import ROWS, note, note_table, show_table
from realm.cli.training_flags import TrainingFlags
from realm.methods import COMPARED, METHODS

if TYPE_CHECKING:
    from realm.metrics import Metric


# a comparison varies the method and the seed itself, and writes no run folders
@takes(
    ReadingFlags,
    TrainingFlags,
    without=("method", "seed", "overwrite", "logging_steps", "cross_fit", "hub_model_id"),
)
def compare(
    files: LabelsFiles,
    test: Annotated[Path, typer.Option(help="Table of items with gold to score the methods on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    methods: Annotated[str, typer.Option(help=f"Comma separated, of {', '.join(METHODS)}.")] = ",".join(COMPARED),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    regime: Annotated[str, typer.Option(help="`shared` keeps all annotations, `sparse` one per item.")] = "shared",
    rank_by: Annotated[
        str | None,
        typer.Option(help="`macro-f1` (default), `accuracy`, `log-loss`, `rarest-recall` or `calibration-error`."),
    ] = None,
    contrast: Annotated[
        int, typer.Option(help="Keep only the m annotators who agree with gold most and the m who do least.")
    ] = 0,
    min_annotations: Annotated[
        int, typer.Option(help="For --contrast: rank only annotators with at least n annotations.")
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Discard the results in --output and start again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same annotations over several seeds, and compare them on a test table.

    Differences are tested by paired tests over test items and seeds. Interrupted, the same command continues.
    """
    refuse_inside(output, files)
    annotations = reading.read(files)
    test_items = reading.read_test(test, tasks=annotations.tasks, optional=optional_in_test(annotations))
    if contrast:
        annotations = annotations.contrast(contrast, min_annotations)

    from realm.comparison.compare import compare as compare_methods
    from realm.comparison.results import read_summary
    from realm.report.comparison_page import comparison_page
    from realm.runs.folder import LOG

    names = [method.strip() for method in methods.split(",")]
    note_table(annotations)
    fetch_named_model(training.model)
    with logged_to(output / LOG, append=not overwrite), progress_display() as display:
        comparison = compare_methods(
            annotations,
            test_items,
            training.model,
            methods=names,
            seeds=seeds,
            regime=regime,
            rank_by=rank_by,
            settings=_settings(training, output),
            output=output,
            overwrite=overwrite,
            progress=lambda message, done, total: note(f"[{done}/{total}] {message}" if done else message),
            step_progress=display,
        )
        for warning in comparison.warnings:
            if warning not in annotations.ledger.warnings:  # said before training
                note(f"warning: {warning}")
        comparison_page(output)
    summary = read_summary(output)
    if as_json:
        print_json(summary, indent=2)
        return
    _show(summary)
    if rank_by is None:
        by = summary["ranking"]["by"].replace("_", "-")
        why = ", which counts every label alike" if by == "macro-f1" else ""
        note(f"Ranked by {by}{why}; --rank-by names another figure.")
    note(f"results.csv, results.json and report.html are in {output}")


def _settings(training: TrainingFlags, output: Path) -> dict[str, Any]:
    """The settings that the flags give, as plain values."""
    from dataclasses import fields

    config = training.config(output)
    names = {field.name for field in fields(config)} - {"method", "seed"}
    return {name: value for name, value in config.settings().items() if name in names} | {"cache_gb": config.cache_gb}


def _show(summary: dict[str, Any]) -> None:
    """Every figure of every method, where they differ, where they differ by label, and the verdict in words."""
    from realm.comparison.significance import verdict, what_is_tested
    from realm.metrics import METRICS

    ranking = summary["ranking"]
    entries = {entry["method"]: entry for entry in summary["methods"]}
    measured = [metric for metric in METRICS.values() if any(metric.name in e["figures"] for e in entries.values())]
    metrics = [metric for metric in measured if not metric.of_table]
    rows = [
        [name, *(_mean(entries[name], metric, metric.name in ("accuracy", ranking["by"])) for metric in metrics)]
        for name in ranking["order"]
    ]
    if (rate := entries[ranking["leader"]]["figures"].get("base_rate")) is not None:
        shown = [f"{100 * rate['mean']:.1f}" if metric.name == "accuracy" else "-" for metric in metrics]
        rows.append(["(base rate)", *shown])
    title = f"{summary['regime']} regime, {summary['seeds']} seeds, ranked by {METRICS[ranking['by']].name_in_text}"
    show_table(title, ["method", *(f"{m.name_in_text}{' %' * m.format.endswith('%')}" for m in metrics)], rows)
    _show_differences(ranking)
    _show_labels(summary)
    for sentence in verdict(summary):
        note(sentence)
    note(what_is_tested())


def _mean(entry: dict[str, Any], metric: Metric, with_spread: bool) -> str:
    """The mean of a figure over seeds, and where asked for and known the deviation; percentages without their sign."""
    if (figure := entry["figures"].get(metric.name)) is None:
        return "-"
    shares = metric.format.endswith("%")
    mean, spread = (
        None if value is None else f"{100 * value:.1f}" if shares else format(value, metric.format)
        for value in (figure["mean"], figure["std"])
    )
    return f"{mean} ±{spread.removeprefix('0')}" if with_spread and spread is not None else f"{mean}"


def _show_differences(ranking: dict[str, Any]) -> None:
    from realm.comparison.significance import difference_in_words
    from realm.metrics import METRICS

    reference = ranking["reference"]
    contrasts = {(each["second"], each["figure"]): each for each in ranking["contrasts"] if each["first"] == reference}
    others = [name for name in ranking["order"] if name != reference]
    figures = list(dict.fromkeys(figure for _, figure in contrasts))
    rows = []
    for name in others:
        cells = [contrasts.get((name, figure)) for figure in figures]
        texts = [
            "-"
            if each is None
            else f"{difference_in_words(each['figure'], each['difference']).removesuffix(' points')} "
            f"{each['outcome'] or ''}"
            for each in cells
        ]
        rows.append([name, *texts])
    if rows:
        show_table(
            f"{reference} minus each method: ahead, behind, level or undecided",
            ["method", *(METRICS[figure].name_in_text for figure in figures)],
            rows,
        )


def _show_labels(summary: dict[str, Any]) -> None:
    """Recall of every label by method, those that are clearly above or below the reference marked."""
    ranking = summary["ranking"]
    entries = {entry["method"]: entry for entry in summary["methods"]}
    marks: dict[Any, str] = {"ahead": "-", "behind": "+"}  # of the other method, seen from the reference
    outcomes = {(each["task"], each["label"], each["second"]): each["outcome"] for each in ranking["label_contrasts"]}
    for index, task in enumerate(entries[ranking["reference"]]["labels"]):
        rows = []
        for label in task["labels"]:
            recalls = [_recall(entries[name]["labels"][index], label["label"]) for name in ranking["order"]]
            cells = [
                "-" if recall is None
                else f"{recall:.3f}{marks.get(outcomes.get((task['task'], label['label'], name)), ' ')}"
                for name, recall in zip(ranking["order"], recalls, strict=True)
            ]  # fmt: skip
            known = [recall for recall in recalls if recall is not None]
            rows.append((max(known, default=0) - min(known, default=0), [label["label"], label["support"], *cells]))
        chosen = sorted(range(len(rows)), key=lambda row: -rows[row][0])[:ROWS]
        more = f", the {ROWS} of {len(rows)} on which methods differ most" if len(rows) > ROWS else ""
        of_task = f", {task['task']}" if len(entries[ranking["reference"]]["labels"]) > 1 else ""
        what = "position of the option" if task["by_position"] else "label"
        title = f"Recall by {what}{of_task}{more} (+ significantly above {ranking['reference']}, - below)"
        show_table(title, ["label", "items", *ranking["order"]], [rows[row][1] for row in sorted(chosen)])


def _recall(task: dict[str, Any], label: str) -> float | None:
    return next((row["recall"] for row in task["labels"] if row["label"] == label), None)
