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
    import shlex

    from realm.comparison.results import Results
    from realm.lab.spec import SPECS, load_spec
    from realm.lab.tables import FORMATS, make_tables

    if form not in FORMATS:
        raise RealmError(f"--format {form}: must be one of {', '.join(FORMATS)}.")
    loaded = load_spec(spec)
    name = loaded.name if loaded.path.parent == SPECS else str(loaded.path)
    command = shlex.join(["realm", "lab", "run", name, "--results", str(results)])
    tables = make_tables(loaded, Results.open(results) if results.is_file() else None, command)
    typer.echo(tables.text(form), nl=False)
    if form == "csv":
        for remark in tables.remarks:
            note(remark)


def plot(
    spec: SpecName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the SVG files.")],
    results: ResultsFile = RESULTS,
) -> None:
    """Draw learning curves, the way of expertise and how well it is recovered, as SVG files."""
    from realm.comparison.results import Results
    from realm.lab.plots import write_plots
    from realm.lab.spec import load_spec

    for path in write_plots(load_spec(spec), Results.open(results), output):
        typer.echo(path)
