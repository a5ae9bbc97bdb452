"""cleanlab's CROWDLAB with the same probabilities of a model."""

from __future__ import annotations

import numpy as np

from realm import estimate
from tests.peers.peers import Crowd, crowdlab


def informed(seed: int, accuracies: np.ndarray, n_options: int, per_item: int) -> tuple[Crowd, np.ndarray]:
    """400 items whose truth is drawn from a model's probabilities, and annotators who err evenly."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(n_options, 2 / n_options), 400)
    truth = np.minimum((probs.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1), n_options - 1)
    who = rng.random((400, len(accuracies))).argsort(axis=1)[:, :per_item]
    items, annotators = np.repeat(np.arange(400), per_item), who.ravel()
    wrong = (truth[items] + rng.integers(1, n_options, size=len(items))) % n_options
    labels = np.where(rng.random(len(items)) < accuracies[annotators], truth[items], wrong)
    return Crowd(items, annotators, labels, truth, n_options), probs


def test_better_on_more_tables_than_crowdlab_wins() -> None:
    crowds = {
        "alike": np.full(10, 0.8),
        "mixed": np.linspace(0.4, 0.95, 10),
        "two know": np.array([0.95, 0.95, *[0.35] * 8]),
    }
    wins = losses = 0
    for accuracies in crowds.values():
        for n_options, per_item in ((2, 3), (3, 2), (4, 4)):
            crowd, probs = informed(0, accuracies, n_options, per_item)
            ours, theirs = (
                crowd.right(estimate(crowd.table(), probs).posterior),
                np.mean(crowdlab(crowd, probs) == crowd.truth),
            )
            wins, losses = wins + (ours > theirs), losses + (ours < theirs)
    assert wins > losses and wins >= 5, (wins, losses)
