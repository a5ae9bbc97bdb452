"""Simulated pools of annotators."""

from __future__ import annotations

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
