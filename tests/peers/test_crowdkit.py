"""crowd-kit's methods on the same annotations: equal where the algorithm is the same, no worse where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from realm import DawidSkene, Mace, MajorityVote, OneCoin
from tests.crowd.pools import Pool, simulate
from tests.peers.peers import Crowd, crowdkit

SAME = {"DawidSkene": DawidSkene, "OneCoinDawidSkene": OneCoin}


def crowd_of(pool: Pool, n_options: int) -> Crowd:
    return Crowd(pool.items, pool.annotators, pool.labels, pool.truth, n_options)


@pytest.mark.parametrize("n_options", [2, 3, 5, 8])
@pytest.mark.parametrize("iterations", [1, 10, 40])
@pytest.mark.parametrize("name", SAME)
def test_the_same_posterior_after_as_many_iterations(name: str, iterations: int, n_options: int) -> None:
    crowd = crowd_of(simulate(seed=n_options, n_options=n_options), n_options)
    ours = SAME[name](max_iter=iterations, tol=0).fit(*crowd.arrays)
    assert ours.n_iter_ == iterations
    # Their stopping rule counts the class prior once per annotation, so neither side may stop early.
    np.testing.assert_allclose(ours.posterior_, crowdkit(name, crowd, n_iter=iterations, tol=-np.inf), atol=1e-6)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    n_items, people, options = draw(st.integers(2, 8)), draw(st.integers(2, 5)), draw(st.integers(2, 4))
    pairs = st.tuples(st.integers(0, n_items - 1), st.integers(0, people - 1))
    return [
        (*pair, draw(st.integers(0, options - 1)))
        for pair in draw(st.lists(pairs, min_size=4, max_size=30, unique=True))
    ]


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(1, 8))
def test_the_same_posterior_on_any_table(table: list[tuple[int, int, int]], iterations: int) -> None:
    items, annotators, labels = (np.unique(column, return_inverse=True)[1] for column in zip(*table, strict=True))
    assume(labels.max() > 0 and np.bincount(items).max() > 1)
    crowd = Crowd(items, annotators, labels, np.zeros(items.max() + 1), int(labels.max()) + 1)
    ours = DawidSkene(max_iter=iterations, tol=0).fit(*crowd.arrays)
    np.testing.assert_allclose(
        ours.posterior_, crowdkit("DawidSkene", crowd, n_iter=iterations, tol=-np.inf), atol=1e-4
    )


@pytest.mark.parametrize("n_options", [2, 3, 6])
def test_the_same_vote_shares(n_options: int) -> None:
    crowd = crowd_of(simulate(seed=0, n_options=n_options), n_options)
    np.testing.assert_allclose(MajorityVote().fit(*crowd.arrays).posterior_, crowdkit("MajorityVote", crowd))


def test_mace_is_right_as_often() -> None:
    """Their MACE is variational, with other priors: labels are compared."""
    ours, theirs = [], []
    for seed in range(3):
        crowd = crowd_of(simulate(seed=seed, n_options=3), 3)
        ours.append(crowd.right(Mace().fit(*crowd.arrays).posterior_))
        theirs.append(crowd.right(crowdkit("MACE", crowd, n_restarts=1)))
    assert np.mean(ours) > np.mean(theirs) - 0.01


@pytest.mark.slow
def test_the_race_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.aggregation import main

    main(scale=0.005)
    shown = capsys.readouterr().out
    assert "| one-coin | 5,000 | 10 |" in shown and "| realm (default) |" in shown
