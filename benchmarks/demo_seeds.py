"""The demo's main comparison over five seeds: is `realm` above `noisy` on each of them?

    python -m benchmarks.demo_seeds [--quick] [--seeds 5] [--first 0] [--both-acts]

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

from realm.demo.story import FULL, QUICK, Demo


class Silence:
    """Nobody watches."""

    def say(self, message: str) -> None: ...
    def begin(self, what: str, steps: int) -> None: ...
    def step(self, loss: float | None) -> None: ...
    def end(self) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--both-acts", action="store_true", help="also the second act, with several labels per item")
    chosen = parser.parse_args()
    size = QUICK if chosen.quick else FULL
    print(json.dumps(vars(size)), flush=True)
    acts: list[list[dict[str, float]]] = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        with tempfile.TemporaryDirectory() as folder:
            began, worked = time.monotonic(), time.process_time()
            outcomes = Demo(size, Path(folder), Silence(), seed=seed, second=chosen.both_acts).play()
            spent = f"{time.monotonic() - began:.0f} s, of processor {time.process_time() - worked:.0f} s"
        acts.append([outcome.accuracy for outcome in outcomes])
        for outcome in outcomes:
            print(f"seed {seed}, {outcome.title}: {_row(outcome.accuracy)} ({spent})", flush=True)
            print(_people(outcome.annotators), flush=True)
    for index, outcome in enumerate(outcomes):
        means = {method: float(np.mean([act[index][method] for act in acts])) for method in outcome.accuracy}
        print(f"mean of {chosen.seeds} seeds, {outcome.title}: {_row(means)}")
    margins = [act[0]["realm"] - act[0]["noisy"] for act in acts]
    print(f"realm - noisy: {', '.join(f'{100 * margin:+.1f}' for margin in margins)}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if min(margins) <= 0:
        sys.exit("realm is not above noisy on every seed")


def _row(accuracy: dict[str, float]) -> str:
    return ", ".join(f"{method} {100 * value:.1f}" for method, value in accuracy.items())


def _people(annotators: Any) -> str:
    shown = [
        f"{p.annotator} {p.true:.2f} -> {p.learned:.2f} ({p.low:.2f} to {p.high:.2f})" for p in annotators.itertuples()
    ]
    return "    " + ", ".join(shown)


if __name__ == "__main__":
    main()
