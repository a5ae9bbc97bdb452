"""The `realm` command and its subcommands."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
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

app = typer.Typer(
    name="realm",
    help="Fine-tune language models on labels from annotators of uneven quality, and learn whom to trust.\n\n"
    "Start with `realm check labels.csv`, or with `realm demo`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


PACKAGES = ("torch", "transformers", "accelerate", "peft", "datasets", "numpy", "pandas", "pyarrow")


def _version(requested: bool) -> None:
    """What a question about a run needs; torch, whose version tells the device it was built for, is not imported."""
    if not requested:
        return
    from realm.models import store

    facts = {"realm": __version__, "python": platform.python_version(), "platform": platform.platform()}
    facts |= {package: _version_of(package) for package in PACKAGES} | {"home": str(store.home())}
    for name, value in facts.items():
        typer.echo(f"{name} {value}")
    raise typer.Exit()


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show versions, to paste into a bug report, and exit.", is_eager=True, callback=_version
        ),
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", envvar="REALM_OFFLINE", help="Make no network call.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
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
