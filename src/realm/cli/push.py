"""`realm push`: a run's model with its card, to the Hugging Face hub."""

from __future__ import annotations

from typing import Annotated

import typer

from realm.cli.flags import RunFolder
from realm.cli.terminal import note
from realm.errors import RealmError


def push(
    folder: RunFolder,
    repo_id: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; made if it is not there.")],
    public: Annotated[bool, typer.Option("--public", help="If it is made for this, make it a public one.")] = False,
) -> None:
    """Upload a run's model and its card to the Hugging Face hub.

    No annotator is named. The token is read from HF_TOKEN, or from where `hf auth login` put it.
    """
    from realm.runs import Run
    from realm.runs.hub import PushError

    try:
        address = Run.open(folder, verify_model=False).push_to_hub(repo_id, private=not public)
    except PushError as error:
        raise RealmError(f"{error.what}: give the same command again.") from None
    note(f"The model is on the Hugging Face hub: {address}")
