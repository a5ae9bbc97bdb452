"""The `realm` command and its subcommands."""

from __future__ import annotations

import os
import platform
from importlib import import_module, metadata
from typing import Annotated

import typer

from realm import __version__
from realm.cli.flags import Command

app = typer.Typer(
    name="realm",
    help="Fine-tune language models on labels from annotators of uneven quality, and learn whom to trust.\n\n"
    "Start with `realm check labels.csv`, or with `realm demo`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = "check aggregate judges train evaluate predict relabel report push compare simulate demo"
GROUPS = {"label-studio": "label_studio", "models": "models"}
"""Commands with commands of their own, and their modules."""
PACKAGES = ("torch", "transformers", "accelerate", "peft", "datasets", "numpy", "pandas", "pyarrow")
"""Whose versions a bug report needs."""


def _version(requested: bool) -> None:
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


for name in COMMANDS.split():
    app.command(cls=Command)(getattr(import_module(f"realm.cli.{name}"), name))
for name, module in GROUPS.items():
    app.add_typer(import_module(f"realm.cli.{module}").app, name=name)
