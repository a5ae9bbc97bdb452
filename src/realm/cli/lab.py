"""`realm lab`: the paper's grids, run as far as cells are missing; their tables in the paper's shape, and plots."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.flags import AsJson, Overwrite
from realm.cli.terminal import console, interactive, note, show_table
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.comparison.cells import Cell
    from realm.comparison.grid import CellFinished
    from realm.comparison.training import CellResult

app = typer.Typer(no_args_is_help=True, help="Reproduce the paper's tables and figures: grids, results, tables, plots.")

RESULTS = Path("runs/lab/results.sqlite")
ERRORS = 5
"""Failed cells that are named at the end: most fail for the same reason."""
SCORES = ("accuracy", "held_out_likelihood")
"""The metrics of a cell and of a trial."""
ResultsFile = Annotated[Path, typer.Option("--results", help="SQLite file with the finished cells.")]
SpecName = Annotated[str, typer.Argument(metavar="SPEC", help="A name from `realm lab list`, or a YAML file.")]


@app.command("list")
def list_specs(
    results: ResultsFile = RESULTS,
    as_json: AsJson = False,
) -> None:
    """List the specs that come with the package, with the cells of each and how many are finished."""
    from realm.comparison.results import Results
    from realm.lab.spec import expand, load_spec, packaged_specs

    store = Results.open(results) if results.is_file() else None
    rows = []
    for name in packaged_specs():
        spec = load_spec(name)
        cells = expand(spec)
        finished = 0 if store is None else len(cells) - len(store.missing(cells))
        rows.append({"spec": name, "cells": len(cells), "finished": finished, "paper": spec.paper, "title": spec.title})
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        columns = ["spec", "cells", "finished", "title"]
        show_table("Specs", columns, [[row[name] for name in columns] for row in rows])


@app.command()
def run(
    spec: SpecName,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the benchmarks' files; by default they come from the hub.")
    ] = None,
    results: ResultsFile = RESULTS,
    jobs: Annotated[
        int | None, typer.Option(help="Cells to run at once: one by default, on Ray all there is room for.")
    ] = None,
    engine: Annotated[str, typer.Option(help="`processes`, or `ray` for a Ray cluster.")] = "processes",
    only: Annotated[
        list[str] | None, typer.Option(help="Only these cells, such as `method=realm,noisy`; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Run this many cells at most.")] = None,
) -> None:
    """Run the cells of a spec that are missing. Stop it as you like: the same command goes on."""
    from realm.comparison.engines import ENGINES
    from realm.comparison.grid import run_cells
    from realm.comparison.results import Results
    from realm.lab.spec import expand, load_spec
    from realm.models.store import offline

    if engine not in ENGINES:
        raise RealmError(f"--engine {engine}: must be one of {', '.join(ENGINES)}.")
    for flag, value in (("--jobs", jobs), ("--limit", limit)):
        if value is not None and value < 1:
            raise RealmError(f"{flag} {value}: must be 1 or more.")
    cells = selected(expand(load_spec(spec), data, offline(), report=note), only or [])
    store = Results.open(results, create=True)
    before = len(cells) - len(store.missing(cells))
    note(f"{len(cells)} cells, {before} of them finished, in {results}")
    progress = GridProgress()
    try:
        failed = run_cells(cells, store, engine=engine, jobs=jobs, limit=limit, on_finished=progress.finished)
    except KeyboardInterrupt:
        note("Finished cells are kept: the same command goes on.")
        raise typer.Exit(130) from None
    finally:
        progress.close()
    note(f"{len(cells) - len(store.missing(cells))} of {len(cells)} cells are finished")
    if failed:
        errors = "\n".join(f"  {cell}: {error}" for cell, error in list(failed.items())[:ERRORS])
        raise RealmError(f"{len(failed)} cells failed:\n{errors}")


@app.command()
def table(
    spec: SpecName,
    results: ResultsFile = RESULTS,
    form: Annotated[str, typer.Option("--format", help="`md`, `latex`, or `csv` with a line per figure.")] = "md",
) -> None:
    """Print the table of a spec in the paper's shape, the paper's figures beside ours, and the tests behind it."""
    from realm.comparison.results import Results
    from realm.lab.recorded import RecordedResults
    from realm.lab.spec import SPECS, load_spec
    from realm.lab.tables import FORMATS, make_tables

    if form not in FORMATS:
        raise RealmError(f"--format {form}: must be one of {', '.join(FORMATS)}.")
    grid = load_spec(spec)
    name = grid.name if grid.path.parent == SPECS else str(grid.path)
    command = shlex.join(["realm", "lab", "run", name, "--results", str(results)])
    store = Results.open(results) if results.is_file() else RecordedResults.open(results) if results.is_dir() else None
    tables = make_tables(grid, store, command)
    typer.echo(tables.text(form), nl=False)
    if form == "csv":
        for remark in tables.remarks:
            note(remark)


@app.command()
def plot(
    spec: SpecName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the SVG files.")],
    results: ResultsFile = RESULTS,
    overwrite: Overwrite = False,
) -> None:
    """Draw learning curves, the way of expertise and how well it is recovered, as SVG files."""
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
        raise RealmError(f"--only {' '.join(only)}: no cell of the spec agrees.")
    return agreeing


class GridProgress:
    """A bar with the time left in a terminal, a line for each finished cell elsewhere."""

    def __init__(self) -> None:
        self.bar: Any = None

    def finished(self, event: CellFinished) -> None:
        left, message = time_left(event.seconds_left), f"{event.cell}: {outcome(event.result)}"
        if not interactive():
            note(f"[{event.done}/{event.total}] {message} ({left})")
            return
        if self.bar is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            text = TextColumn("{task.fields[left]}  {task.description}", markup=False)
            self.bar = Progress(MofNCompleteColumn(), BarColumn(), text, console=console(stderr=True))
            self.bar.start()
            self.bar.add_task("", total=event.total, left=left)
        self.bar.update(self.bar.task_ids[0], completed=event.done, description=message, left=left)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def outcome(result: CellResult | RealmError) -> str:
    if isinstance(result, RealmError):
        return f"failed: {result}"
    score = next(f"{name.replace('_', ' ')} {result.metrics[name]:.4f}" for name in SCORES if name in result.metrics)
    return f"{score}, {result.seconds:.0f} s"


def time_left(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"
