"""The `realm` command and its subcommands."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Annotated

import typer

from realm import __version__
from realm.cli import (
    aggregate,
    check,
    compare,
    demo,
    evaluate,
    judges,
    label_studio,
    models,
    predict,
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
    rich_markup_mode=None,
)
PACKAGES = ("torch", "transformers", "accelerate", "peft", "datasets", "numpy", "pandas", "pyarrow")


def _version(requested: bool) -> None:
    """What a question about a run needs; torch, whose version tells the device it was built for, is not imported."""
    if not requested:
        return
    from realm.models import store

    installed = {each.name.lower(): each.version for each in metadata.distributions() if each.name}
    facts = {"realm": __version__, "python": platform.python_version(), "platform": platform.platform()}
    facts |= {package: installed.get(package, "not installed") for package in PACKAGES} | {"home": str(store.home())}
    typer.echo("\n".join(f"{name} {value}" for name, value in facts.items()))
    raise typer.Exit()


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show versions, for a bug report.", is_eager=True, callback=_version)
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", envvar="REALM_OFFLINE", help="Make no network call.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if offline:
        os.environ["HF_HUB_OFFLINE"] = os.environ["REALM_OFFLINE"] = "1"


for command in (
    *(check.check, aggregate.aggregate, judges.judges),
    *(train.train, evaluate.evaluate, predict.predict),
    *(relabel.relabel, report.report, push.push),
    *(compare.compare, simulate.simulate, demo.demo),
):
    app.command()(command)
app.add_typer(label_studio.app, name="label-studio")
app.add_typer(models.app, name="models")
