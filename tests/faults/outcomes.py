"""What became of a try: read, refused with a word, a silent wrong result, a whole file refused, a traceback, a hang."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONGEST = 20
"""Seconds of work after which a try counts as a hang: a hundred times what the slowest takes."""
WAITING = 30
"""How many times that a try may wait for a processor, or for anything else."""
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
    """End a block that works longer, or waits for very long, with `Hang`."""

    def ring(*_: object) -> None:
        raise Hang

    before = {number: signal.signal(number, ring) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of work, so that a busy machine makes no hang
    signal.alarm(seconds * WAITING)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


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


def judged(
    code: int, out: str, error: str, *, output: Path | None, refuse: bool, complaint: Callable[[], str | None]
) -> tuple[str, str]:
    """The outcome of a command, and what is wrong with it where it is a bad one.

    `refuse` says that it had to be refused, `output` is what it was to write, and `complaint` looks at what it gave.
    """
    if code == -1:
        return "hang", ""
    if code not in (0, 2) or "Traceback" in error:
        return "traceback", error[-600:]
    if code == 2:
        if output is not None and output.exists():
            return "wrong", "refused, and wrote a file"
        if not error.strip():
            return "traceback", "refused without a word"
        return ("refused", "") if refuse else ("unread", f"refused what is whole: {error[-400:]}")
    if refuse:
        return "wrong", f"took what must be refused: {out[:200]} {error[:300]}"
    wrong = complaint()
    return ("wrong", wrong) if wrong else ("read", "")


@contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    """A folder to work in, removed afterwards; the trace of an unforeseen error goes there."""
    folder.mkdir(parents=True, exist_ok=True)
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


def limit_memory(gigabytes: float) -> None:
    """A try that would fill the machine fails instead."""
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def show(title: str, tally: Tally, most: int) -> None:
    """Print the counts, and so many of the failures."""
    print(f"{title}: {tally}")
    for failure in tally.failures[:most]:
        print(f"  {failure}", file=sys.stderr)


def run_command(words: list[str]) -> tuple[int, str, str]:
    """A command in this process: (exit code, standard output, standard error). Exit code 1 is an unforeseen error."""
    from realm.cli.entry import main
    from tests import built_once  # noqa: F401  (for its effect)

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
    return code, out.getvalue(), error.getvalue()


def try_cases(
    numbers: range, folder: Path, make: Callable[[int, Path], Any], judge: Callable[..., tuple[str, str]]
) -> Tally:
    """The command of each seed's case, in a folder of its own. A case has a `name` and the `words` of its command."""
    tally = Tally()
    for seed in numbers:
        with working_in(folder / f"try{seed}") as place:
            case = make(seed, place)
            outcome, complaint = judge(case, *run_command(case.words))
            tally.add(outcome, f"seed {seed}, {case.name}, realm {' '.join(case.words)}: {complaint}")
    return tally
