"""`realm lab`: grids of trainings (cells), run as far as cells are missing; their tables and plots."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.flags import AsJson, Overwrite
from realm.cli.models import say_where_model_comes_from
from realm.cli.progress import Display, logged_to, progress_display, time_left
from realm.cli.terminal import note, show_table
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.comparison.cells import Cell
    from realm.comparison.grid import CellFinished
    from realm.comparison.results import Results
    from realm.comparison.training import CellResult
    from realm.lab.recorded import RecordedResults
    from realm.lab.spec import Spec

app = typer.Typer(
    no_args_is_help=True,
    help="Run grids of trainings and print their tables and plots: the paper's, or your own.",
)

RESULTS = Path("runs/lab/results.sqlite")
ERRORS = 5
"""Failed cells that are named at the end: most fail for the same reason."""
SCORES = ("accuracy", "base_rate", "macro_f1", "held_out_likelihood")
"""What is said of a finished cell; a trial has the last alone."""
ResultsFile = Annotated[Path, typer.Option("--results", help="SQLite file of finished cells.")]
SpecName = Annotated[str, typer.Argument(metavar="SPEC", help="A name from `realm lab list`, or a YAML file.")]


@app.command("list")
def list_specs(
    results: ResultsFile = RESULTS,
    as_json: AsJson = False,
) -> None:
    """List the specs that come with the package: how many cells (trainings) each has, and how many are finished."""
    from realm.lab.spec import count_cells, packaged_specs, read_spec

    rows = []
    for name in packaged_specs():
        spec = read_spec(name)
        finished = _count_finished(spec, results) if results.is_file() else 0
        rows.append(
            {"spec": name, "cells": count_cells(spec), "finished": finished, "paper": spec.paper, "title": spec.title}
        )
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        columns = ["spec", "cells", "finished", "title"]
        show_table("Specs", columns, [[row[name] for name in columns] for row in rows])
        if not results.is_file():
            note(f"No cell is finished: there is no results file {results}. `realm lab run SPEC` makes one.")


def _count_finished(spec: Spec, results: Path) -> int:
    from realm.comparison.results import Results
    from realm.lab.spec import expand

    cells = expand(spec)
    return len(cells) - len(Results.open(results).missing(cells))


@app.command()
def run(
    spec: SpecName,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the benchmarks' files. Default: they come from the Hugging Face hub."),
    ] = None,
    results: ResultsFile = RESULTS,
    jobs: Annotated[
        int | None, typer.Option(help="Cells to run at once. Default: one; on Ray as many as there is room for.")
    ] = None,
    engine: Annotated[str, typer.Option(help="`processes`, or `ray` for a Ray cluster.")] = "processes",
    only: Annotated[
        list[str] | None, typer.Option(help="Only these cells, such as `method=realm,noisy`; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Run at most this many cells.")] = None,
) -> None:
    """Run the cells of a spec that are not finished yet. It may be interrupted: the same command continues.

    Progress goes to the screen and to a log beside the results file.
    """
    from realm.comparison.engines import ENGINES
    from realm.comparison.grid import run_cells
    from realm.comparison.results import Results
    from realm.lab.spec import expand, load_spec
    from realm.lab.tables import layout_of
    from realm.models.store import offline

    if engine not in ENGINES:
        raise RealmError(f"--engine {engine}: must be one of {', '.join(ENGINES)}.")
    for flag, value in (("--jobs", jobs), ("--limit", limit)):
        if value is not None and value < 1:
            raise RealmError(f"{flag} {value}: must be 1 or more.")
    grid = load_spec(spec)
    layout = layout_of(grid)  # refuses a table that there is not, before anything is trained
    cells = selected(expand(grid, data, offline(), report=note), only or [])
    store = Results.open(results, create=True)
    missing = store.missing(cells)
    with logged_to(results.with_suffix(".log"), append=True), progress_display() as display:
        note(f"{len(cells)} cells, {len(cells) - len(missing)} of them finished, in {results}")
        for model in dict.fromkeys(cell.model for cell in missing):
            say_where_model_comes_from(model)
        progress = GridProgress(display)
        try:
            failed = run_cells(
                cells, store, engine=engine, jobs=jobs, limit=limit, on_finished=progress.finished, progress=display
            )
        except KeyboardInterrupt:
            note("Finished cells are kept. To continue, give the same command again.")
            raise typer.Exit(130) from None
        note(f"{len(cells) - len(store.missing(cells))} of {len(cells)} cells are finished")
    words = ["realm", "lab", "table", _spec_word(grid), "--results", str(results)]
    note(f"The table ({layout}{'' if grid.table else ', since the spec names none'}): {shlex.join(words)}")
    if failed:
        errors = "\n".join(f"  {cell}: {error}" for cell, error in list(failed.items())[:ERRORS])
        raise RealmError(f"{len(failed)} cells failed:\n{errors}")


def _spec_word(spec: Spec) -> str:
    """How a spec is named on the command line."""
    from realm.lab.spec import SPECS

    return spec.name if spec.path.parent == SPECS else str(spec.path)


@app.command()
def table(
    spec: SpecName,
    results: ResultsFile = RESULTS,
    form: Annotated[str, typer.Option("--format", help="`md`, `latex`, or `csv` with a line per figure.")] = "md",
) -> None:
    """Print the table of a spec, with the paper's figures where it has any, and the significance tests behind it."""
    from realm.comparison.results import Results
    from realm.lab.recorded import RecordedResults
    from realm.lab.spec import load_spec
    from realm.lab.tables import FORMATS, make_tables

    if form not in FORMATS:
        raise RealmError(f"--format {form}: must be one of {', '.join(FORMATS)}.")
    grid = load_spec(spec)
    store = Results.open(results) if results.is_file() else RecordedResults.open(results) if results.is_dir() else None
    tables = make_tables(grid, store, _run_command(grid, results, store))
    typer.echo(tables.text(form), nl=False)
    if rates := ", ".join(f"{name} {rate:.1%}" for name, rate in tables.base_rates.items()):
        note(f"Base rate, always giving the most frequent label: {rates}.")
    if form == "csv":
        for remark in tables.remarks:
            note(remark)


