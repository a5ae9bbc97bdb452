"""`realm report`: a run, a table alone or a comparison as one HTML file that opens in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import Overwrite, takes
from realm.cli.output_files import check_outputs
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note
from realm.errors import RealmError


@takes(ReadingFlags)
def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Run folder; folder of `compare`; or a table of annotations (several files are one table).",
        ),
    ],
    reading: ReadingFlags,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write (RUN/report.html; of a table LABELS.report.html here).",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page. Default: the name of the table or run.")] = "",
    use_gold: Annotated[
        bool,
        typer.Option("--use-gold", help="Of a table: items with gold have their gold label, and judge annotators."),
    ] = False,
    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="Numbers in place of annotators' names.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a report that a manager can open: can I use the labels, whom do I trust, what to settle and what it costs.

    A table of annotations needs no training: labels and reliability then come from agreement alone.
    """
    from realm.report.comparison_page import comparison_page, holds_comparison
    from realm.report.html import NAME
    from realm.report.run_page import write_report

    tables = [path for path in paths if path.is_file()]
    if len(paths) > max(len(tables), 1):
        raise RealmError(
            f"{next(path for path in paths if path not in tables)}: each run gets a report of its own: give it alone. "
            "To set methods side by side, use `realm compare`."
        )
    if tables:
        path = _table_report(tables, reading, output, title, use_gold, pseudonymise, overwrite)
    else:
        _refuse_table_flags(paths, reading, use_gold)
        is_comparison = holds_comparison(paths[0])
        if title and is_comparison:
            raise RealmError("--title: is for the report of a run or table.")
        check_outputs(output, reads=paths if is_comparison else [], overwrite=overwrite, own=paths[0] / NAME)
        if is_comparison:
            path = comparison_page(paths[0], output=output)
        else:
            path = write_report(paths[0], output=output, pseudonymise=pseudonymise, title=title)
    note(f"The report is in {path} ({path.stat().st_size / 1000:,.0f} kB): open it in a browser.")


def _table_report(
    files: list[Path],
    reading: ReadingFlags,
    output: Path | None,
    title: str,
    use_gold: bool,
    pseudonymise: bool,
    overwrite: bool,
) -> Path:
    from realm.report.run_page import table_report_name, write_table_report

    path = output or Path(table_report_name(files[0]))
    check_outputs(path, reads=[*files, *reading.files()], overwrite=overwrite)
    annotations = reading.read(files, keep_rows=True)
    title = title or (", ".join(file.name for file in files) if len(files) > 1 else "")
    return write_table_report(
        annotations, files[0], output=path, pseudonymise=pseudonymise, title=title, use_gold=use_gold
    )


def _refuse_table_flags(paths: list[Path], reading: ReadingFlags, use_gold: bool) -> None:
    """A run was read when it was trained: flags that say how to read a table would do nothing."""
    given = [f"--{name.replace('_', '-')}" for name in reading.arguments()]
    given += ["--use-gold"] if use_gold else []
    if given:
        raise RealmError(f"{given[0]}: is for a table of annotations, and {paths[0]} is not a file.")
