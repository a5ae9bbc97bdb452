"""`python -m realm_lab`: run grids of trainings, print their tables, draw their plots."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm import RealmError

RESULTS = Path("runs/lab")
ERRORS = 5
"""Failed cells that are named at the end: most fail for the same reason."""


def main(words: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    try:
        return int(arguments.run(arguments) or 0)
    except RealmError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Finished cells are kept. To continue, give the same command again.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m realm_lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Any, help: str, spec: bool = True, results: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(run.__name__.removesuffix("_"), help=help, description=help)
        added.set_defaults(run=run)
        if spec:
            added.add_argument("spec", metavar="SPEC", help="a name from `list`, or a YAML file")
        if results:
            added.add_argument("--results", type=Path, default=RESULTS, help="folder of finished cells")
        return added

    def running(added: argparse.ArgumentParser, jobs: int | None) -> None:
        added.add_argument("--data", type=Path, help="folder with the data sets; default: the Hugging Face hub")
        added.add_argument("--jobs", type=_positive, default=jobs, help="cells to run at once")

    command(list_, "List the specs of the package: how many cells each has, and how many are finished.", spec=False)
    run_command = command(run, "Run the cells of a spec that are not finished; the same command continues.")
    running(run_command, None)
    run_command.add_argument("--engine", choices=("processes", "ray"), default="processes")
    run_command.add_argument("--only", action="append", default=[], help="only these cells: method=realm,noisy")
    run_command.add_argument("--limit", type=_positive, help="run at most this many cells")
    table_command = command(table, "Print the table of a spec, the paper's figures beside ours, and the tests.")
    table_command.add_argument("--format", choices=("md", "latex", "csv"), default="md")
    plot_command = command(plot, "Draw plots of a spec's results as SVG files.")
    plot_command.add_argument("--output", type=Path, required=True, help="folder for the pictures")
    running(command(reproduce, "Run what is missing of the -real specs, record it, and redraw.", spec=False), 2)
    command(redraw, "Rewrite docs/results.md from what is recorded, training nothing.", spec=False, results=False)
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number of 1 or more")
    return int(text)


def list_(arguments: argparse.Namespace) -> None:
    from realm.comparison.results import Results
    from realm_lab.specs import expand, load_spec, packaged_specs

    for name in packaged_specs():
        spec = load_spec(name)
        cells = expand(spec)
        finished = len(cells) - len(Results(arguments.results).missing(cells)) if arguments.results.is_dir() else 0
        print(f"{name:22} {len(cells):5,} cells {finished:5,} finished  {spec.title}")


def run(arguments: argparse.Namespace) -> int:
    from realm.comparison.grid import CellFinished, run_cells
    from realm.comparison.results import Results
    from realm_lab.spec_tables import layout_of
    from realm_lab.specs import expand, load_spec

    spec, results = load_spec(arguments.spec), Results(arguments.results)
    layout_of(spec)  # refuses a table that there is not, before anything is trained
    cells = selected(expand(spec, arguments.data), arguments.only)
    # cells of the same model and data together, so that what is cached of them is used while it is there
    cells = sorted(cells, key=lambda cell: (cell.model, cell.data.origin, str(cell.data.describe().get("items"))))
    say(f"{len(cells)} cells, {len(cells) - len(results.missing(cells))} of them finished, in {results.folder}")

    def on_finished(event: CellFinished) -> None:
        outcome = f"failed: {event.result}" if isinstance(event.result, RealmError) else scores(event.result)
        minutes = event.seconds_left / 60
        say(f"[{event.done}/{event.total}] {event.cell}: {outcome} (about {minutes:,.0f} min left)")

    how = {"engine": arguments.engine, "jobs": arguments.jobs, "limit": arguments.limit}
    failed = run_cells(cells, results, on_finished=on_finished, **how)
    say(f"{len(cells) - len(results.missing(cells))} of {len(cells)} cells are finished")
    say(f"The table: python -m realm_lab table {spec.word} --results {results.folder}")
    if failed:
        errors = "\n".join(f"  {cell}: {error}" for cell, error in list(failed.items())[:ERRORS])
        raise RealmError(f"{len(failed)} cells failed:\n{errors}")
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def scores(result: Any) -> str:
    named = ("accuracy", "base_rate", "macro_f1", "held_out_likelihood")
    found = {name: result.metrics[name] for name in named if result.metrics.get(name) is not None}
    figures = (f"{name.replace('_', ' ')} {value:.4f}" for name, value in found.items())
    return f"{', '.join(figures)}, {result.seconds:.0f} s"


def selected(cells: list[Any], only: list[str]) -> list[Any]:
    """The cells that agree with every `field=value,value`."""
    from realm_lab.results import method_of

    fields = {cell: {**cell.fields(), "method": method_of(cell)} for cell in cells}
    for option in only:
        name, _, values = option.partition("=")
        if not values or name not in fields[cells[0]]:
            names = ", ".join(fields[cells[0]])
            raise RealmError(f"--only {option}: must be like method=realm,noisy; fields are {names}.")
        cells = [cell for cell in cells if str(fields[cell][name]) in values.split(",")]
        if not cells:
            raise RealmError(f"--only {option}: no cell of the spec has these values.")
    return cells


def table(arguments: argparse.Namespace) -> None:
    from realm.comparison.results import Results
    from realm_lab.recorded import CELLS, Recorded
    from realm_lab.spec_tables import make_tables
    from realm_lab.specs import load_spec

    spec, folder = load_spec(arguments.spec), arguments.results
    store = Recorded(folder) if (folder / CELLS).is_file() else Results(folder)
    tables = make_tables(spec, store)
    print(tables.text(arguments.format), end="")
    if any("missing" in remark for remark in tables.remarks):
        say(f"To run what is missing: python -m realm_lab run {spec.word} --data FOLDER --results {folder}")


def plot(arguments: argparse.Namespace) -> None:
    from realm.comparison.results import Results
    from realm_lab.plots import draw_plots, save
    from realm_lab.specs import load_spec

    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, picture in draw_plots(load_spec(arguments.spec), Results(arguments.results)):
        save(picture, arguments.output / name)
        print(arguments.output / name)


def reproduce(arguments: argparse.Namespace) -> int:
    from realm_lab.reproduce import REAL, record_results

    if arguments.data is None:
        raise RealmError("--data FOLDER: where the data sets are (or `redraw`, which trains nothing).")
    for name in REAL:
        run(argparse.Namespace(**vars(arguments), spec=name, only=[], limit=None, engine="processes"))
    record_results(arguments.results)
    return redraw(arguments)


def redraw(arguments: argparse.Namespace) -> int:
    from realm_lab.reproduce import redraw

    return redraw()


if __name__ == "__main__":
    sys.exit(main())
