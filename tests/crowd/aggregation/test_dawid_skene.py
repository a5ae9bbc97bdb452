from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from realm.crowd.aggregation import DawidSkene, Glad, MajorityVote, OneCoin
from realm.crowd.aggregation.arrays import annotation_arrays
from realm.crowd.aggregation.base import gold_start
from realm.errors import RealmError

from .pools import simulate, slow_dawid_skene

Triples = list[tuple[int, int, int]]


def crowdkit_posterior(items: object, annotators: object, labels: object, iterations: int) -> np.ndarray:
    from crowdkit.aggregation import DawidSkene as Peer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pd.DataFrame({"task": items, "worker": annotators, "label": labels})
        return Peer(n_iter=iterations, tol=-np.inf).fit_predict_proba(frame).sort_index().sort_index(axis=1).to_numpy()


@pytest.mark.parametrize("n_options", [2, 3, 5, 8])
@pytest.mark.parametrize("iterations", [1, 10, 40])
def test_agrees_with_crowdkit_at_equal_iterations(n_options: int, iterations: int) -> None:
    pool = simulate(seed=n_options, n_options=n_options)
    ours = DawidSkene(max_iter=iterations, tol=0).fit(*pool.arrays)
    assert ours.n_iter_ == iterations
    np.testing.assert_allclose(ours.posterior_, crowdkit_posterior(*pool.arrays, iterations), atol=1e-6)


@st.composite
def tables(draw: st.DrawFn, max_options: int = 4) -> Triples:
    n_items, n_people = draw(st.integers(2, 8)), draw(st.integers(2, 5))
    n_options = draw(st.integers(2, max_options))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, n_items - 1), st.integers(0, n_people - 1)), min_size=4, max_size=30, unique=True
        )
    )
    return [(i, a, draw(st.integers(0, n_options - 1))) for i, a in pairs]


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(1, 8))
def test_agrees_with_crowdkit_on_any_table(table: Triples, iterations: int) -> None:
    # crowd-kit knows only the items and labels that occur, so number them without gaps.
    columns = [np.unique(column, return_inverse=True)[1] for column in zip(*table, strict=True)]
    assume(columns[2].max() > 0 and np.bincount(columns[0]).max() > 1)
    ours = DawidSkene(max_iter=iterations, tol=0).fit(*columns)
    np.testing.assert_allclose(ours.posterior_, crowdkit_posterior(*columns, iterations), atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(1, 6), st.sampled_from([0.0, 0.5]), st.randoms(use_true_random=False))
def test_agrees_with_plain_loops_where_options_are_few_and_some_gold_is_known(
    table: Triples, iterations: int, smoothing: float, random: object
) -> None:
    columns = [np.unique(column, return_inverse=True)[1] for column in zip(*table, strict=True)]
    n_items, k = columns[0].max() + 1, int(columns[2].max()) + 1
    largest = np.zeros(n_items, dtype=int)
    np.maximum.at(largest, columns[0], columns[2])
    option_counts = [random.randint(int(low) + 1, k) for low in largest]
    gold = [random.choice([-1, -1, random.randrange(count)]) for count in option_counts]
    assume(np.bincount(columns[0]).max() > 1)
    ours = DawidSkene(max_iter=iterations, tol=0, smoothing=smoothing).fit(
        *columns, n_options=k, option_counts=option_counts, gold=gold
    )
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    slow = [slow_dawid_skene(rows, option_counts, gold, k, iterations, smoothing)]
    if (start := gold_start(annotation_arrays(*columns, k, option_counts, gold))) is not None:
        slow.append(slow_dawid_skene(rows, option_counts, gold, k, iterations, smoothing, start.tolist()))
    assert min(np.abs(ours.posterior_ - posterior).max() for posterior in slow) < 1e-7
    assert all(label < count for label, count in zip(ours.labels_, option_counts, strict=True))
    assert all(label == truth for label, truth in zip(ours.labels_, gold, strict=True) if truth != -1)


def test_posterior_and_likelihood_against_every_assignment_of_truths() -> None:
    pool = simulate(seed=3, n_items=6, n_annotators=4, n_options=3, per_item=3)
    model = DawidSkene(max_iter=3000, tol=0).fit(*pool.arrays)
    evidence, marginal = 0.0, np.zeros((6, 3))
    for truths in itertools.product(range(3), repeat=6):
        joint = math.prod(model.priors_[k] for k in truths)
        for i, a, y in zip(*pool.arrays, strict=True):
            joint *= model.confusion_[a, truths[i], y]
        evidence += joint
        for i, k in enumerate(truths):
            marginal[i, k] += joint
    np.testing.assert_allclose(model.posterior_, marginal / evidence, atol=1e-6)
    assert model.log_likelihood_ == pytest.approx(math.log(evidence), abs=1e-6)


