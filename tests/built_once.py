"""The commands of `realm`, built once for a process, this being imported.

typer builds all of them with their flags anew at every call: 30 ms, which a user's process pays once and the suite
would pay a thousand times.
"""

from __future__ import annotations

import functools

import typer.main

from realm.cli.main import app

typer.main.get_command = functools.cache(typer.main.get_command)
typer.main.get_command(app)  # here, so that processes that are forked have them
