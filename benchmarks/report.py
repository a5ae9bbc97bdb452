"""The report of a large run: how big the page is and how long it takes.

    python -m benchmarks.report                                  # 5,000 annotators, 100,000 items, 500,000 annotations
    python -m benchmarks.report --items 2000 --annotators 100    # a look at it in seconds

The run folder is written as training would write it, but for the model; the page is made by `realm report` in a process
of its own, start-up included, and again in this one to show where the time goes. CPU seconds are what it costs on a
machine that does nothing else. Fails above 4 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.report.folders import crowded_estimate, large, write_run

from realm.report.run_data import read_run
from realm.report.run_page import render

LIMIT = 4_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--annotators", type=int, default=5_000)
    parser.add_argument("--per-item", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200, help="logging steps of expertise during training")
    arguments = parser.parse_args()

    table, log_probs, accuracy = large(arguments.items, arguments.annotators, arguments.per_item)
    estimates = crowded_estimate(table, log_probs, accuracy)
    trained = np.clip(estimates.expertise, 0.02, 0.98)
    path = 0.5 + np.linspace(0, 1, arguments.steps)[:, None, None] * (trained - 0.5)
    print(f"{table.n_annotators:,} annotators, {table.n_items:,} items, {table.n_annotations:,} annotations")
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", table, log_probs, found=estimates, trained=trained, trajectory=path)
        print(f"{'':>34} {'seconds':>8} {'CPU s':>8} {'MB':>6}")
        sizes = []
        for flags in ([], ["--pseudonymise"]):
            start, times = time.perf_counter(), os.times()
            command = [sys.executable, "-m", "realm", "report", str(run), *flags]
            subprocess.run(command, check=True, capture_output=True)
            seconds, after = time.perf_counter() - start, os.times()
            busy = after.children_user + after.children_system - times.children_user - times.children_system
            sizes.append((run / "report.html").stat().st_size)
            print(f"{' '.join(['realm report RUN', *flags]):>34} {seconds:8.1f} {busy:8.1f} {sizes[-1] / 1e6:6.2f}")
        start = time.process_time()
        data = read_run(run)
        read_at = time.process_time()
        render(data)
        rendered_at = time.process_time()
        print(f"{'of which reading the folder':>34} {'':>8} {read_at - start:8.1f}")
        print(f"{'of which making the page':>34} {'':>8} {rendered_at - read_at:8.1f}")
    return int(max(sizes) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
