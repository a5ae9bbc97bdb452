"""A training run that is killed: by a clock outside, or by itself when it is about to change a file of its run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}


def changes_file(event: str, args: tuple[Any, ...], folder: str) -> bool:
    """Whether an audit event is a change below this folder."""
    if not args or not isinstance(args[0], str | Path) or not str(args[0]).startswith(folder):
        return False
    return event in CHANGES or (event == "open" and any(letter in str(args[1]) for letter in "wax+"))


def realm(words: list[str], folder: str, kill_at: int = 0, counted: str | None = None) -> None:
    """Run the command line in this process. The `kill_at`-th change below `folder` is its last moment.

    `counted` names a file that is told, at the end, how many changes there were.
    """
    seen = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if changes_file(event, args, folder):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    from realm.cli.main import main

    sys.argv = ["realm", *words]
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    if counted is not None:
        Path(counted).write_text(str(seen))
