"""Starts that do not get stuck, and a guard that keeps mirrored solutions out."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.copies import PairAgreement
from realm.crowd.engine import PRIORS, LabelTable, Pool, fit
from realm.crowd.estimate import estimate
from realm.crowd.starts import best_start

from .crowds import coins, table
from .label_tables import drawn

PRIOR = PRIORS["confusion"]


def experts_among_guessers(
    seed: int, experts: int, guessers: int, options: int, items: int, per_item: int | None = None, accuracy: float = 0.9
) -> tuple[LabelTable, np.ndarray]:
    truth = np.random.default_rng(seed).integers(0, options, items)
    matrices = coins([accuracy] * experts + [1 / options] * guessers, options)
    return drawn(seed + 100, truth, matrices, per_item), truth


def from_vote(table: LabelTable):
    return fit(table, PRIOR, Pool.of(table, PRIOR), table.vote_shares)


def from_all(table: LabelTable):
    pool = Pool.of(table, PRIOR)
    return best_start(table, lambda posterior: fit(table, PRIOR, pool, posterior))


def right(fitted, truth: np.ndarray) -> float:
    return float((fitted.posterior.argmax(axis=1) == truth).mean())


# -------------------------------------------------------------------- agreement of pairs


def test_nobody_to_compare_is_no_error() -> None:
    made = LabelTable(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 1, 1]), 2, 2, 2)
    pairs = PairAgreement(made)
    assert len(pairs.annotators) == 0 and not pairs.beyond_chance
    assert from_all(made).posterior.shape == (2, 2)


# -------------------------------------------------------------------- few who know among many who guess


def test_the_vote_alone_would_get_stuck() -> None:
    """What the other starts are for: in one of these crowds EM from the vote finds nothing."""
    crowds = [experts_among_guessers(seed, 2, 28, 3, 150, accuracy=0.85) for seed in range(5)]
    vote, starts = ([right(how(made), truth) > 0.7 for made, truth in crowds] for how in (from_vote, from_all))
    assert sum(vote) < sum(starts) == 5


def test_honest_crowds_are_left_to_the_vote() -> None:
    for seed in range(5):
        truth = np.random.default_rng(seed).integers(0, 3, 200)
        made = drawn(seed, truth, coins(np.linspace(0.6, 0.9, 8), 3), 4)
        np.testing.assert_allclose(from_all(made).posterior, from_vote(made).posterior, atol=0.02)


# -------------------------------------------------------------------- mirrored solutions


@pytest.mark.parametrize("seed", range(5))
def test_four_of_ten_inverted_do_not_mirror_the_labels(seed: int) -> None:
    truth = np.random.default_rng(seed).integers(0, 2, 300)
    made = drawn(seed, truth, coins([0.85] * 6 + [0.1] * 4, 2))
    assert right(from_all(made), truth) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_two_who_rename_labels_alike_do_not_rename_them_for_all(seed: int) -> None:
    """The pair that agrees most beyond chance gives every label another name."""
    truth = np.random.default_rng(seed).integers(0, 3, 300)
    renamed = coins([0.98] * 2, 3)[:, :, [1, 2, 0]]
    made = drawn(seed, truth, np.concatenate([coins([0.75] * 6, 3), renamed]))
    assert right(from_all(made), truth) > 0.85


def test_labels_that_tell_nothing_of_each_other_keep_the_pool() -> None:
    """Nobody reads: accuracies are not made up from chance agreement."""
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(200), 3), rng.integers(0, 12, 600)
    found = estimate(table(item, annotator, rng.integers(0, 2, 600), n_items=200, n_annotators=12, options=2))
    assert np.ptp(found.accuracy[:, 0]) < 0.2
