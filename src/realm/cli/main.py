"""The `realm` command: what it is called, how it fails, and its commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from realm import __version__
from realm.cli import (
    aggregate,
    check,
    compare,
    demo,
    evaluate,
    export,
    import_,
    info,
    lab,
    models,
    predict,
    relabel,
    report,
    simulate,
    train,
)
from realm.cli.messages import show_log, with_flags
from realm.errors import RealmError
from realm.report.escaping import visible

app = typer.Typer(
    name="realm",
    help="Fine-tune language models on labels from annotators of uneven quality, and learn whom to trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"realm {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_version)
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", envvar="REALM_OFFLINE", help="Forbid every network call.")
    ] = False,
) -> None:
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["REALM_OFFLINE"] = "1"


app.command()(check.check)
app.command("import")(import_.import_)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.command()(compare.compare)
app.command()(aggregate.aggregate)
app.command()(relabel.relabel)
app.command()(export.export)
app.command()(report.report)
app.command()(demo.demo)
app.command()(simulate.simulate)
app.add_typer(lab.app, name="lab")
app.add_typer(models.app, name="models")
app.command()(info.info)


def main() -> None:
    """Run the command line. Mistakes a person can mend end with exit code 2 and their message alone."""
    show_log()
    try:
        app()
    except RealmError as error:
        # click colours whatever is a terminal; NO_COLOR (any value but an empty one) is ours to respect
        message = visible(with_flags(str(error)))
        typer.secho(f"error: {message}", fg="red", err=True, color=False if os.environ.get("NO_COLOR") else None)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("stopped.", err=True)
        sys.exit(130)
