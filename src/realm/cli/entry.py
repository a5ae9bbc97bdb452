"""Where `realm` begins and how it ends: exit code 2 for what the user can fix, 1 for a bug, 130 for Ctrl-C.

Little is imported before `main` runs, so that Ctrl-C while the rest is being loaded ends in one line, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from typing import NoReturn

STOPPED = 130
"""The exit code of a command that was stopped by Ctrl-C, as shells count; click gives it too."""
OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
"""Errors of a disk or a folder, which the user can fix."""
MESSAGE_WIDTH = 300
"""Characters of an unforeseen error's own message: three lines of a terminal."""


def main() -> None:
    """Run the command line."""
    for name in ("stdout", "stderr"):  # `>&-` closes it before Python starts
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        from realm.cli.main import app
        from realm.cli.terminal import show_log

        show_log()
        app()
        sys.stdout.flush()
    except SystemExit as end:
        if end.code == STOPPED:
            _end("stopped.", STOPPED)
        raise
    except KeyboardInterrupt:
        _end("stopped.", STOPPED)
    except Exception as error:
        if "--debug" in sys.argv:
            sys.excepthook(type(error), error, error.__traceback__)
        _end(*_message(error))


def _message(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    from realm.errors import RealmError
    from realm.files import without_home

    if isinstance(error, RealmError):
        return f"error: {error}", 2
    if isinstance(error, MemoryError):
        return "error: not enough memory. Give it fewer rows or a smaller batch, or use a machine with more.", 2
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        return f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror}.", 2
    what = f"{type(error).__name__}: {without_home(str(error))[:MESSAGE_WIDTH]}"
    log = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    return f"error: {what} (a bug in realm: `realm --debug ...` shows the traceback; please report it.{log})", 1


def _end(message: str, code: int) -> NoReturn:
    """Say how the command ended, unless nobody can read it any more, and end."""
    if code == STOPPED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C changes nothing
    with contextlib.suppress(OSError):
        import typer

        from realm.display import visible

        # click colours whatever is a terminal; NO_COLOR (any value but an empty one) is ours to respect
        colour = False if os.environ.get("NO_COLOR") else None
        typer.secho(visible(message), fg="red" if code != STOPPED else None, err=True, color=colour)
    sys.exit(code)
