"""`python -m realm_lab`: run grids of trainings, print their tables, draw their plots."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from realm import RealmError

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)
SpecName = Annotated[str, typer.Argument(metavar="SPEC", help="A name from `list`, or a YAML file.")]
ResultsFolder = Annotated[Path, typer.Option("--results", help="Folder of finished cells.")]
Data = Annotated[Path | None, typer.Option(help="Folder with the data sets; default: the Hugging Face hub.")]
Jobs = Annotated[int, typer.Option(min=1, help="Cells to run at once.")]
RESULTS = Path("runs/lab")


def main(words: Sequence[str] | None = None) -> int:
    try:
        app(words)
    except SystemExit as end:
        return int(end.code or 0)
    except RealmError as error:
        _say(f"Error: {error}")
        return 2
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.command("list")
def list_specs() -> None:
    """List the specs of the package and how many cells each has."""
    from realm_lab.specs import expand, load_spec, packaged_specs

    for spec in map(load_spec, packaged_specs()):
        print(f"{spec.name:22} {len(expand(spec)):5,} cells  {spec.title}")


@app.command()
def run(
    spec: SpecName,
    results: ResultsFolder = RESULTS,
    data: Data = None,
    jobs: Jobs = 1,
    engine: Annotated[str, typer.Option(help="`processes` or `ray`.")] = "processes",
    only: Annotated[list[str] | None, typer.Option(help="Only these cells: method=realm,noisy.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Run at most this many cells.")] = None,
) -> None:
    """Run the cells of a spec that are not finished; the same command continues."""
    from realm.comparison.grid import run_cells
    from realm.comparison.results import Results
    from realm_lab.specs import load_spec, spec_rows

    store, rows = Results(results), list(spec_rows(load_spec(spec), data))
    for option in only or ():
        name, _, values = option.partition("=")
        if not (rows := [row for row in rows if str(row.get(name)) in values.split(",")]):
            raise RealmError(f"--only {option}: no cell has these values. Write it like method=realm,noisy.")
    # cells of the same model and data together, so that what is cached of them is used while it is there
    cells = list(dict.fromkeys(row["cell"] for row in rows))
    cells.sort(key=lambda cell: (cell.model, cell.data.origin, str(cell.data.items)))
    _say(f"{len(cells)} cells, {len(cells) - len(store.missing(cells))} of them finished, in {results}")

    def on_finished(cell: Any, result: Any, done: int, total: int) -> None:
        failed = isinstance(result, RealmError)
        text = f"failed: {result}" if failed else f"accuracy {result.metrics['accuracy']:.4f}, {result.seconds:.0f} s"
        _say(f"[{done}/{total}] {cell}: {text}")

    failed = run_cells(cells, store, engine=engine, jobs=jobs, limit=limit, on_finished=on_finished)
    _say(f"{len(cells) - len(store.missing(cells))} of {len(cells)} cells are finished")
    if failed:
        cell, error = next(iter(failed.items()))
        raise RealmError(f"{len(failed)} cells failed, such as {cell}: {error}")
    _say(f"The table: python -m realm_lab table {spec} --results {results}")


@app.command()
def table(
    spec: SpecName,
    results: ResultsFolder = RESULTS,
    format: Annotated[str, typer.Option(help="`md`, `latex` or `csv`.")] = "md",
) -> None:
    """Print the table of a spec, with the paper's figures beside ours."""
    from realm.comparison.results import Results
    from realm_lab.recorded import CELLS, Recorded
    from realm_lab.specs import load_spec
    from realm_lab.tables import spec_tables

    store = Recorded(results) if (results / CELLS).is_file() else Results(results)
    print(spec_tables(load_spec(spec), store, format), end="")


@app.command()
def plot(
    spec: SpecName,
    output: Annotated[Path, typer.Option(help="Folder for the pictures.")],
    results: ResultsFolder = RESULTS,
) -> None:
    """Draw plots of a spec's results as SVG files."""
    from realm.comparison.results import Results
    from realm_lab.plots import draw_plots, save
    from realm_lab.specs import load_spec

    output.mkdir(parents=True, exist_ok=True)
    for name, picture in draw_plots(load_spec(spec), Results(results)):
        save(picture, output / name)
        print(output / name)


@app.command()
def reproduce(data: Annotated[Path, typer.Option()], results: ResultsFolder = RESULTS, jobs: Jobs = 2) -> None:
    """Run what is missing of the -real specs, record it, and redraw."""
    from realm_lab.evidence import REAL
    from realm_lab.page import record_results

    for name in REAL:
        run(name, results, data, jobs)
    record_results(results)
    redraw()


@app.command()
def redraw() -> None:
    """Rewrite docs/results.md from what is recorded, training nothing; exit code 1 where a promise does not hold."""
    from realm_lab import page

    raise typer.Exit(page.redraw())


if __name__ == "__main__":
    sys.exit(main())
