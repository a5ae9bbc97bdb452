"""Where few annotators know and many guess, EM from agreement gets stuck; the default does not."""

from __future__ import annotations

import numpy as np
import pytest

from realm import aggregate
from tests.peers.peers import crowdkit, few_who_know

PEERS = {
    "DawidSkene": {"n_iter": 100, "tol": 0},
    "OneCoinDawidSkene": {"n_iter": 100, "tol": 0},
    "MACE": {"n_restarts": 1, "n_iter": 50},  # its restarts all have the same seed
}
CROWDS = {
    "2 of 20, K=4, 100 items": ({"n_items": 100, "experts": 2, "n_options": 4}, 0.910),
    "2 of 20, K=4, 500 items": ({"n_items": 500, "experts": 2, "n_options": 4}, 0.908),
    "2 of 20, K=4, guesses among 3, 100 items": ({"n_items": 100, "experts": 2, "n_options": 4, "among": 3}, 0.628),
    "2 of 20, K=4, guesses among 3, 500 items": ({"n_items": 500, "experts": 2, "n_options": 4, "among": 3}, 0.745),
    "3 of 20, K=2, 100 items": ({"n_items": 100, "experts": 3, "n_options": 2}, 0.952),
    "3 of 20, K=2, 500 items": ({"n_items": 500, "experts": 3, "n_options": 2}, 0.968),
    "4 of 20, K=4, 5 labels each": ({"n_items": 500, "experts": 4, "n_options": 4, "per_item": 5}, 0.712),
}
"""Each with what the best of crowd-kit 1.4.2's MACE, one-coin and Dawid-Skene gets, mean of seeds 0 to 4."""
MARGIN = 0.02


def ours(settings: dict, method: str = "realm") -> float:
    crowds = [few_who_know(seed, **settings) for seed in range(5)]
    return float(np.mean([crowd.right(aggregate(crowd.table(), method).posterior) for crowd in crowds]))


@pytest.mark.parametrize("name", CROWDS)
def test_the_default_is_no_worse_than_the_best_of_crowdkit(name: str) -> None:
    settings, best = CROWDS[name]
    assert ours(settings) >= best - MARGIN


@pytest.mark.slow
@pytest.mark.parametrize("name", CROWDS)
def test_what_the_best_of_crowdkit_gets(name: str) -> None:
    settings, best = CROWDS[name]
    crowds = [few_who_know(seed, **settings) for seed in range(5)]
    means = [np.mean([crowd.right(crowdkit(peer, crowd, **more)) for crowd in crowds]) for peer, more in PEERS.items()]
    assert max(means) == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize("method", ["realm", "mace"])
def test_a_table_like_that_of_the_mace_authors(method: str) -> None:
    """100 items, 20 annotators of whom 18 guess, K = 4, a tenth of the labels missing."""
    assert ours({"n_items": 100, "experts": 2, "n_options": 4, "missing": 0.1}, method) >= 0.75