@pytest.mark.parametrize("restricted", [False, True])
def test_likelihood_never_falls(restricted: bool) -> None:
    pool = simulate(seed=11, n_options=4, low=0.1, high=0.8)
    more: dict[str, object] = {}
    if restricted:
        largest = np.zeros(400, dtype=int)
        np.maximum.at(largest, pool.items, pool.labels)
        more = {
            "option_counts": largest + 1,
            "gold": np.where(np.arange(400) % 5 == 0, np.minimum(pool.truth, largest), -1),
        }
    model = DawidSkene(max_iter=200, tol=0).fit(*pool.arrays, **more)
    assert np.diff(model.log_likelihoods_).min() > -1e-6
    assert model.log_likelihoods_[-1] > model.log_likelihoods_[0] + 30


def test_stops_when_the_likelihood_settles() -> None:
    pool = simulate(seed=2)
    early, late = DawidSkene().fit(*pool.arrays), DawidSkene(max_iter=1000, tol=0).fit(*pool.arrays)
    assert early.n_iter_ < 100
    last = np.diff(early.log_likelihoods_) / len(pool.items)
    assert last[-1] < 1e-6 <= last[:-1].min()
    assert (early.labels_ == late.labels_).mean() > 0.99


def test_learns_who_is_reliable_and_beats_the_vote() -> None:
    pool = simulate(seed=5, n_items=2000, n_annotators=15, n_options=3)
    model = DawidSkene().fit(*pool.arrays)
    vote = MajorityVote().fit(*pool.arrays)
    assert (model.labels_ == pool.truth).mean() > (vote.labels_ == pool.truth).mean() + 0.02
    assert np.abs(model.accuracy_ - pool.accuracy).max() < 0.06
    diagonal = np.einsum("akk->ak", model.confusion_)
    assert np.abs(diagonal - pool.accuracy[:, None]).max() < 0.12
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)


def test_confusion_is_truth_by_label() -> None:
    """An annotator who calls every 0 a 1, and is otherwise right, among careful ones."""
    truth = np.tile([0, 1], 50)
    items = np.repeat(np.arange(100), 4)
    annotators = np.tile(np.arange(4), 100)
    labels = np.where(annotators == 3, 1, truth[items])
    model = DawidSkene().fit(items, annotators, labels)
    np.testing.assert_allclose(model.confusion_[3], [[0, 1], [0, 1]], atol=1e-6)
    np.testing.assert_allclose(model.confusion_[0], np.eye(2), atol=1e-6)


def test_thousands_of_annotations_of_one_item_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(20_000) < 0.4).astype(int)
    model = DawidSkene().fit(np.repeat([0, 1], 10_000), np.tile(np.arange(10_000), 2), labels)
    assert np.isfinite(model.posterior_).all() and np.isfinite(model.log_likelihood_)
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)


def test_an_option_nobody_gave_is_never_the_answer() -> None:
    pool = simulate(seed=1, n_items=60, n_options=2, low=0.0, high=1.0)
    wide = DawidSkene(max_iter=50, tol=0).fit(*pool.arrays, n_options=5)
    narrow = DawidSkene(max_iter=50, tol=0).fit(*pool.arrays)
    assert not wide.posterior_[:, 2:].any()
    np.testing.assert_allclose(wide.posterior_[:, :2], narrow.posterior_, atol=1e-9)


def test_an_annotator_without_annotations_changes_nothing() -> None:
    pool = simulate(seed=4)
    shifted = DawidSkene().fit(pool.items, pool.annotators + 1, pool.labels)
    plain = DawidSkene().fit(*pool.arrays)
    np.testing.assert_array_equal(shifted.posterior_, plain.posterior_)
    assert np.isnan(shifted.accuracy_[0])
    np.testing.assert_allclose(shifted.confusion_[0], np.full((3, 3), 1 / 3))


def test_gold_sees_through_a_clique() -> None:
    """Three who agree on the wrong label out-vote two careful ones; a tenth of the truth unmasks them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    items, annotators = np.repeat(np.arange(300), 5), np.tile(np.arange(5), 300)
    labels = np.where(annotators < 3, 1 - truth[items], truth[items])
    gold = np.where(np.arange(300) < 30, truth, -1)
    assert (DawidSkene().fit(items, annotators, labels).labels_ == truth).mean() < 0.1
    assert (DawidSkene().fit(items, annotators, labels, gold=gold).labels_ == truth).mean() > 0.9


@pytest.mark.parametrize("settings_", [{"max_iter": 0}, {"tol": -1.0}, {"smoothing": -0.1}])
def test_refuses_settings_that_mean_nothing(settings_: dict[str, float]) -> None:
    with pytest.raises(RealmError, match="or more"):
        DawidSkene(**settings_).fit([0, 0], [0, 1], [0, 0])


@pytest.mark.parametrize("kind", [DawidSkene, OneCoin, Glad])
def test_refuses_votes_that_nothing_can_be_held_against(kind: type[DawidSkene | OneCoin | Glad]) -> None:
    """Everyone would be called perfect."""
    votes = [0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 1, 0]
    with pytest.raises(RealmError, match="no item has two annotations"):
        kind().fit(*votes)
    kind().fit(*votes, gold=[0, -1, -1, -1])
