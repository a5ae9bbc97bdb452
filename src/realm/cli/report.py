"""`realm report`: a run, a table alone or a comparison as one HTML file that opens in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.emit import check_outputs
from realm.cli.flags import Overwrite, takes
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note
from realm.errors import RealmError


@takes(ReadingFlags)
def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folder of a run or comparison; or a table of annotations.")
    ],
    reading: ReadingFlags,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Page to write.")] = None,
    use_gold: Annotated[bool, typer.Option("--use-gold", help="Of a table: take its gold labels for true.")] = False,
    pseudonymise: Annotated[bool, typer.Option("--pseudonymise", help="Numbers in place of names.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a report that a manager can open in a browser.

    Can I use the labels, whom do I trust, what to settle and what it costs. A table of annotations needs no training:
    labels and reliability then come from agreement alone.
    """
    from realm.report.comparison_page import comparison_page, holds_comparison
    from realm.report.html import NAME
    from realm.report.run_page import table_report_name, write_report, write_table_report

    tables = [path for path in paths if path.is_file()]
    first = paths[0]
    if len(paths) > max(len(tables), 1):
        other = next(path for path in paths if path not in tables)
        raise RealmError(f"{other}: each run gets a report of its own: give it alone.")
    if tables:
        path = output or Path(table_report_name(first))
        check_outputs(path, reads=[*tables, *reading.files()], overwrite=overwrite)
        annotations = reading.read(tables, keep_rows=True)
        title = ", ".join(table.name for table in tables) if len(tables) > 1 else ""
        write_table_report(annotations, first, output=path, pseudonymise=pseudonymise, title=title, use_gold=use_gold)
    else:
        if reading.arguments() or use_gold:
            raise RealmError(f"{first} is not a file: flags that say how a table is read are for a table.")
        is_comparison = holds_comparison(first)
        check_outputs(output, reads=paths if is_comparison else [], overwrite=overwrite, own=first / NAME)
        if is_comparison:
            path = comparison_page(first, output=output)
        else:
            path = write_report(first, output=output, pseudonymise=pseudonymise)
    note(f"The report is in {path} ({path.stat().st_size / 1000:,.0f} kB): open it in a browser.")
