"""Is agreement heard where no model helps? Texts that say nothing, and no model at all.

    python -m benchmarks.chance [--data FOLDER] [--seeds 5]

*Chance*: 600 items whose text has nothing to do with their label, ten labels each of 43 annotators, the busiest three
of whom guess. A model can only be at chance and must not vouch for those who agree with it: the rank correlation of
trained expertise with the share of right labels is .8 or more. *DICES-350*: 123 raters against one expert, aggregation
alone: MACE is not below the majority. Exit code 1 where one does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._crowds import read_panel
from benchmarks._material import LABELS, PLAIN
from realm import METHODS, Annotations, simulate
from realm.comparison.cells import Cell, CellTables
from realm.comparison.training import train_cell
from realm.crowd.aggregation import METHODS as AGGREGATIONS
from realm.crowd.aggregation import aggregate
from realm_lab.evidence import Promise

GUESSERS = 3
ACCURACIES = np.concatenate([np.linspace(0.95, 0.5, 40), np.full(GUESSERS, 0.5)])
"""Of the annotators: forty from careful to guessing, and three who guess."""
GUESSERS_WEIGHT = 40.0
"""How much likelier one of the three is to be asked than another annotator: each then has 400 to 600 labels, as the
three of the real set in which expertise came out upside down."""
DRAWING = 1
"""Beside the seed, of the stream that draws who is asked: not the one that decides who is right."""
LEAST = 0.8
"""Rank correlation of trained expertise with the truth, the mean over seeds."""
TIES = 3
"""Seeds of an aggregation, whose ties are broken at random."""
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "per_device_train_batch_size": 64,
    "gradient_accumulation_steps": 1,
    "max_length": 96,
}
"""As on the real annotators of the lab's spec `real-real`."""


@dataclass(frozen=True)
class ChanceData:
    """Items whose text says nothing, as the data of a cell."""

    items: int = 600
    test_items: int = 200
    per_item: int = 10

    @property
    def origin(self) -> str:
        return "chance"

    def describe(self) -> dict[str, Any]:
        return {"items": self.items, "test_items": self.test_items, "per_item": self.per_item}

    def fingerprint(self) -> str:
        return "-".join(noise_table(*size).fingerprint(gold=True) for size in ((self.items, 0), (self.test_items, 1)))

    def load(self, method: str, seed: int) -> CellTables:
        train, test = noise_table(self.items, 0), noise_table(self.test_items, 1)
        if METHODS[method].needs_gold:
            return CellTables(train, test)
        weights = np.ones(len(ACCURACIES))
        weights[-GUESSERS:] = GUESSERS_WEIGHT
        everybody = simulate(train, ACCURACIES, regime="shared", seed=seed)
        return CellTables(drawn(everybody, weights, self.per_item, seed), test, ACCURACIES[:, None])

    def __str__(self) -> str:
        return f"texts that say nothing, {self.per_item} labels each"


def noise_table(items: int, seed: int) -> Annotations:
    """Items with gold, whose texts are words drawn at random."""
    rng = np.random.default_rng([7, seed])
    texts = [" ".join(rng.choice(PLAIN, size=12)) for _ in range(items)]
    gold = [LABELS[label] for label in rng.integers(2, size=items)]
    ids = [f"i{seed}-{row}" for row in range(items)]
    return Annotations.test_from_pandas(pd.DataFrame({"item": ids, "text": texts, "gold": gold}), labels=LABELS)


def drawn(table: Annotations, weights: np.ndarray, n: int, seed: int) -> Annotations:
    """At most n annotations of each item, drawn without replacement, an annotator's odds being their weight."""
    draws = np.random.default_rng([seed, DRAWING]).gumbel(size=table.n_annotations) + np.log(weights)[table.annotator]
    order = np.lexsort((-draws, table.item))
    place = np.empty(table.n_annotations, dtype=np.int64)
    place[order] = np.arange(table.n_annotations) - table.offsets[table.item[order]]
    return table.keep_annotations(place < n)


def chance(options: argparse.Namespace) -> Promise:
    """The default on texts that say nothing."""
    layers = int(options.train_layers) if options.train_layers.isdigit() else options.train_layers
    settings = {**SETTINGS, "train_layers": layers, "num_train_epochs": options.epochs}
    print(
        "| seed | trained expertise, rank correlation | re-estimated | test accuracy |\n|---|---|---|---|", flush=True
    )
    ranks = []
    for seed in range(options.seeds):
        metrics = train_cell(Cell(options.model, ChanceData(), "realm", seed, settings=settings)).metrics
        # None, or no such metric, where annotators were not told apart: that ranks nobody
        trained, again = (metrics.get(name) or 0.0 for name in ("spearman_trained", "spearman"))
        ranks.append(trained)
        print(f"| {seed} | {trained:.2f} | {again:.2f} | {metrics['accuracy']:.2f} |", flush=True)
    mean = float(np.mean(ranks))
    return Promise("with a model at chance trained expertise follows agreement", mean >= LEAST, f"{mean:.2f}")


def dices(folder: Path) -> Promise:
    """Aggregations of the raters of DICES-350 against its expert."""
    text = "on DICES-350 MACE is not below the majority"
    if not (folder / "panel.csv").is_file():
        return Promise(text, None, "no DICES-350 there: --data FOLDER")
    table = read_panel(folder / "panel.csv")
    print("\n| aggregation | items right |\n|---|---|")
    shares = {}
    for method in AGGREGATIONS:
        right = [np.mean(aggregate(table, method, seed).labels == table.gold) for seed in range(TIES)]
        shares[method] = float(np.mean(right))
        print(f"| {method} | {shares[method]:.3f} |", flush=True)
    return Promise(text, shares["mace"] >= shares["majority"], f"{shares['mace']:.3f} and {shares['majority']:.3f}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--model", default="mpnet-base")
    parser.add_argument("--train-layers", default="head", help="head, or how many top layers train")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=10.0)
    options = parser.parse_args(words)
    found = [chance(options), dices(options.data / "dices350")]
    print("", *found, sep="\n", flush=True)
    return int(any(promise.holds is False for promise in found))


if __name__ == "__main__":
    sys.exit(main())
