"""What `realm pull label-studio` and `realm push label-studio` share: the address, the project, and the key."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.integrations.label_studio import Project

KEY = "LABEL_STUDIO_API_KEY"
Url = Annotated[str, typer.Option("--url", help="Address of the server, such as https://labels.example.org.")]
Number = Annotated[int, typer.Option("--project", help="Number of the project: the one in its address.", min=1)]
ControlTag = Annotated[
    str | None, typer.Option("--control", help="Name of the tag with the label; needed where there are several.")
]
TextField = Annotated[
    str | None, typer.Option("--text", help="Data field with the text. Default: the one that the tag is about.")
]


def open_project(url: str, number: int) -> Project:
    """The project, with the key from the environment or from a prompt that does not show it."""
    from realm.integrations.label_studio import Project, Server

    key = os.environ.get(KEY, "")
    if not key.strip() and not sys.stdin.isatty():
        raise RealmError(f"no key: put a personal access token of Label Studio into the variable {KEY}.")
    if not key.strip():
        key = typer.prompt(f"Key of {url} (a personal access token; {KEY} was not set)", hide_input=True, err=True)
    return Project.open(Server(url, key), number)
