"""The `realm` command: what it is called, how it fails, and its commands."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import Annotated, NoReturn

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
    judges,
    models,
    predict,
    pull,
    push,
    relabel,
    report,
    simulate,
    train,
)
from realm.cli.messages import show_log, with_flags
from realm.cli.stopping import exit_code
from realm.cli.unforeseen import mendable, redacted, write_trace
from realm.errors import RealmError
from realm.report.escaping import visible

app = typer.Typer(
    name="realm",
    help="Fine-tune language models on labels from annotators of uneven quality, and learn whom to trust.\n\n"
    "Start with `realm check labels.csv`, or with `realm demo`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

STOPPED = 130
"""The exit code of a command that was stopped by Ctrl-C: 128 and the number of the signal, as of any other."""
DEBUG = "--debug"
MESSAGE_WIDTH = 300
"""Characters of an unforeseen error's own message: three lines of a terminal; the file has all of it."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"realm {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", envvar="REALM_OFFLINE", help="Make no network call.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["REALM_OFFLINE"] = "1"


LOOK = "See what is in your labels"
TRAIN = "Train and use a model"
IMPROVE = "Improve and share what came out"
TRY = "Try and compare"
SYSTEM = "Set-up"

app.command(rich_help_panel=LOOK)(check.check)
app.command(rich_help_panel=LOOK)(aggregate.aggregate)
app.command(rich_help_panel=LOOK)(judges.judges)
app.command("import", rich_help_panel=LOOK)(import_.import_)
app.add_typer(pull.app, name="pull", rich_help_panel=LOOK)
app.command(rich_help_panel=TRAIN)(train.train)
app.command(rich_help_panel=TRAIN)(evaluate.evaluate)
app.command(rich_help_panel=TRAIN)(predict.predict)
app.command(rich_help_panel=IMPROVE)(relabel.relabel)
app.command(rich_help_panel=IMPROVE)(report.report)
app.command(rich_help_panel=IMPROVE)(export.export)
app.add_typer(push.app, name="push", rich_help_panel=IMPROVE)
app.command(rich_help_panel=TRY)(demo.demo)
app.command(rich_help_panel=TRY)(compare.compare)
app.command(rich_help_panel=TRY)(simulate.simulate)
app.add_typer(models.app, name="models", rich_help_panel=SYSTEM)
app.command(rich_help_panel=SYSTEM)(info.info)


def main() -> None:
    """Run the command line: exit code 2 and the message alone for a mistake that a person can mend, 130 for Ctrl-C
    (143 for `kill`).

    Of anything else the person gets two lines, the whole trace goes into a file, and the exit code is 1.
    """
    show_log()
    try:
        app()
        sys.stdout.flush()
    except SystemExit as end:
        if end.code == STOPPED or (end.code and exit_code()):  # typer makes Ctrl-C this code, and says nothing
            _stop()
        raise
    except KeyboardInterrupt:
        _stop()
    except Exception as error:
        if exit_code():  # a library may make another error of an interrupt
            _stop()
        if DEBUG in sys.argv:
            traceback.print_exception(error)
        message = str(error) if isinstance(error, RealmError) else mendable(error)
        if message is not None:
            _say(f"error: {with_flags(message)}", fg="red")
            sys.exit(2)
        _say(f"error: {type(error).__name__}: {redacted(str(error))[:MESSAGE_WIDTH]}", fg="red")
        path = write_trace(error)
        place = f"{path} has the traceback" if path is not None else f"`realm {DEBUG} ...` shows the traceback"
        _say(f"This is a bug in realm: {place}. Please report it with that (SECURITY.md says how).")
        sys.exit(1)


def _stop() -> NoReturn:
    _say("stopped.")
    sys.exit(exit_code() or STOPPED)


def _say(message: str, fg: str | None = None) -> None:
    """A line on standard error, unless nobody can read it any more."""
    # click colours whatever is a terminal; NO_COLOR (any value but an empty one) is ours to respect
    with contextlib.suppress(OSError):
        typer.secho(visible(message), fg=fg, err=True, color=False if os.environ.get("NO_COLOR") else None)
