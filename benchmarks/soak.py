"""Train, kill, resume, predict, report, over and over, with faults at random moments: what is survived.

python -m benchmarks.soak [--minutes 60] [--seed 0]

Every round takes a command on tiny data and a tiny model, lets it meet a fault, gives the same command again, and
compares every byte with what the command wrote when it was left alone. The faults:

| fault | what happens |
|---|---|
| kill -9 | at a random change of a file, or at a random time; the command that goes on may be killed again |
| Ctrl-C, kill | the same, with SIGINT or SIGTERM: one line, exit code 130 or 143, nothing half-written |
| disk refuses | from a random change on: full, read-only, no permission; one line, exit code 2 |
| damaged checkpoint | of an interrupted training: a file of the newest is cut short, emptied, changed or gone. If \
that is the only one, going on is refused, and `--overwrite` begins again |
| odd input | a table with bytes changed at random: read, or refused with a line and exit code 2 |

A wrong result is: other bytes than those of the command left alone, another exit code, a trace, files left behind, or
a process that does not end. Any of them ends the soak with exit code 1.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.commands import PATIENCE, Command, contents, finish, make_stage
from tests.faults.victim import realm
from tests.forked import start

WEIGHTS = {"train": 6, "compare": 2, "predict": 3, "report": 2}
"""How often a command is drawn; the others once."""
FAULTS = {"kill -9": 5, "Ctrl-C": 2, "kill": 2, "disk refuses": 3}
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT)
STOPS = {"Ctrl-C": (signal.SIGINT, 130), "kill": (signal.SIGTERM, 143)}
KILLED = -signal.SIGKILL
RESUMES_AGAIN = 0.3
"""How often the command that goes on after a kill is killed, too."""


class Wrong(Exception):
    """A result that must not be."""


@dataclass
class Whole:
    """A command that was left alone: what it wrote, in how many changes and seconds."""

    command: Command
    contents: dict[str, Any]
    changes: int
    seconds: float


@dataclass
class Soak:
    """The rounds so far: how often each command met each fault, and what was wrong."""

    root: Path
    chance: random.Random
    wholes: dict[str, Whole] = field(default_factory=dict)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    processes: int = 0
    wrong: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Every command left alone, twice: the first time also warms the process that forks."""
        for name, command in make_stage(self.root).items():
            for attempt in ("warm", "whole"):
                folder, count = self.root / attempt / name, self.root / "count"
                folder.mkdir(parents=True)
                began = time.monotonic()
                code = self.run(command.line(folder), folder, 0, str(count))
                if code:
                    raise Wrong(f"{name}: exit code {code} when left alone: {self.said()}")
                seconds = time.monotonic() - began
            self.wholes[name] = Whole(command, contents(folder), int(count.read_text()), seconds)

    def run(self, words: list[str], folder: Path, *more: Any, **how: Any) -> int:
        self.processes += 1
        return finish(words, folder, *more, said=str(self.root / "said"), **how)

    def said(self) -> str:
        return (self.root / "said").read_text(errors="replace")

    # ---------------------------------------------------------------- rounds

    def round(self) -> None:
        """One command, one fault."""
        name = self.chance.choices(list(self.wholes), [WEIGHTS.get(name, 1) for name in self.wholes])[0]
        whole, folder = self.wholes[name], self.root / "round"
        faults = dict(FAULTS)
        faults |= {"damaged checkpoint": 3} if name == "train" else {}
        faults |= {"odd input": 2} if whole.command.words[1].endswith(".csv") else {}
        fault = self.chance.choices(list(faults), list(faults.values()))[0]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            met = self.meet(fault, whole, folder)
            if met and fault != "odd input":
                self.go_on(whole, folder, self.again(fault, whole, folder))
        except (Wrong, AssertionError) as error:
            met = True
            self.wrong.append(f"{name}, {fault}: {error}")
        if met:
            self.met[name, fault] += 1

    def meet(self, fault: str, whole: Whole, folder: Path) -> bool:
        """Let a command meet a fault; False where it had ended before."""
        moment = self.chance.randint(1, whole.changes)
        line = whole.command.line(folder)
        if fault == "kill -9":
            return self.kill(whole, folder, line)
        if fault in STOPS:
            number, code = STOPS[fault]
            return self.expect(self.run(line, folder, moment, number=number), code) == code
        if fault == "disk refuses":
            code = self.run(line, folder, moment, error=self.chance.choice(ERRORS))
            return self.expect(code, 2, 0) == 2  # 0 where nothing but a removal was left to do
        if fault == "odd input":
            return self.odd_input(whole, folder)
        self.run(line, folder, moment, number=signal.SIGINT)
        self.damage(folder / whole.command.output / "checkpoints")
        return True

    def kill(self, whole: Whole, folder: Path, line: list[str]) -> bool:
        moment = self.chance.randint(1, whole.changes)
        if self.chance.random() < 0.5:
            return self.expect(self.run(line, folder, moment), KILLED, 0) == KILLED
        self.processes += 1
        process = start(realm, line, str(folder))
        process.join(self.chance.uniform(0, whole.seconds))
        process.kill()
        process.join(PATIENCE)
        return self.expect(process.exitcode, KILLED, 0, read=False) == KILLED

    def damage(self, folder: Path) -> None:
        """Damage a file of the newest checkpoint, where there is one."""
        if not (checkpoints := _checkpoints(folder)):
            return
        path = self.chance.choice(sorted(path for path in checkpoints[-1].iterdir() if path.stat().st_size))
        content = path.read_bytes()
        how = self.chance.choice(["cut", "empty", "flipped", "gone"])
        if how == "gone":
            path.unlink()
        elif how == "flipped" and content:
            place = self.chance.randrange(len(content))
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        else:
            path.write_bytes(content[: len(content) // 2] if how == "cut" else b"")

    def odd_input(self, whole: Whole, folder: Path) -> bool:
        words = list(whole.command.words)
        content = bytearray(Path(words[1]).read_bytes())
        for _ in range(self.chance.randint(1, 20)):
            content[self.chance.randrange(len(content))] = self.chance.randrange(256)
        words[1] = str(folder / "odd.csv")
        Path(words[1]).write_bytes(content)
        self.expect(self.run([*words, "--output", str(folder / whole.command.output)], folder), 0, 2)
        return True

    def again(self, fault: str, whole: Whole, folder: Path) -> list[str]:
        """The command that goes on: the same one, or a new beginning where the only checkpoint is damaged."""
        line = whole.command.line(folder, *whole.command.again)
        if fault != "damaged checkpoint" or len(_checkpoints(folder / whole.command.output / "checkpoints")) != 1:
            return line
        self.expect(self.run(line, folder), 2)
        if "there is no complete checkpoint; start again with --overwrite" not in self.said():
            raise Wrong(f"the only checkpoint is damaged, and this is said: {self.said()}")
        return whole.command.line(folder, "--overwrite")

    def go_on(self, whole: Whole, folder: Path, line: list[str]) -> None:
        """Give the command again: it must end, and have written what it writes when left alone."""
        while self.chance.random() < RESUMES_AGAIN:
            self.kill(whole, folder, line)
        code = self.run(line, folder)
        if code:
            raise Wrong(f"exit code {code} when given again: {self.said()}")
        there = contents(folder)
        if there != whole.contents:
            names = sorted(name for name in {*there, *whole.contents} if there.get(name) != whole.contents.get(name))
            raise Wrong(f"another result than the command left alone: {', '.join(names)}")

    def expect(self, code: int | None, *codes: int, read: bool = True) -> int:
        said = self.said() if read else ""
        if code not in codes or "Traceback" in said or "Exception ignored" in said:
            raise Wrong(f"exit code {code}, not one of {codes}: {said}")
        return code

    # ---------------------------------------------------------------- the table

    def table(self) -> str:
        faults = list(dict.fromkeys([*FAULTS, "damaged checkpoint", "odd input"]))
        lines = [f"| command | {' | '.join(faults)} |", f"|---|{'---|' * len(faults)}"]
        for name in self.wholes:
            lines.append(f"| {name} | {' | '.join(str(self.met[name, fault] or '') for fault in faults)} |")
        sums = [sum(count for (_, each), count in self.met.items() if each == fault) for fault in faults]
        lines.append(f"| all | {' | '.join(map(str, sums))} |")
        return "\n".join(lines)


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest last."""
    return sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        os.environ["REALM_HOME"] = f"{root}/home"
        os.environ["SOURCE_DATE_EPOCH"] = "1763337600"  # one date in all reports, also after midnight
        soak = Soak(Path(root), random.Random(flags.seed))
        began, rounds = time.monotonic(), 0
        soak.prepare()
        while time.monotonic() - began < 60 * flags.minutes and not soak.wrong:
            soak.round()
            rounds += 1
        minutes = (time.monotonic() - began) / 60
    print(
        f"{minutes:.1f} minutes, seed {flags.seed}: {sum(soak.met.values()):,} faults met in {rounds:,} rounds and "
        f"{soak.processes:,} processes, {len(soak.wrong)} wrong results.\n\n{soak.table()}"
    )
    for each in soak.wrong:
        print(f"\nwrong: {each}", file=sys.stderr)
    return bool(soak.wrong)


if __name__ == "__main__":
    sys.exit(main())
