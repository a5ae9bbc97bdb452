"""A command that meets a fault: killed by a clock outside, or by itself when it is about to change a file of a folder;
stopped there; or told from there on that the disk takes nothing more."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

REMOVALS = {"os.remove", "os.rmdir", "shutil.rmtree"}
CHANGES = {"os.rename", "os.mkdir", *REMOVALS}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def changes_file(event: str, args: tuple[Any, ...], folder: str) -> bool:
    """Whether an audit event is a change below this folder, or the folder itself being made."""
    if not args or not isinstance(args[0], str | Path):
        return False
    if not Path(args[0]).is_relative_to(folder):
        return False
    if event == "open":
        mode, flags = args[1:3]
        return bool(flags & WRITING) if mode is None else any(letter in str(mode) for letter in "wax+")
    return event in CHANGES


def realm(
    words: list[str],
    folder: str,
    moment: int = 0,
    counted: str | None = None,
    *,
    error: int = 0,
    said: str | None = None,
) -> None:
    """Run the command line in this process. At the `moment`-th change below `folder` it meets its fault.

    It is killed, or with `error` gets an `OSError` of that number there and at every later change that is no removal.
    `counted` names a file that is told, at the end, how many changes there were; `said` one that gets what the command
    prints.
    """
    seen = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if not changes_file(event, args, folder):
            return
        seen += 1
        if error and moment and seen >= moment and event not in REMOVALS:
            raise OSError(error, os.strerror(error), str(args[0]))
        if not error and seen == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    from realm.cli.entry import main

    sys.argv = ["realm", *words]
    printed = os.open(said or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.addaudithook(watch)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    if counted is not None:
        Path(counted).write_text(str(seen))
