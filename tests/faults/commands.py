"""Every command that writes, on tiny data and a tiny model, so that all of them can be put through the same faults."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import stand_ins
from tests.faults.stand_ins import HOME
from tests.faults.victim import realm
from tests.forked import start
from tests.tiny import crowd, save_tiny

PATIENCE = 900
"""Seconds after which a process counts as one that hangs: hundreds of times its work, on a busy machine."""
TIMED = ("seconds", "finished_at", "runtime")
"""What differs from one comparison to the next."""


@dataclass(frozen=True)
class Command:
    """A command that writes: its words up to the output, the output's name, what may follow when it is repeated, and
    the flag that names the output."""

    name: str
    words: tuple[str, ...]
    output: str
    again: tuple[str, ...] = ("--overwrite",)
    flag: str = "--output"

    def line(self, folder: Path, *more: str) -> list[str]:
        """The words that make it write below this folder."""
        return [*self.words, self.flag, str(folder / self.output), *more]


def make_stage(root: Path) -> dict[str, Command]:
    """Tables, a model and a finished run in this folder, and the commands that read them, by name."""
    crowd(30, per_item=2).to_pandas().to_csv(root / "labels.csv", index=False)
    crowd(12, seed=5).to_pandas().to_csv(root / "test.csv", index=False)
    model = save_tiny(root / "model", "bert", layers=1, width=16)
    labels, test, run = str(root / "labels.csv"), str(root / "test.csv"), str(root / "run")
    flags = ("--model", model, "--steps", "4", "--batch-size", "8", "--micro-batch-size", "4")
    train = ("train", labels, *flags, "--save-steps", "2")
    compare = ("compare", labels, "--test", test, *flags, "--methods", "noisy,realm", "--seeds", "1")
    commands = [
        Command("check", ("check", labels), "table.csv", flag="--write"),
        Command("check-parquet", ("check", labels), "table.parquet", flag="--write"),
        Command("simulate", ("simulate", test, "--pool", "0.9,0.5"), "simulated.csv"),
        Command("aggregate", ("aggregate", labels), "aggregated.csv"),
        Command("predict", ("predict", run, test), "answers.csv"),
        Command("relabel", ("relabel", run), "queue.csv"),
        Command("report", ("report", run), "page.html"),
        Command("train", train, "run", ("--resume",)),
        Command("compare", compare, "compared", ()),
        Command("demo", ("demo", "--quick"), "demo", ()),
        Command("models-get", ("models", "get", "tiny"), "home", (), HOME),
    ]
    stand_ins.prepare()
    assert finish([*train, "--output", run], root) == 0
    return {command.name: command for command in commands}


def finish(words: list[str], folder: Path, *more: Any, **how: Any) -> int:
    """Run a command in a process of its own to its end: its exit code, below zero where a signal ended it."""
    process = start(_realm, words, str(folder), more, how)
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"hangs: {words}")
    return process.exitcode


def _realm(words: list[str], folder: str, more: tuple[Any, ...], how: dict[str, Any]) -> None:
    realm(words, folder, *more, **how)


def contents(folder: Path) -> dict[str, Any]:
    """Every file below a folder: its bytes, or what does not depend on the clock of what a comparison writes.

    Logs of progress tell of every attempt with its time, and are left out.
    """
    files = [path for path in sorted(folder.rglob("*")) if not path.is_dir() and path.suffix != ".log"]
    return {str(path.relative_to(folder)): _content(path) for path in files}


def _content(path: Path) -> Any:
    if path.name in ("results.json", "demo.json") or (path.parent.name == "cells" and path.suffix == ".json"):
        return _untimed(json.loads(path.read_text()))
    if path.name == "results.csv":
        rows = csv.DictReader(io.StringIO(path.read_text()))
        return [_untimed(row) for row in rows]
    return path.read_bytes()


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untimed(each) for key, each in value.items() if key not in TIMED}
    return [_untimed(each) for each in value] if isinstance(value, list) else value
