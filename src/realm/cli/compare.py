"""`realm compare`: methods side by side on the same annotations."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from realm.cli.emit import print_json, refuse_inside, to_json
from realm.cli.flags import AsJson, LabelsFiles, takes
from realm.cli.models import fetch_named_model
from realm.cli.progress import logged_to, progress_display
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note, note_table, show_table
from realm.cli.training_flags import TrainingFlags
from realm.methods import COMPARED


# a comparison varies the method and the seed itself, and writes no run folders
@takes(
    ReadingFlags,
    TrainingFlags,
    without=("method", "seed", "overwrite", "logging_steps", "cross_fit", "hub_model_id"),
)
def compare(
    files: LabelsFiles,
    test: Annotated[Path, typer.Option(metavar="FILE", help="Table of items with gold to score the methods on.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the results.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    methods: Annotated[str, typer.Option(metavar="TEXT", help="Comma separated.")] = ",".join(COMPARED),
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Number of seeds.")] = 3,
    regime: Annotated[str, typer.Option(metavar="TEXT", help="shared or sparse.", hidden=True)] = "shared",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Discard the results that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods over several seeds and test which is best.

    Differences are tested over test items and seeds. The same command goes on.
    """
    refuse_inside(output, files)
    annotations = reading.read(files)
    test_items = reading.read_test(test, annotations)

    from realm.comparison.compare import compare as compare_methods
    from realm.report.comparison_page import comparison_page
    from realm.runs.folder import LOG

    note_table(annotations)
    fetch_named_model(training.model)
    with logged_to(output / LOG, append=not overwrite), progress_display() as display:
        comparison = compare_methods(
            annotations,
            test_items,
            training.model,
            methods=[method.strip() for method in methods.split(",")],
            seeds=seeds,
            regime=regime,
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
    summary = json.loads(to_json(comparison.as_dict()))
    if as_json:
        print_json(summary, indent=2)
        return
    _show(summary)
    note(f"results.csv, results.json and report.html are in {output}")


def _settings(training: TrainingFlags, output: Path) -> dict[str, Any]:
    """The settings that the flags give, as plain values."""
    config = training.config(output)
    names = {field.name for field in fields(config)} - {"method", "seed"}
    return {name: value for name, value in config.settings().items() if name in names} | {"cache_gb": config.cache_gb}


def _show(summary: dict[str, Any]) -> None:
    """Every figure of every method, where they differ, and the verdict in words."""
    from realm.comparison.significance import difference_in_words, verdict, what_is_tested
    from realm.metrics import METRICS

    ranking = summary["ranking"]
    figures = {entry["method"]: entry["figures"] for entry in summary["methods"]}
    metrics = [m for m in METRICS.values() if not m.of_table and any(m.name in each for each in figures.values())]
    rows = [
        [name, *(_mean(figures[name].get(metric.name), metric.format) for metric in metrics)]
        for name in ranking["order"]
    ]
    if (rate := figures[ranking["leader"]].get("base_rate")) is not None:
        cells = [f"{100 * rate['mean']:.1f}" if metric.name == "accuracy" else "-" for metric in metrics]
        rows.append(["(base rate)", *cells])
    title = f"{summary['regime']} regime, {summary['seeds']} seeds, ranked by {METRICS[ranking['by']].name_in_text}"
    show_table(title, ["method", *(f"{m.name_in_text}{' %' * m.format.endswith('%')}" for m in metrics)], rows)

    reference = ranking["reference"]
    rows, words = [], dict[tuple[str, str], str]()
    for each in (each for each in ranking["contrasts"] if each["first"] == reference):
        difference = difference_in_words(each["figure"], each["difference"])
        words[each["second"], each["figure"]] = f"{difference} {each['outcome'] or ''}"
    compared = list(dict.fromkeys(figure for _, figure in words))
    for name in (name for name in ranking["order"] if name != reference):
        rows.append([name, *(words.get((name, figure), "-") for figure in compared)])
    if rows:
        title = f"{reference} minus each method: ahead, behind, level or undecided"
        show_table(title, ["method", *(METRICS[figure].name_in_text for figure in compared)], rows)
    for sentence in [*verdict(summary), what_is_tested()]:
        note(sentence)


def _mean(figure: dict[str, Any] | None, form: str) -> str:
    """The mean of a figure over seeds and its deviation, where that is known; percentages without their sign."""
    if figure is None:
        return "-"
    mean, spread = (
        None if value is None else f"{100 * value:.1f}" if form.endswith("%") else format(value, form)
        for value in (figure["mean"], figure["std"])
    )
    return f"{mean}" if spread is None else f"{mean} ±{spread.removeprefix('0')}"
