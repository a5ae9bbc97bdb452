"""Does accuracy hang on a constant that nobody can set? Each constant of the default over a fifty-fold range.

    python -m benchmarks.sensitivity --data FOLDER            # 22 trainings for each seed, one after the other
    python -m benchmarks.sensitivity --data FOLDER --steps 50 --items 500   # a look at it

The default as the lab's spec `real-real` trains it, on SentPolarity (20 best and 20 worst annotators of those with 10
labels, one label per item) and on CivilComments (three judges drawn for each item). Prints the accuracy under each
value, and ends with exit code 1 where one constant moves it by more than a point. Everything is trained in this
process: another one would not know of a changed constant.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from realm.comparison.cells import Cell
from realm.comparison.training import train_cell
from realm.crowd.engine import PRIORS, Priors
from realm_lab import load_spec
from realm_lab.evidence import Promise
from realm_lab.specs import spec_rows

SPEC = "real-real"
CONFIGURATIONS = (
    {"benchmark": "sentpolarity", "pool": "contrast:20:10", "regime": "sparse"},
    {"benchmark": "civilcomments", "pool": "per-item:3", "regime": "shared"},
)
FACTORS = (50**-0.5, 1.0, 50**0.5)
"""A fifty-fold range around the value that a constant has."""
MOST = 1.0
"""Points of accuracy by which a constant may move it."""


@dataclass(frozen=True)
class Constant:
    """A number (or an array or tuple of numbers) of a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


CONSTANTS = (
    Constant("realm.crowd.engine", "ROWS"),
    Constant("realm.crowd.engine", "SHARED"),
    Constant("realm.crowd.engine", "SKILL"),
    Constant("realm.crowd.engine", "KAPPAS"),
    Constant("realm.training.channel", "UPDATES_PER_EPOCH"),
    Constant("realm.crowd.temperature", "SD"),
)
"""What the default rests on: how strongly rows, shared confusions, skills and habits are drawn to the pool, how often
the annotators are fitted, and how freely the temperature."""
START = "expertise_start"
"""Beside them a setting: where expertise starts, whose odds take the factors."""


@contextmanager
def scaled(constant: Constant, factor: float) -> Iterator[None]:
    """Multiply a constant in its module and wherever it was imported by name (no default argument bound to it)."""
    value = getattr(importlib.import_module(constant.module), constant.name)
    changed = tuple(factor * part for part in value) if isinstance(value, tuple) else factor * value
    places = [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "realm" and getattr(module, "__dict__", {}).get(constant.name) is value
    ]
    for place in places:
        setattr(place, constant.name, changed)
    priors = dict(PRIORS)
    if (field := constant.name.lower()) in Priors.__dataclass_fields__:
        PRIORS["confusion"] = replace(PRIORS["confusion"], **{field: changed})
    try:
        yield
    finally:
        PRIORS.update(priors)
        for place in places:
            setattr(place, constant.name, value)


def cells_of(configuration: dict[str, str], options: argparse.Namespace) -> list[Cell]:
    """The cells in which the spec trains the default in a configuration, one for each seed."""
    found = []
    for row in spec_rows(load_spec(SPEC), options.data):
        if row["method"] == "realm" and configuration.items() <= row.items():
            cell = row["cell"]
            sizes = {} if options.items is None else {"items": options.items, "test_items": options.items}
            data, model = replace(cell.data, **sizes), options.model or cell.model
            found.append(replace(cell, model=model, data=data, steps=options.steps or cell.steps))
    return found[: options.seeds]


def accuracies(cells: Sequence[Cell], report: Callable[[str], None]) -> dict[str, list[float]]:
    """Accuracy in %, the mean over the cells, of each constant under each of `FACTORS`."""

    def trained(title: str, **settings: Any) -> float:
        changed = [replace(cell, settings={**cell.settings, **settings}) for cell in cells]
        mean = 100 * float(np.mean([train_cell(cell).metrics["accuracy"] for cell in changed]))
        report(f"{title}: {mean:.1f}")
        return mean

    default = trained("as it is")
    table: dict[str, list[float]] = {str(constant): [] for constant in CONSTANTS} | {START: []}
    for factor in FACTORS:
        for constant in CONSTANTS:
            with scaled(constant, factor):
                table[str(constant)].append(default if factor == 1 else trained(f"{constant} x {factor:.2g}"))
        start = {START: float(np.log(factor))}
        table[START].append(default if factor == 1 else trained(f"{START} x {factor:.2g}", **start))
    return table


def small_range(title: str, table: dict[str, list[float]]) -> Promise:
    """No constant moves accuracy by more than `MOST`."""
    ranges = {name: float(np.ptp(values)) for name, values in table.items()}
    figures = ", ".join(f"{name} {moved:.2f}" for name, moved in ranges.items())
    # accuracies are shares of items: a range of just one point must not fail by its last digit
    holds = all(moved <= MOST + 1e-9 for moved in ranges.values())
    return Promise(f"{title}: no constant moves accuracy by more than {MOST:g} point", holds, figures)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--seeds", type=int, choices=range(1, 6), default=1, metavar="N", help="1 to 5")
    parser.add_argument("--model", help="in place of the spec's")
    parser.add_argument("--steps", type=int, help="in place of the spec's")
    parser.add_argument("--items", type=int, help="training and test items, at most; by default all")
    options = parser.parse_args(words)
    if not options.data.is_dir():
        raise SystemExit("this benchmark needs the real data sets (--data FOLDER)")
    found = []
    print(f"| data | constant | {' | '.join(f'x {factor:.2g}' for factor in FACTORS)} |\n|{'---|' * 5}", flush=True)
    for configuration in CONFIGURATIONS:
        title = " ".join(configuration.values())
        table = accuracies(cells_of(configuration, options), lambda line: print(line, file=sys.stderr, flush=True))
        for name, values in table.items():
            print(f"| {title} | {name} | {' | '.join(f'{value:.1f}' for value in values)} |", flush=True)
        found.append(small_range(title, table))
    print("", *found, sep="\n", flush=True)
    return int(any(promise.holds is False for promise in found))


if __name__ == "__main__":
    sys.exit(main())
