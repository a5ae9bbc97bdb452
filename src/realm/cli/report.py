"""`realm report`: a run, several runs or a comparison as one HTML file that opens in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import Overwrite
from realm.cli.output_files import check_outputs
from realm.cli.terminal import note
from realm.errors import RealmError


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folder; several to set side by side; or a folder of `compare`."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (RUN/report.html; compare.html here for several runs)."),
    ] = None,
    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="Numbers in place of annotators' names.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a report that a manager can open: whom to trust, cleaned labels, what to label again, and its limits."""
    from realm.report.comparison_page import comparison_page, holds_comparison
    from realm.report.html import NAME
    from realm.report.runs_page import NAME as SIDE_BY_SIDE
    from realm.report.runs_page import write_side_by_side

    compared = [folder for folder in folders if holds_comparison(folder)]
    if compared and len(folders) > 1:
        raise RealmError(f"{compared[0]} is a comparison of methods; it gets a page of its own: give it alone.")
    if len(folders) > 1:
        check_outputs(output or Path(SIDE_BY_SIDE), overwrite=overwrite)
    else:
        check_outputs(output, reads=compared, overwrite=overwrite, own=folders[0] / NAME)
    if compared:
        path = comparison_page(folders[0], output=output)
    elif len(folders) > 1:
        path = write_side_by_side(folders, output=output, pseudonymise=pseudonymise)
    else:
        from realm.report.run_page import write_report

        path = write_report(folders[0], output=output, pseudonymise=pseudonymise)
    note(f"The report is in {path} ({path.stat().st_size / 1000:,.0f} kB): open it in a browser.")
