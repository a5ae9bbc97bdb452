"""Reading a 1,000,000-annotation CSV and a 100,000-annotation Label Studio JSON, beside pandas and json alone.

    python benchmarks/read.py [--annotations 1000000] [--tasks-annotations 100000]

The readers take turns, each in a process of its own; times are the best of all readings, memory the process's peak. The
ratios are of processor time, over all threads, which a busy machine disturbs least, and of memory. The exit code is 1
where either is over three.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 3.0
TURNS = 3
WORDS = ("slow", "honest", "a", "study", "of", "two", "people", "who", "never", "meet", "and", "know", "each", "other")

MEASURE = """
import resource, sys, time
{setup}
walls, works = [], []
for _ in range({rounds}):
    wall, work = time.perf_counter(), time.process_time()
    kept = {call}
    walls.append(time.perf_counter() - wall)
    works.append(time.process_time() - work)
    del kept
print(min(walls), min(works), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
REALM = "from realm.annotations.readers import read"
READINGS = {
    "csv": {
        "pandas.read_csv": ("import pandas", "pandas.read_csv(sys.argv[1])"),
        "realm": (REALM, "read(sys.argv[1])"),
    },
    "label-studio": {
        "json.load": ("import json", "json.load(open(sys.argv[1]))"),
        "realm": (REALM, "read(sys.argv[1])"),
    },
}


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(8, 24)))


def write_csv(path: Path, annotations: int, rng: random.Random) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "text", "annotator", "label"])
        for item in range(annotations // 5):
            text = sentence(rng)
            for person in rng.sample(range(2000), 5):
                writer.writerow((item, text, f"w{person:04d}", rng.choice(("positive", "negative"))))


def write_label_studio(path: Path, annotations: int, rng: random.Random) -> None:
    tasks = []
    for item in range(annotations // 5):
        given = [
            {
                "id": item * 5 + k,
                "result": [
                    {
                        "id": f"{rng.getrandbits(40):010x}",
                        "from_name": "sentiment",
                        "to_name": "text",
                        "type": "choices",
                        "value": {"choices": [rng.choice(("Positive", "Negative"))]},
                    }
                ],
                "was_cancelled": False,
                "ground_truth": False,
                "created_at": "2025-03-01T10:00:00.000000Z",
                "updated_at": "2025-03-01T10:00:00.000000Z",
                "lead_time": 3.5,
                "result_count": 1,
                "task": item,
                "completed_by": {"id": rng.randrange(500), "email": f"p{k}-{rng.randrange(100)}@example.org"},
            }
            for k in range(5)
        ]
        tasks.append(
            {"id": item, "data": {"text": sentence(rng)}, "annotations": given, "predictions": [], "project": 1}
        )
    path.write_text(json.dumps(tasks), encoding="utf-8")


def measure(setup: str, call: str, path: Path, rounds: int = 3) -> tuple[float, ...]:
    """Seconds, processor seconds and MB of one way to read a file, in a process of its own."""
    script = MEASURE.format(setup=setup, call=call, rounds=rounds)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    return tuple(float(figure) for figure in done.stdout.split())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", type=int, default=1_000_000, help="annotations in the CSV")
    parser.add_argument("--tasks-annotations", type=int, default=100_000, help="annotations in the Label Studio JSON")
    arguments = parser.parse_args()
    rng = random.Random(0)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        table, tasks = Path(folder, "labels.csv"), Path(folder, "tasks.json")
        write_csv(table, arguments.annotations, rng)
        write_label_studio(tasks, arguments.tasks_annotations, rng)
        files = {"csv": (table, arguments.annotations), "label-studio": (tasks, arguments.tasks_annotations)}
        for name, (path, count) in files.items():
            print(f"{name}: {count:,} annotations, {path.stat().st_size / 1e6:.0f} MB")
            measured: dict[str, list[tuple[float, ...]]] = {reader: [] for reader in READINGS[name]}
            for _ in range(TURNS):
                for reader, (setup, call) in READINGS[name].items():
                    measured[reader].append(measure(setup, call, path))
            best = {
                reader: [min(figures) for figures in zip(*turns, strict=True)] for reader, turns in measured.items()
            }
            base = next(iter(best.values()))
            for reader, (seconds, work, memory) in best.items():
                ratios = work / base[1], memory / base[2]
                worst = max(worst, *ratios)
                print(
                    f"  {reader:16} {seconds:7.2f} s {count / seconds:12,.0f} rows/s {work:7.2f} s of processor "
                    f"{memory:6,.0f} MB   {ratios[0]:.2f}x time {ratios[1]:.2f}x memory"
                )
    print(f"worst ratio {worst:.2f}, limit {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
