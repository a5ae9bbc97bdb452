"""The demo's main comparison over five seeds: is `realm` above `noisy` on each of them?

    python -m benchmarks.demo_seeds [--quick] [--seeds 5] [--first 0] [--both]

Messages, annotators and training all change with the seed. Prints one row per seed and, at the end, means; fails if
`realm` is not above `noisy` on every seed. The figures are in docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from realm.demo.experiments import FULL, QUICK, Demo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--both", action="store_true", help="also the second experiment, with several labels per item")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    print(json.dumps(vars(size)), flush=True)
    accuracies: list[list[dict[str, float]]] = []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            start, processor_start = time.monotonic(), time.process_time()
            results = Demo(size, Path(folder), seed, second=arguments.both).run(lambda what, result: None)
            seconds, processor = time.monotonic() - start, time.process_time() - processor_start
        accuracies.append([result.accuracy for result in results])
        for result in results:
            time_taken = f"{seconds:.0f} s, of processor {processor:.0f} s"
            print(f"seed {seed}, {result.title}: {_row(result.accuracy)} ({time_taken})", flush=True)
            print(_annotators(result.annotators), flush=True)
    for index, result in enumerate(results):
        means = {method: float(np.mean([one[index][method] for one in accuracies])) for method in result.accuracy}
        print(f"mean of {arguments.seeds} seeds, {result.title}: {_row(means)}")
    margins = [first["realm"] - first["noisy"] for first, *_ in accuracies]
    print(f"realm - noisy: {', '.join(f'{100 * margin:+.1f}' for margin in margins)}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if min(margins) <= 0:
        sys.exit("realm is not above noisy on every seed")


def _row(accuracy: dict[str, float]) -> str:
    return ", ".join(f"{method} {100 * value:.1f}" for method, value in accuracy.items())


def _annotators(annotators: Any) -> str:
    figures = [
        f"{a.annotator} {a.true:.2f} -> {a.learned:.2f} ({a.low:.2f} to {a.high:.2f})" for a in annotators.itertuples()
    ]
    return "    " + ", ".join(figures)


if __name__ == "__main__":
    main()
