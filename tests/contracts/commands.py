"""Commands in a process of its own, whose tables were changed before the command line was imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

RUN = """
import contextlib, io, json, sys
from realm.cli.main import main
results = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["realm", *words]
    out, error, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    results.append([code, out.getvalue(), error.getvalue()])
print(json.dumps(results))
"""


def run_commands(change: str, *commands: list[object]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each command, after the statements `change` were executed."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    wide = {**os.environ, "COLUMNS": "250"}  # help is not wrapped
    done = subprocess.run(
        [sys.executable, "-c", f"{change}\n{RUN}", words], capture_output=True, text=True, timeout=600, env=wide
    )
    assert done.returncode == 0, done.stderr
    return [tuple(result) for result in json.loads(done.stdout.splitlines()[-1])]