def _run_command(spec: Spec, results: Path, store: Results | RecordedResults | None) -> str:
    """The command that runs what is missing, with the folder of the data as it was given last."""
    from realm.comparison.results import Results

    words = ["realm", "lab", "run", _spec_word(spec)]
    if any(name not in spec.benchmarks for name in _benchmarks(spec)):
        folders = store.data_folders() if isinstance(store, Results) else []
        words += ["--data", folders[0] if folders else "FOLDER"]
    command = shlex.join([*words, *(["--results", str(results)] if not results.is_dir() else [])])
    if "FOLDER" in words:
        command += "\n(FOLDER has the benchmarks' files; without --data they come from the Hugging Face hub.)"
    return command


def _benchmarks(spec: Spec) -> set[str]:
    """The benchmarks that the grids of a spec name, without their tasks."""
    values = [grid["benchmark"] for grid in spec.grids]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    return {part.partition("/")[0] for name in names for part in name.split("+")}


@app.command()
def plot(
    spec: SpecName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the SVG files.")],
    results: ResultsFile = RESULTS,
    overwrite: Overwrite = False,
) -> None:
    """Draw plots of a spec's results as SVG files.

    Learning curves, expertise during training, and estimated expertise against the annotators' true accuracy.
    """
    from realm.cli.output_files import check_outputs
    from realm.comparison.results import Results
    from realm.files import write_text, writing
    from realm.lab.plots import draw_plots
    from realm.lab.spec import load_spec

    plots = list(draw_plots(load_spec(spec), Results.open(results)))
    check_outputs(*(output / name for name, _ in plots), overwrite=overwrite)
    for name, picture in plots:
        with writing(output / name, advice=""):
            write_text(output / name, picture)
        typer.echo(output / name)


def selected(cells: list[Cell], only: list[str]) -> list[Cell]:
    """The cells that agree with every `field=value,value`."""
    names = list(cells[0].fields()) if cells else []
    values_of: dict[str, list[str]] = {}
    for option in only:
        name = ""
        for part in option.split(","):
            before, equals, after = part.partition("=")
            name, value = (before.strip(), after) if equals else (name, before)
            if name not in names:
                raise RealmError(f"--only {option}: must be like method=realm,noisy; fields are {', '.join(names)}.")
            values_of.setdefault(name, []).append(value.strip())
    agreeing = [cell for cell in cells if all(str(cell.fields()[name]) in values for name, values in values_of.items())]
    if cells and not agreeing:
        raise RealmError(f"--only {' '.join(only)}: no cell of the spec has these values.")
    return agreeing


class GridProgress:
    """In a terminal a bar over the cells, elsewhere and in the log a line for each finished cell."""

    def __init__(self, display: Display) -> None:
        self.display = display

    def finished(self, event: CellFinished) -> None:
        self.display.say(
            f"[{event.done}/{event.total}] {event.cell}: {outcome(event.result)} ({time_left(event.seconds_left)})"
        )
        if self.display.bars is not None:
            self.display.bars("cells", event.done, event.total)


def outcome(result: CellResult | RealmError) -> str:
    if isinstance(result, RealmError):
        return f"failed: {result}"
    figures = {name: result.metrics.get(name) for name in SCORES}  # macro F1 is None where items list their own options
    scores = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in figures.items() if value is not None]
    return f"{', '.join(scores)}, {result.seconds:.0f} s"
