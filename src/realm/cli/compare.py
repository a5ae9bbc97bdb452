"""`realm compare`: methods side by side on the same annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from realm.cli.flags import AsJson, LabelsFile, takes
from realm.cli.models import fetch_named_model
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note, records, show_table
from realm.cli.training_flags import TrainingFlags
from realm.errors import RealmError
from realm.methods import COMPARED, METHODS

TRIALS = "Choosing rates (held-out annotations of one seed, no gold)"


# a comparison varies the method and the seed itself, and writes no run folders
@takes(ReadingFlags, TrainingFlags, without=("method", "seed", "overwrite", "logging_steps", "cross_fit"))
def compare(
    file: LabelsFile,
    test: Annotated[Path, typer.Option(help="Table with gold to score on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    methods: Annotated[str, typer.Option(help=f"Comma separated, of {', '.join(METHODS)}.")] = ",".join(COMPARED),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    regime: Annotated[str, typer.Option(help="`shared` keeps all annotations, `sparse` one per item.")] = "shared",
    contrast: Annotated[int, typer.Option(help="Keep the m best and m worst annotators against gold.")] = 0,
    min_annotations: Annotated[int, typer.Option(help="For --contrast: rank annotators with n or more.")] = 1,
    expertise_rates: Annotated[
        str | None, typer.Option(help="Expertise rates to try for `realm`.", rich_help_panel=TRIALS)
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(help="As many model rates to try for the others.", rich_help_panel=TRIALS)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train each method with several seeds and set them side by side, with paired tests against `realm`."""
    annotations = reading.read(file)
    test_items = reading.read_test(test, tasks=annotations.tasks)
    if contrast:
        annotations = annotations.contrast(contrast, min_annotations)

    from realm.comparison.compare import compare as compare_methods
    from realm.files import write_json
    from realm.report.comparison_page import comparison_page

    names = [method.strip() for method in methods.split(",")]
    values_to_try = _values_to_try(names, expertise_rates, learning_rates)
    note(repr(annotations))
    fetch_named_model(training.model)
    comparison = compare_methods(
        annotations,
        test_items,
        training.model,
        methods=names,
        seeds=seeds,
        regime=regime,
        settings=_settings(training, output),
        choose=values_to_try,
        output=output,
        overwrite=overwrite,
        progress=lambda message, done, total: note(f"[{done}/{total}] {message}" if done else message),
    )
    for warning in comparison.warnings:
        note(f"warning: {warning}")
    for method, likelihoods in comparison.trials.items():
        trials = ", ".join(f"{value}: {likelihood:.4f}" for value, likelihood in likelihoods.items())
        note(f"{method}: {max(likelihoods, key=lambda k: likelihoods[k])} (held-out log-likelihood of {trials})")
    summary = {
        "regime": comparison.regime,
        "seeds": comparison.seeds,
        "gold_used": comparison.gold_read,
        "methods": comparison.summary,
        "trainings": records(comparison.table),
    }
    comparison.table.to_csv(output / "results.csv", index=False)
    write_json(output / "results.json", summary)
    comparison_page(output)
    if as_json:
        typer.echo((output / "results.json").read_text())
    else:
        _show(summary)
        note(f"results.csv, results.json and report.html are in {output}")


def _settings(training: TrainingFlags, output: Path) -> dict[str, Any]:
    """The settings that the flags give, as plain values."""
    from dataclasses import fields

    config = training.config(output)
    names = {field.name for field in fields(config)} - {"method", "seed"}
    return {name: value for name, value in config.settings().items() if name in names} | {"cache_gb": config.cache_gb}


def _values_to_try(
    methods: list[str], expertise_rates: str | None, learning_rates: str | None
) -> dict[str, dict[str, list[float]]]:
    expertise, model = _rates("--expertise-rates", expertise_rates), _rates("--learning-rates", learning_rates)
    values = {}
    for method in methods:
        learns = method in METHODS and METHODS[method].learns_expertise
        if rates := expertise if learns else model:
            values[method] = {"expertise_learning_rate" if learns else "learning_rate": rates}
    return values


def _rates(flag: str, rates: str | None) -> list[float]:
    try:
        return [float(rate) for rate in rates.split(",")] if rates else []
    except ValueError:
        raise RealmError(f"{flag} {rates}: rates must be numbers, comma separated.") from None


def _show(summary: dict[str, Any]) -> None:
    rows = []
    for entry in summary["methods"]:
        interval = entry.get("interval_items")
        rows.append(
            [
                entry["method"],
                f"{100 * entry['mean']:.1f}",
                f"{100 * entry['std']:.1f}",
                "-" if interval is None else f"{100 * entry['realm_minus_this']:+.1f}",
                entry.get("p_seeds"),
                "-" if interval is None else f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}",
                entry.get("p_items"),
            ]
        )
    columns = ["method", "accuracy %", "std", "realm - this", "p (seeds)", "95% over items", "p (items)"]
    show_table(f"{summary['regime']} regime, {summary['seeds']} seeds", columns, rows)
