"""Gives commands that must be refused, over and over, each in a process of its own, and counts how they end.

A thread of a library that outlives the interpreter ends a process by an abort once in some dozens of times, after the
right message: only real processes show it, and only many of them.

python -m tests.faults.error_paths --times 300
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

ROWS = "".join(f"a text {row % 40},w{row % 7},{row % 3}\n" for row in range(400))
REFUSED = 2


def make_lines(folder: Path) -> dict[str, list[str]]:
    """Commands that end in an error that a person can mend, by what is wrong; the first is the one that aborted."""
    table, good = folder / "missing.csv", folder / "good.csv"
    table.write_text("text,annotator,labelled\n" + ROWS)
    good.write_text("text,annotator,label\n" + ROWS)
    (folder / "missing.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    with zipfile.ZipFile(folder / "missing.zip", "w") as archive:
        archive.write(table, "missing.csv")
    (folder / "ragged.csv").write_text("text,annotator,label\n" + ROWS + "one cell too many,w1,1,2,3\n")
    (folder / "cut.parquet").write_bytes(b"PAR1 and nothing more")
    (folder / "lines.jsonl").write_text('{"text": "x", "annotator": "a", "label": 1}\n{"text"\n')
    other = str(folder / "other.csv")
    return {
        "a missing column": ["check", str(table)],
        "one in a gzip": ["check", str(folder / "missing.csv.gz")],
        "one in a zip": ["check", str(folder / "missing.zip")],
        "a row too long": ["check", str(folder / "ragged.csv")],
        "a damaged Parquet file": ["check", str(folder / "cut.parquet")],
        "a line cut short": ["check", str(folder / "lines.jsonl"), "--write", other],
        "an output that exists": ["check", str(good), "--write", str(table)],
        "no such file": ["aggregate", str(folder / "absent.csv"), "--output", other],
    }


def count(times: int, folder: Path) -> Counter[tuple[str, int]]:
    """The commands in turn, so many processes in all: how often each ended with which exit code."""
    lines = make_lines(folder)
    names = list(lines)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ends: Counter[tuple[str, int]] = Counter()
    for turn in range(times):
        name = names[0 if turn % 2 else turn // 2 % len(names)]  # every second time the first
        words = [sys.executable, "-m", "realm", *lines[name]]
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        ends[name, done.returncode] += 1
        said = done.stderr.strip().splitlines()
        if done.returncode != REFUSED or not said or not said[-1].startswith("error: "):
            print(f"{name}: exit code {done.returncode}: {done.stderr[-500:]}", file=sys.stderr)
            ends["wrong", done.returncode] += 1
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=300)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends = count(flags.times, Path(folder))
    wrong = sum(number for (name, _), number in ends.items() if name == "wrong")
    for (name, code), number in sorted(ends.items()):
        print(f"{name}: {number} with exit code {code}")
    print(f"{flags.times} processes, {wrong} that did not end with an error and exit code {REFUSED}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
