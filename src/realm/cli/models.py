"""`realm models`: the named models, which of them are here, and how to bring one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from realm.cli.emit import print_json
from realm.cli.flags import AsJson
from realm.cli.terminal import note, show_table

app = typer.Typer(help="List the models that have a short name, or download one.")


@app.callback(invoke_without_command=True)
def models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models that have a short name: size, licence, and whether each is here."""
    if context.invoked_subcommand is not None:
        return
    from realm.models import store

    if as_json:
        entries = [{**asdict(m), "size": m.size, "present": m.present, "folder": str(m.folder)} for m in store.models()]
        print_json(entries, indent=2)
        return
    rows = [
        (m.name, f"{m.size / 1e6:.0f} MB", m.licence, "yes" if m.present else "no", m.description)
        for m in store.models()
    ]
    show_table("Named models", ("name", "download", "licence", "present", "what it is"), rows)
    typer.echo(f"The store is {store.home()}. `realm models get NAME` downloads a model; `--model NAME` uses it.")


@app.command()
def get(name: Annotated[str, typer.Argument(help="Name of the model.")]) -> None:
    """Download a named model and print its folder. One that is there already is not fetched again."""
    from realm.models.store import fetch

    typer.echo(fetch(name, _note_start))


def fetch_named_model(name: str) -> None:
    """Bring a named model into the store, with a note, if it is not there; other models are left to whoever loads."""
    from realm.models import store

    if name in [model.name for model in store.models()]:
        store.fetch(name, _note_start)


def _note_start(what: str, done: int, total: int) -> None:
    if not done:
        note(f"{what} ...")
