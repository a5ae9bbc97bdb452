from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd.coin import expertise_evidence
from realm.crowd.posterior import labels_table, posterior
from realm.errors import RealmError

from .crowds import simulate, table


def by_enumeration(counts, probs, annotations, beta):
    """Weigh every assignment of true labels to all items; plain probabilities, one factor at a time."""
    marginal = np.zeros((len(counts), max(counts)))
    for truth in itertools.product(*(range(count) for count in counts)):
        weight = 1.0
        for i, k in enumerate(truth):
            weight *= probs[i][k]
        for i, a, y in annotations:
            weight *= beta[a] * (y == truth[i]) + (1 - beta[a]) / counts[i]
        for i, k in enumerate(truth):
            marginal[i, k] += weight
    return marginal / marginal.sum(axis=1, keepdims=True)


@st.composite
def small_tables(draw):
    counts = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    people = draw(st.integers(1, 4))
    pairs = [(i, a) for i in range(len(counts)) for a in range(people)]
    kept = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs)))
    annotations = [(i, a, draw(st.integers(0, counts[i] - 1))) for i, a in kept]
    share = st.floats(0.01, 1.0)
    probs = [np.array([draw(share) for _ in range(count)]) for count in counts]
    lowest = -1 / (max(counts) - 1)
    beta = [draw(st.floats(lowest + 0.01, 0.99)) for _ in range(people)]
    return counts, [p / p.sum() for p in probs], annotations, beta


@given(small_tables())
@settings(max_examples=60, deadline=None)
def test_posterior_is_that_of_brute_force_enumeration_with_mixed_options(small):
    counts, probs, annotations, beta = small
    items, people, labels = zip(*annotations, strict=True) if annotations else ((), (), ())
    made = table(items, people, labels, n_items=len(counts), n_annotators=len(beta), options=counts)
    log_probs = np.full((len(counts), max(counts)), 7.0)  # what lies beyond an item's options must not matter
    for i, p in enumerate(probs):
        log_probs[i, : counts[i]] = np.log(p)
    found = posterior(made, log_probs, expertise_evidence(made, np.array(beta)[:, None]))
    np.testing.assert_allclose(found, by_enumeration(counts, probs, annotations, beta), rtol=1e-9, atol=1e-12)


def test_an_item_nobody_labelled_keeps_the_models_word():
    made = table([0], [0], [1], n_items=2, n_annotators=1, options=2)
    found = posterior(made, np.log([[0.5, 0.5], [0.3, 0.7]]), expertise_evidence(made, [[0.6]]))
    np.testing.assert_allclose(found, [[0.2, 0.8], [0.3, 0.7]])


@pytest.mark.parametrize("beta", [1.0, -1.0])
def test_two_infallible_annotators_who_contradict_each_other_leave_the_models_word(beta):
    made = table([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, options=2)
    np.testing.assert_allclose(
        posterior(made, np.log([[0.3, 0.7]]), expertise_evidence(made, [[beta], [beta]])), [[0.3, 0.7]]
    )


def test_a_thousand_labels_on_one_item_do_not_underflow():
    n = 1000
    made = table(np.zeros(n), np.arange(n), [0] * 520 + [1] * 480, n_items=1, n_annotators=n, options=2)
    found = posterior(made, [[0.0, 0.0]], expertise_evidence(made, np.full((n, 1), 0.1)))
    expected = 1 / (1 + (0.45 / 0.55) ** 40)
    np.testing.assert_allclose(found, [[expected, 1 - expected]])


def test_betas_of_another_task_play_no_part():
    made = table([0, 1], [0, 0], [0, 0], n_items=2, n_annotators=1, options=2, item_tasks=[0, 1])
    found = posterior(made, np.zeros((2, 2)), expertise_evidence(made, [[0.8, 0.0]]))
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("log_probs", "says"),
    [
        (np.zeros((2, 2)), "`log_probs` must have shape"),
        (np.zeros((3, 1)), "`log_probs` must have shape"),
        (np.full((3, 2), np.nan), "no NaN"),
        (np.full((3, 2), -np.inf), "finite"),
    ],
)
def test_unusable_log_probs_are_refused(log_probs, says):
    made = table([0, 1, 2], [0, 0, 0], [0, 1, 0], n_items=3, n_annotators=1, options=2)
    with pytest.raises(RealmError, match=says):
        posterior(made, log_probs, expertise_evidence(made, [[0.5]]))


def test_labels_table_says_label_runner_up_votes_and_whether_the_majority_disagrees():
    made = table(
        [0, 0, 0, 1, 1, 2, 2, 2],
        [0, 1, 2, 0, 1, 0, 1, 2],
        [2, 2, 0, 1, 0, 1, 1, 0],
        n_items=4,
        n_annotators=3,
        options=[3, 2, 2, 4],
    )
    shares = np.array([[0.1, 0.2, 0.7, 0], [0.4, 0.6, 0, 0], [0.9, 0.1, 0, 0], [0.1, 0.2, 0.3, 0.4]])
    frame = labels_table(made, shares)
    assert frame["label"].tolist() == ["c2", "c1", "c0", "c3"]
    assert frame["runner_up"].tolist() == ["c1", "c0", "c1", "c2"]
    assert frame["votes"].tolist() == ["c2 2, c0 1", "c0 1, c1 1", "c1 2, c0 1", ""]
    assert frame["annotations"].tolist() == [3, 2, 3, 0]
    assert frame["majority_disagrees"].tolist() == [False, False, True, False], "a tie is no disagreement"
    np.testing.assert_allclose(frame["confidence"], [0.7, 0.6, 0.9, 0.4])
    assert frame["item"].tolist() == ["i0", "i1", "i2", "i3"]


def test_labels_table_agrees_with_the_table_one_item_at_a_time():
    crowd = simulate(0, annotators=9, labels_each=40, per_item=4, options=4)
    made = crowd.annotations
    shares = posterior(made, crowd.log_probs, expertise_evidence(made, np.full((9, 1), 0.6)))
    frame = labels_table(made, shares)
    for i in range(made.n_items):
        given_labels = made.label[made.offsets[i] : made.offsets[i + 1]]
        votes = np.bincount(given_labels, minlength=4)
        best = int(shares[i].argmax())
        assert frame["label"][i] == made.label_name(i, best)
        assert frame["majority_disagrees"][i] == (votes.max() > votes[best])
        assert sorted(frame["votes"][i].split(", ")) == sorted(f"c{k} {votes[k]}" for k in range(4) if votes[k])
