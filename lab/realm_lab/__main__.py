"""`python -m realm_lab`: run grids of trainings, print their tables, draw their plots."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm import RealmError

RESULTS = Path("runs/lab")


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

    def command(run: Any, help: str, spec: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(run.__name__.strip("_"), help=help, description=help)
        added.set_defaults(run=run)
        if spec:
            added.add_argument("spec", metavar="SPEC", help="a name from `list`, or a YAML file")
        if run not in (_list, _redraw):
            added.add_argument("--results", type=Path, default=RESULTS, help="folder of finished cells")
        return added

    command(_list, "List the specs of the package and how many cells each has.", spec=False)
    run = command(_run, "Run the cells of a spec that are not finished; the same command continues.")
    reproduce = command(_reproduce, "Run what is missing of the -real specs, record it, and redraw.", spec=False)
    for added in (run, reproduce):
        added.add_argument("--data", type=Path, help="folder with the data sets; default: the Hugging Face hub")
        added.add_argument("--jobs", type=int, default=1, help="cells to run at once")
        added.add_argument("--engine", choices=("processes", "ray"), default="processes")
    run.add_argument("--only", action="append", default=[], help="only these cells: method=realm,noisy")
    run.add_argument("--limit", type=int, help="run at most this many cells")
    table = command(_table, "Print the table of a spec, the paper's figures beside ours, and the tests.")
    table.add_argument("--format", choices=("md", "latex", "csv"), default="md")
    plot = command(_plot, "Draw plots of a spec's results as SVG files.")
    plot.add_argument("--output", type=Path, required=True, help="folder for the pictures")
    command(_redraw, "Rewrite docs/results.md from what is recorded, training nothing.", spec=False)
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _list(arguments: argparse.Namespace) -> None:
    from realm_lab.specs import expand, load_spec, packaged_specs

    for spec in map(load_spec, packaged_specs()):
        print(f"{spec.name:22} {len(expand(spec)):5,} cells  {spec.title}")


def _run(arguments: argparse.Namespace) -> None:
    from realm_lab.specs import load_spec

    spec = load_spec(arguments.spec)
    _run_spec(spec, arguments, arguments.only, arguments.limit)
    _say(f"The table: python -m realm_lab table {spec.word} --results {arguments.results}")


def _run_spec(spec: Any, arguments: argparse.Namespace, only: Sequence[str] = (), limit: int | None = None) -> None:
    from realm.comparison.grid import run_cells
    from realm.comparison.results import Results
    from realm_lab.specs import spec_rows

    results, rows = Results(arguments.results), list(spec_rows(spec, arguments.data))
    for option in only:
        name, _, values = option.partition("=")
        if not (rows := [row for row in rows if str(row.get(name)) in values.split(",")]):
            raise RealmError(
                f"--only {option}: no cell of the spec has these values. Write it like method=realm,noisy."
            )
    # cells of the same model and data together, so that what is cached of them is used while it is there
    cells = list(dict.fromkeys(row["cell"] for row in rows))
    cells.sort(key=lambda cell: (cell.model, cell.data.origin, str(cell.data.items)))
    _say(f"{len(cells)} cells, {len(cells) - len(results.missing(cells))} of them finished, in {results.folder}")

    def on_finished(cell: Any, result: Any, done: int, total: int) -> None:
        if isinstance(result, RealmError):
            _say(f"[{done}/{total}] {cell}: failed: {result}")
        else:
            _say(f"[{done}/{total}] {cell}: accuracy {result.metrics['accuracy']:.4f}, {result.seconds:.0f} s")

    how: dict[str, Any] = {"engine": arguments.engine, "jobs": arguments.jobs, "limit": limit}
    failed = run_cells(cells, results, on_finished=on_finished, **how)
    _say(f"{len(cells) - len(results.missing(cells))} of {len(cells)} cells are finished")
    if failed:
        cell, error = next(iter(failed.items()))
        raise RealmError(f"{len(failed)} cells failed, such as {cell}: {error}")


def _table(arguments: argparse.Namespace) -> None:
    from realm.comparison.results import Results
    from realm_lab.recorded import CELLS, Recorded
    from realm_lab.specs import load_spec
    from realm_lab.tables import spec_tables

    folder = arguments.results
    store = Recorded(folder) if (folder / CELLS).is_file() else Results(folder)
    print(spec_tables(load_spec(arguments.spec), store, arguments.format), end="")


def _plot(arguments: argparse.Namespace) -> None:
    from realm.comparison.results import Results
    from realm_lab.plots import draw_plots, save
    from realm_lab.specs import load_spec

    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, picture in draw_plots(load_spec(arguments.spec), Results(arguments.results)):
        save(picture, arguments.output / name)
        print(arguments.output / name)


def _reproduce(arguments: argparse.Namespace) -> int:
    from realm_lab.evidence import REAL
    from realm_lab.page import record_results, redraw
    from realm_lab.specs import load_spec

    if arguments.data is None:
        raise RealmError("--data FOLDER: where the data sets are (or `redraw`, which trains nothing).")
    for name in REAL:
        _run_spec(load_spec(name), arguments)
    record_results(arguments.results)
    return redraw()


def _redraw(arguments: argparse.Namespace) -> int:
    from realm_lab.page import redraw

    return redraw()


if __name__ == "__main__":
    sys.exit(main())
