"""Reading a 1,000,000-annotation CSV and a 100,000-annotation Label Studio JSON, beside pandas and json alone.

    python -m benchmarks.read [--annotations 1000000] [--tasks-annotations 100000]

The readers take turns, each in a process of its own and on its second reading; medians of five turns, memory the
process's peak. The ratios are of processor time, over all threads, which a busy machine disturbs least, and of memory.
Nothing counts unless both found every annotation. The exit code is 1 where a ratio is over three.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._sides import show

LIMIT = 3.0
TURNS = 5
WORDS = ("slow", "honest", "a", "study", "of", "two", "people", "who", "never", "meet", "and", "know", "each", "other")

MEASURE = """
import resource, sys, time
{setup}
kept = {call}
del kept
wall, work = time.perf_counter(), time.process_time()
kept = {call}
print(time.perf_counter() - wall, time.process_time() - work, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print({count})
"""
REALM = "from realm.data.readers import read"
READINGS = {
    "csv": {
        "pandas.read_csv": ("import pandas", "pandas.read_csv(sys.argv[1])", "len(kept)"),
        "realm": (REALM, "read(sys.argv[1])", "kept.n_annotations"),
    },
    "label-studio": {
        "json.load": (
            "import json",
            "json.load(open(sys.argv[1]))",
            "sum(len(task['annotations']) for task in kept)",
        ),
        "realm": (REALM, "read(sys.argv[1])", "kept.n_annotations"),
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
        records = [
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
            {"id": item, "data": {"text": sentence(rng)}, "annotations": records, "predictions": [], "project": 1}
        )
    path.write_text(json.dumps(tasks), encoding="utf-8")


def measure(setup: str, call: str, count: str, path: Path) -> tuple[list[float], int]:
    """Seconds, processor seconds and MB of a way to read a file, in a process of its own; the annotations it found."""
    script = MEASURE.format(setup=setup, call=call, count=count)
    process = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    figures, annotations = process.stdout.splitlines()
    return [float(figure) for figure in figures.split()], int(annotations)


def compare(name: str, path: Path, count: int) -> tuple[list[list[str]], float]:
    """The rows of a file, and the worst ratio of REALM's."""
    measured: dict[str, list[list[float]]] = {reader: [] for reader in READINGS[name]}
    for _ in range(TURNS):
        for reader, (setup, call, counter) in READINGS[name].items():
            figures, annotations = measure(setup, call, counter, path)
            assert annotations == count, f"{reader} found {annotations:,} of {count:,} annotations in {path.name}"
            measured[reader].append(figures)
    rows, base, worst = [], [], 0.0
    for reader, turns in measured.items():
        seconds, work, memory = (statistics.median(figures) for figures in zip(*turns, strict=True))
        base = base or [work, memory]
        ratios = work / base[0], memory / base[1]
        worst = max(worst, *ratios)
        row = [f"{name}, {path.stat().st_size / 1e6:.0f} MB", f"{count:,}", reader, f"{seconds:.2f}", f"{work:.2f}"]
        rows.append([*row, f"{memory:,.0f}", *(f"{ratio:.2f}x" for ratio in ratios)])
    return rows, worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", type=int, default=1_000_000, help="annotations in the CSV")
    parser.add_argument("--tasks-annotations", type=int, default=100_000, help="annotations in the Label Studio JSON")
    arguments = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        table, tasks = Path(folder, "labels.csv"), Path(folder, "tasks.json")
        write_csv(table, arguments.annotations, rng)
        write_label_studio(tasks, arguments.tasks_annotations, rng)
        comparisons = [
            compare("csv", table, arguments.annotations),
            compare("label-studio", tasks, arguments.tasks_annotations),
        ]
    columns = ["file", "annotations", "read by", "s", "processor, s", "peak, MB", "processor", "memory"]
    show(f"Reading, medians of {TURNS} turns", columns, [row for rows, _ in comparisons for row in rows])
    worst = max(ratio for _, ratio in comparisons)
    print(f"\nworst ratio {worst:.2f}, limit {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
