"""What became of a try: read, refused with a word, a silent wrong result, a whole file refused, a traceback, a hang."""

from __future__ import annotations

import contextlib
import functools
import io
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

LONGEST = 20
"""Seconds after which a try counts as a hang: hundreds of times what the slowest takes, on a busy machine too."""
BAD = ("wrong", "unread", "traceback", "hang")


class Hang(BaseException):
    """Raised in a try that takes too long."""


@dataclass
class Tally:
    """Counts by outcome, and what went wrong in the bad ones."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: str, story: str = "") -> None:
        self.counts[outcome] += 1
        if outcome in BAD:
            self.failures.append(f"{outcome}: {story}")

    def __str__(self) -> str:
        words = {"read": "read", "refused": "refused", "wrong": "silent wrong results"}
        words |= {"unread": "whole files refused", "traceback": "tracebacks", "hang": "hangs"}
        parts = [f"{self.counts[key]:,} {word}" for key, word in words.items()]
        return f"{sum(self.counts.values()):,} tries: {', '.join(parts)}"


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """End a block that takes longer with `Hang`."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(tally: Tally, story: str, call: Callable[[], Any], check: Callable[[Any], str | None] | None = None) -> Any:
    """Call a reader: a RealmError is a refusal, any other exception a traceback; `check` says what is wrong with it."""
    from realm.errors import RealmError

    try:
        with no_longer_than(LONGEST):
            value = call()
            complaint = check(value) if check is not None else None
    except RealmError as error:
        tally.add("refused" if str(error) else "traceback", f"{story}: an error without a word")
        return None
    except Hang:
        tally.add("hang", story)
        return None
    except Exception as error:
        tally.add("traceback", f"{story}: {''.join(traceback.format_exception(error)[-2:])}")
        return None
    tally.add("wrong" if complaint else "read", f"{story}: {complaint}")
    return value


@functools.cache
def _commands(app: Any) -> Any:
    """The commands, which typer would build anew at every call: most of the time of a try."""
    from typer.main import get_group

    return get_group(app)


def run_command(words: list[str]) -> tuple[int, str, str]:
    """A command in this process: (exit code, standard output, standard error). Exit code 1 is an unforeseen error."""
    import typer.main

    from realm.cli.main import main

    build, typer.main.get_command = typer.main.get_command, _commands
    out, error = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["realm", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), no_longer_than(LONGEST):
            main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except Hang:
        code = -1
    except Exception as failure:
        code = 1
        error.write("".join(traceback.format_exception(failure)[-2:]))
    finally:
        sys.argv = before
        typer.main.get_command = build
    return code, out.getvalue(), error.getvalue()
