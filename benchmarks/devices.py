"""What each device of the model of annotators is worth: the same worlds with one of them switched off at a time.

    python -m benchmarks.devices [--data DATA] [--seeds 3] [--quick]

From labels alone: share of labels right, log loss, coverage of intervals. It ends with exit code 1 if one of them gains
more than a point on average when it is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks import _worlds
from benchmarks._worlds import Answer, Crowd
from benchmarks.crowds_from_labels import SIMULATED, real_worlds
from realm.crowd import model, shared_mistakes, starts, task_model
from realm.crowd.engine import INFINITE, PRIORS, Priors
from realm.crowd.model import AnnotatorModel

Off = Callable[[], ExitStack]
QUICK = ("3 of 20 know, K=2, 100", "clique of 5 of 10, K=3, 4 each")


def replaced(*targets: tuple[object, str, object]) -> Off:
    """A context in which attributes of modules have other values."""

    def enter() -> ExitStack:
        stack = ExitStack()
        for owner, name, value in targets:
            stack.enter_context(patch.object(owner, name, value))
        return stack

    return enter


def priors(**fields: object) -> Off:
    """A context in which the default model has other priors."""

    def enter() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(patch.dict(PRIORS, {"confusion": Priors(**fields)}))  # type: ignore[arg-type]
        return stack

    return enter


DEVICES: dict[str, Off] = {
    "nothing": ExitStack,
    "habits (kappa)": priors(habit=INFINITE, form="uniform"),
    "kappa fitted (4 instead)": priors(habit=4.0),
    "rows": priors(rows=INFINITE),
    "shared confusions (D)": priors(shared=INFINITE),
    "pooling (skill worth 0.1 labels)": priors(skill=0.1),
    "copies": replaced((model, "find_task_copies", lambda table: [])),
    "the two other starts": replaced(
        (starts, "best_start", lambda table, run: run(table.vote_shares)),
    ),
    "their guard": replaced((starts, "TRUST_KEPT", -1.0), (starts, "RENAMED", 2.0)),
    "tau": replaced((model, "fit_exponent", lambda forecasts: 1.0)),
    "held class shares": replaced((task_model, "HELD_BELOW", 0.0)),
    "shared mistakes (e)": replaced((shared_mistakes, "KINDS", {"people": (1e-6, 1.0), "models": (1e-6, 1.0)})),
    "the held pool (one label each)": replaced((model, "ONE_LABEL_MEAN", None)),
}


def answer(crowd: Crowd) -> Answer:
    """The model's answer to a crowd, from labels and P where the crowd has any."""
    annotators = AnnotatorModel(crowd.annotations(), PRIORS["confusion"])
    log_probs = None if crowd.probs is None else np.log(np.maximum(crowd.probs, 1e-30))
    estimate = annotators.fit(log_probs).estimate(log_probs)
    options = crowd.n_options
    return Answer(estimate.posterior[:, :options], estimate.accuracy[:, 0], estimate.low[:, 0], estimate.high[:, 0])


def crowds(arguments: argparse.Namespace) -> Iterator[tuple[str, Crowd]]:
    """Every table that labels are judged on."""
    for world in SIMULATED:
        if world.name in QUICK if arguments.quick else "K=1000" not in world.name:
            yield from ((world.name, world.crowd(seed)) for seed in range(1 if arguments.quick else arguments.seeds))
    if arguments.data is not None and not arguments.quick:
        yield from ((name, crowd) for name, seed, crowd in real_worlds(arguments.data) if seed == 0)


def from_labels(arguments: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    """Device to table to figures."""
    tables: dict[str, list[Crowd]] = {}
    for name, crowd in crowds(arguments):
        tables.setdefault(name, []).append(crowd)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for device, off in DEVICES.items():
        with off():
            results[device] = {
                name: _mean([_worlds.figures(c, answer(c)) for c in each]) for name, each in tables.items()
            }
    return results


def _mean(figures: list[dict[str, float]]) -> dict[str, float]:
    judged = sum(each["judged"] for each in figures)
    covered = sum(each.get("covered", 0) for each in figures)
    return {
        "right": float(np.mean([each["right"] for each in figures])),
        "log_loss": float(np.mean([each["log_loss"] for each in figures])),
        "coverage": covered / judged if judged else float("nan"),
    }


def show(results: dict[str, dict[str, dict[str, float]]]) -> int:
    """Print the table; 1 if leaving something out gains more than a point on average."""
    whole = results["nothing"]
    print(f"Labels alone, {len(whole)} tables: mean of labels right "
          f"{np.mean([each['right'] for each in whole.values()]):.3f}\n")  # fmt: skip
    print("| without | labels right, mean change | most lost | most gained | log loss, mean change | coverage |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for device, figures in results.items():
        changes = {name: 100 * (figures[name]["right"] - whole[name]["right"]) for name in whole}
        lost, gained = min(changes, key=changes.__getitem__), max(changes, key=changes.__getitem__)
        losses = [figures[name]["log_loss"] - whole[name]["log_loss"] for name in whole]
        coverage = np.nanmean([each["coverage"] for each in figures.values()])
        mean = float(np.mean(list(changes.values())))
        failed |= mean > 1.0
        print(f"| {device} | {mean:+.1f} | {changes[lost]:+.1f} ({lost}) | {changes[gained]:+.1f} ({gained}) "
              f"| {np.mean(losses):+.3f} | {coverage:.2f} |", flush=True)  # fmt: skip
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the real tables")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="two simulated worlds")
    return show(from_labels(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
