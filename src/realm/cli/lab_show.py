"""`realm lab table` and `realm lab plot`: what the finished cells of a spec say, in the paper's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.lab import RESULTS, ResultsFile, SpecName
from realm.cli.screen import note
from realm.errors import RealmError


def table(
    spec: SpecName,
    results: ResultsFile = RESULTS,
    form: Annotated[str, typer.Option("--format", help="`md`, `latex`, or `csv` with a line per figure.")] = "md",
) -> None:
    """Print the table of a spec in the paper's shape, the paper's figures beside ours, and the tests behind it."""
    from realm.comparison import Results
    from realm.lab.spec import load_spec
    from realm.lab.tables.make import make_tables
    from realm.lab.tables.render import FORMATS

    if form not in FORMATS:
        raise RealmError(f"--format {form}: must be one of {', '.join(FORMATS)}.")
    loaded = load_spec(spec)
    made = make_tables(loaded, Results.open(results) if results.is_file() else None, results)
    typer.echo(made.text(form), nl=False)
    if form == "csv":
        for remark in made.remarks:
            note(remark)


def plot(
    spec: SpecName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the SVG files.")],
    results: ResultsFile = RESULTS,
) -> None:
    """Draw learning curves, the way of expertise and how well it is recovered, as SVG files."""
    from realm.comparison import Results
    from realm.lab.plots import write_plots
    from realm.lab.spec import load_spec

    written = write_plots(load_spec(spec), Results.open(results), output)
    for path in written:
        typer.echo(path)
