"""Starts that do not get stuck, and a guard that keeps mirrored solutions out."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.engine import PRIORS, LabelTable, Pool, fit
from realm.crowd.estimate import estimate
from realm.crowd.pairs import LEAST_COMMON, PairAgreement
from realm.crowd.starts import best_start

from .crowds import coins, labelled, mixtures, table
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


def test_agreement_of_pairs_is_counted() -> None:
    rng = np.random.default_rng(0)
    item, annotator = np.nonzero(rng.random((60, 5)) < 0.7)
    label = rng.integers(0, 3, len(item))
    few = np.concatenate([annotator, [5] * (LEAST_COMMON - 1)])  # a sixth with too few labels to be compared
    made = LabelTable(np.concatenate([item, np.arange(4)]), few, np.concatenate([label, [0] * 4]), 60, 6, 3)
    pairs = PairAgreement(made)
    assert pairs.annotators.tolist() == [0, 1, 2, 3, 4]
    own = np.full((60, 5), -1)
    own[item, annotator] = label
    for a in range(5):
        for b in range(5):
            both = (own[:, a] >= 0) & (own[:, b] >= 0)
            assert pairs.shared[a, b] == (both.sum() if a != b else 0)
            assert pairs.same[a, b] == ((own[both, a] == own[both, b]).sum() if a != b else 0)
    shares = np.stack([np.bincount(own[own[:, a] >= 0, a], minlength=3) for a in range(5)]).astype(float)
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pairs.expected[0, 1], pairs.shared[0, 1] * (shares[0] @ shares[1]))
    assert not pairs.beyond_chance, "guesses"


def test_nobody_to_compare_is_no_error() -> None:
    made = LabelTable(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 1, 1]), 2, 2, 2)
    pairs = PairAgreement(made)
    assert len(pairs.annotators) == 0 and not pairs.beyond_chance
    assert from_all(made).posterior.shape == (2, 2)


def test_skills_are_the_rank_one_part_of_excess_agreement() -> None:
    truth = np.random.default_rng(0).integers(0, 3, 3000)
    skill = np.array([0.9, 0.7, 0.5, 0.3, 0.0])
    pairs = PairAgreement(drawn(1, truth, mixtures(skill, [1 / 3] * 3)))
    np.testing.assert_allclose(pairs.rank_one(), skill / skill.max(), atol=0.08)


# -------------------------------------------------------------------- few who know among many who guess


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("items", [100, 500])
def test_two_experts_among_eighteen_guessers_are_found(items: int, seed: int) -> None:
    made, truth = experts_among_guessers(seed, 2, 18, 4, items)
    found = from_all(made)
    assert right(found, truth) > 0.8
    assert set(np.argsort(-found.parameters.skill)[:2]) == {0, 1}


def test_the_vote_alone_would_get_stuck() -> None:
    """What the other starts are for: in one of these crowds EM from the vote finds nothing."""
    crowds = [experts_among_guessers(seed, 2, 28, 3, 150, accuracy=0.85) for seed in range(5)]
    vote, starts = ([right(how(made), truth) > 0.7 for made, truth in crowds] for how in (from_vote, from_all))
    assert sum(vote) < sum(starts) == 5


@pytest.mark.parametrize("seed", range(3))
def test_three_experts_among_twenty_with_two_options(seed: int) -> None:
    made, truth = experts_among_guessers(seed, 3, 17, 2, 500)
    assert right(from_all(made), truth) > 0.85


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


def test_a_table_and_its_estimate_use_these_starts() -> None:
    truth = np.random.default_rng(0).integers(0, 4, 150)
    made = labelled(1, truth, coins([0.92] * 2 + [0.25] * 18, 4), 20)
    found = estimate(made)
    assert (found.posterior.argmax(axis=1) == truth).mean() > 0.8
    assert set(np.argsort(-found.accuracy[:, 0])[:2]) == {0, 1}


def test_labels_that_tell_nothing_of_each_other_keep_the_pool() -> None:
    """Nobody reads: accuracies are not made up from chance agreement."""
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(200), 3), rng.integers(0, 12, 600)
    found = estimate(table(item, annotator, rng.integers(0, 2, 600), n_items=200, n_annotators=12, options=2))
    assert np.ptp(found.accuracy[:, 0]) < 0.2
