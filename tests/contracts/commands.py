"""Commands in a process of its own, whose tables were changed before the command line was imported."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

from tests.forked import call


def all_flags() -> set[str]:
    """The flags of all commands, with those that turn a switch off."""
    import typer

    from realm.cli.main import app

    flags: set[str] = set()
    pending: list[Any] = [typer.main.get_command(app)]
    while pending:
        command = pending.pop()
        pending += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                flags |= {name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")}
    return flags


def run_commands(change: str, *commands: list[object]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each command, after the statements `change` were executed."""
    words = [[str(word) for word in command] for command in commands]
    done = call(_run_changed, change, words, COLUMNS="250")  # help is not wrapped
    assert done.returncode == 0, done.stderr
    return [tuple(result) for result in json.loads(done.stdout.splitlines()[-1])]


def _run_changed(change: str, commands: list[list[str]]) -> None:
    # The process is forked from one that has imported REALM: what was read off the tables then is to be read again.
    # torch and transformers stay, which take most of the seconds that a new process needs to start.
    for name in [name for name in sys.modules if name.partition(".")[0] == "realm"]:
        del sys.modules[name]
    exec(change, {})
    from realm.cli.entry import main

    results = []
    for words in commands:
        sys.argv = ["realm", *words]
        out, error, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        results.append([code, out.getvalue(), error.getvalue()])
    print(json.dumps(results))
