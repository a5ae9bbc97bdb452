"""Simulated pools of annotators, and a slow Dawid-Skene in plain loops to hold the fast one against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass
class Pool:
    items: npt.NDArray[np.int64]
    annotators: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    accuracy: npt.NDArray[np.float64]

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return self.items, self.annotators, self.labels


def simulate(
    seed: int,
    n_items: int = 400,
    n_annotators: int = 20,
    n_options: int = 3,
    per_item: int = 5,
    low: float = 0.3,
    high: float = 0.95,
) -> Pool:
    """Annotators right with their own accuracy, wrong uniformly; each item labelled by `per_item` different ones."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_options, size=n_items)
    items = np.repeat(np.arange(n_items), per_item)
    annotators = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    accuracy = rng.uniform(low, high, n_annotators)
    wrong = (truth[items] + rng.integers(1, n_options, size=len(items))) % n_options
    labels = np.where(rng.random(len(items)) < accuracy[annotators], truth[items], wrong)
    order = rng.permutation(len(items))
    return Pool(items[order], annotators[order], labels[order], truth, accuracy)


def slow_dawid_skene(
    annotations: list[tuple[int, int, int]],
    option_counts: list[int],
    gold: list[int],
    n_options: int,
    iterations: int,
    smoothing: float = 0.0,
    start: list[list[float]] | None = None,
) -> list[list[float]]:
    """The posterior of every item after this many iterations; probabilities, not logs, and one annotation at a time."""
    items, ks = range(len(option_counts)), range(n_options)
    people = sorted({a for _, a, _ in annotations})

    def settle(i: int, weights: list[float]) -> list[float]:
        if gold[i] != -1:
            return [float(k == gold[i]) for k in ks]
        kept = [w if k < option_counts[i] else 0.0 for k, w in enumerate(weights)]
        return [w / sum(kept) for w in kept]

    posterior = start or [settle(i, [sum(j == i and y == k for j, _, y in annotations) for k in ks]) for i in items]
    for _ in range(iterations):
        prior = [max(sum(row[k] for row in posterior) / len(posterior), 1e-10) for k in ks]
        chance: dict[tuple[int, int, int], float] = {}
        for a in people:
            given = set(ks) if smoothing else {y for _, b, y in annotations if b == a}
            for k in ks:
                counts = {
                    y: max(sum(posterior[j][k] for j, b, z in annotations if b == a and z == y) + smoothing, 1e-10)
                    for y in given
                }
                for y, count in counts.items():
                    chance[a, k, y] = count / sum(counts.values())
        posterior = [
            settle(i, [prior[k] * math.prod(chance[a, k, y] for j, a, y in annotations if j == i) for k in ks])
            for i in items
        ]
    return posterior
