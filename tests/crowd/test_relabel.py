from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd import relabel as queue
from realm.crowd.coin import expertise_evidence
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.evidence import posterior
from realm.crowd.relabel_offers import information_gain
from realm.errors import RealmError

from .crowds import even_habits, simulate, table


def known(annotations, log_probs, beta) -> Estimate:
    """An estimate with these betas, certain."""
    beta = np.asarray(beta, float).reshape(annotations.n_annotators, -1)
    chance = np.full(beta.shape, 1 / annotations.option_counts[0])
    n = np.zeros(beta.shape, np.int64)
    np.add.at(n, (annotations.annotator, annotations.item_tasks[annotations.item]), 1)
    accuracy = beta + (1 - beta) * chance
    shares = posterior(annotations, log_probs, expertise_evidence(annotations, beta))
    tasks = beta.shape[1]
    return Estimate(
        beta, accuracy, accuracy, accuracy, chance, n, shares, np.zeros(tasks, bool),
        even_habits(annotations), np.zeros((tasks, shares.shape[1])),
    )  # fmt: skip


def mutual_information(shares: np.ndarray, beta: float) -> float:
    """By the definition, from the joint distribution of true label and label given."""
    k = len(shares)
    joint = shares[:, None] * (beta * np.eye(k) + (1 - beta) / k)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 1e-100
    return float((joint[some] * np.log2(joint[some] / apart[some])).sum())


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda x: sum(x) > 0.1), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_information_gain_is_the_mutual_information(shares, beta):
    p = np.array(shares) / sum(shares)
    padded = np.concatenate([p, np.zeros(2)])[None]
    found = information_gain(padded, np.array([len(p)]), np.array([beta]))
    assert found[0] == pytest.approx(mutual_information(p, beta), abs=1e-9)


def test_a_perfect_annotator_tells_all_and_a_guesser_nothing():
    shares = np.array([[0.25, 0.25, 0.25, 0.25]])
    np.testing.assert_allclose(information_gain(shares, np.array([4]), np.array([[1.0, 0.0]])), [[2.0, 0.0]])


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_with_habits_it_is_the_mutual_information_too(seed, k):
    rng = np.random.default_rng(seed)
    p, xi = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k + 1), 3)  # habits know one option more than the item has
    own = xi[:, :k] / xi[:, :k].sum(axis=1, keepdims=True)
    beta = rng.uniform(-own.min(axis=1) / (1 - own.min(axis=1)), 1)
    found = information_gain(np.append(p, 0.0)[None], np.array([k]), beta[None], xi)
    for a in range(3):
        joint = p[:, None] * (beta[a] * np.eye(k) + (1 - beta[a]) * own[a])
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        some = joint > 1e-100
        expected = (joint[some] * np.log2(joint[some] / apart[some])).sum()
        assert found[0, a] == pytest.approx(expected, abs=1e-9)


def test_who_always_says_the_same_tells_most_when_saying_the_other():
    """Of two annotators of one expertise, the one whose habit is the unlikely label is worth less."""
    shares, options = np.array([[0.9, 0.1]]), np.array([2])
    gain = information_gain(shares, options, np.array([[0.4, 0.4]]), np.array([[0.95, 0.05], [0.05, 0.95]]))[0]
    assert gain[0] > 1.5 * gain[1]


def test_the_most_uncertain_item_comes_first_and_goes_to_the_best_who_has_not_labelled_it():
    made = table([0, 0, 1, 2, 2], [0, 1, 2, 0, 2], [0, 1, 0, 0, 0], n_items=3, n_annotators=3, options=2)
    log_probs = np.log([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1]])
    frame = queue.relabel_queue(made, log_probs, known(made, log_probs, [0.9, 0.9, 0.5]), budget=10)
    assert frame["item"].tolist() == ["i1", "i0", "i2"]
    assert frame["ask"].tolist() == ["a0", "a2", "a1"]
    assert frame["or_else"].tolist() == ["a1", "", ""]
    assert frame["gain_bits"].is_monotonic_decreasing
    assert frame["cost"].tolist() == [1.0, 1.0, 1.0]
    assert frame["labels_given"].tolist() == ["c0 1", "c0 1, c1 1", "c0 2"]
    assert frame["ask_accuracy"].tolist() == pytest.approx([0.95, 0.75, 0.95])


def test_guessers_and_liars_are_not_asked_and_items_with_nobody_left_are_not_listed():
    made = table([0, 0, 1, 1], [0, 1, 1, 2], [0, 1, 0, 1], n_items=2, n_annotators=3, options=2)
    log_probs = np.zeros((2, 2))
    frame = queue.relabel_queue(made, log_probs, known(made, log_probs, [0.8, 0.0, -0.9]), budget=5)
    assert frame["item"].tolist() == ["i1"]
    assert frame["ask"].tolist() == ["a0"]


def test_annotators_are_asked_only_in_tasks_they_are_known_in():
    made = table([0, 1, 2], [0, 1, 0], [0, 0, 1], n_items=4, n_annotators=2, options=2, item_tasks=[0, 1, 0, 0])
    log_probs = np.zeros((4, 2))
    beta = [[0.7, np.nan], [np.nan, 0.9]]
    guess = known(made, log_probs, np.nan_to_num(beta))
    frame = queue.relabel_queue(made, log_probs, guess, budget=9)
    assert frame["item"].tolist() == ["i3"], "the only item of task 0 that a0 has not labelled"
    assert frame["ask"].tolist() == ["a0"]


@pytest.mark.parametrize("priced", [False, True])
def test_whom_to_ask_is_what_looking_at_everyone_finds(priced):
    rng = np.random.default_rng(0)
    crowd = simulate(2, annotators=25, labels_each=30, per_item=6, options=3, pool=(3, 2))
    made = crowd.annotations
    extra = table(
        np.concatenate([made.item, np.zeros(25), [1]]),
        np.concatenate([made.annotator, np.arange(25), [3]]),
        np.concatenate([made.label, np.zeros(25), [0]]),
        n_items=made.n_items,
        n_annotators=25,
        options=3,
    )
    guess = known(extra, crowd.log_probs, rng.uniform(-0.3, 0.95, 25))
    costs = {f"a{a}": float(c) for a, c in enumerate(rng.lognormal(0, 0.8, 25))} if priced else None
    frame = queue.relabel_queue(extra, crowd.log_probs, guess, budget=1e9, costs=costs, most_each=10**6).set_index(
        "item"
    )
    assert "i0" not in frame.index, "everyone has labelled it"
    price = np.array([costs[f"a{a}"] for a in range(25)]) if costs else np.ones(25)
    for i in range(1, extra.n_items):
        labelled = extra.annotator[extra.item == i]
        worth = np.array([mutual_information(guess.posterior[i], max(b, 0.0)) for b in guess.expertise[:, 0]]) / price
        worth[labelled] = -1
        best = sorted(range(25), key=lambda a: -worth[a])[:3]
        row = frame.loc[f"i{i}"]
        assert row["gain_bits"] / row["cost"] == pytest.approx(worth[best[0]], rel=1e-6)
        assert [row["ask"], *row["or_else"].split(", ")] == [f"a{a}" for a in best]


def test_the_budget_is_money_where_annotations_have_a_price():
    crowd = simulate(0, annotators=6, labels_each=50, per_item=2)
    guess = estimate(crowd.annotations, crowd.log_probs)
    assert len(queue.relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7)) == 7
    costs = {f"a{a}": 0.25 for a in range(6)}
    assert len(queue.relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7, costs=costs)) == 28
    only = queue.relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7, costs={"a2": 1.0})
    assert set(only["ask"]) == {"a2"}


@pytest.mark.parametrize(
    ("budget", "costs", "says"),
    [(0, None, "`budget`"), (5, {"a0": 0.0}, "`costs`: the cost"), (5, {"nobody": 1.0}, "names none")],
)
def test_budgets_and_costs_that_make_no_sense_are_refused(budget, costs, says):
    crowd = simulate(0)
    guess = estimate(crowd.annotations, crowd.log_probs)
    with pytest.raises(RealmError, match=says):
        queue.relabel_queue(crowd.annotations, crowd.log_probs, guess, budget, costs)


def test_asking_as_the_queue_says_mends_more_labels_than_asking_at_random():
    crowd = simulate(5, annotators=20, labels_each=150, per_item=3, options=3, pool=(4, 2), sharpness=1.0)
    made, rng = crowd.annotations, np.random.default_rng(0)
    guess = estimate(made, crowd.log_probs)
    before = np.mean(guess.posterior.argmax(axis=1) == crowd.truth)

    def after(items: np.ndarray, people: np.ndarray) -> float:
        right = rng.random(len(items)) < crowd.accuracy[people]
        said = np.where(right, crowd.truth[items], (crowd.truth[items] + 1 + rng.integers(0, 2, len(items))) % 3)
        more = table(
            np.concatenate([made.item, items]),
            np.concatenate([made.annotator, people]),
            np.concatenate([made.label, said]),
            n_items=made.n_items,
            n_annotators=20,
            options=3,
        )
        return float(np.mean(estimate(more, crowd.log_probs).posterior.argmax(axis=1) == crowd.truth))

    frame = queue.relabel_queue(made, crowd.log_probs, guess, budget=200)
    chosen = after(*(frame[c].str[1:].astype(int).to_numpy() for c in ("item", "ask")))
    at_random = after(rng.choice(made.n_items, 200, replace=False), rng.integers(0, 20, 200))
    assert chosen - before > 2 * (at_random - before)
    assert chosen - before > 0.04


def test_contradictions_are_items_on_which_model_and_reliable_annotators_are_both_sure():
    item = np.repeat(np.arange(4), 3)
    label = np.array([0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    made = table(item, np.tile([0, 1, 2], 4), label, n_items=4, n_annotators=3, options=2)
    log_probs = np.log([[0.95, 0.05], [0.9, 0.1], [0.02, 0.98], [0.4, 0.6]])
    guess = known(made, log_probs, [0.8, 0.8, 0.1])
    frame = queue.contradictions(made, log_probs, guess)
    assert frame["item"].tolist() == ["i2", "i1"]
    assert frame["model"].tolist() == ["c1", "c0"]
    assert frame["annotators_say"].tolist() == ["c0", "c1"]
    assert frame["annotators_confidence"].tolist() == pytest.approx([81 / 82, 81 / 82])
    assert frame["conflict"].tolist() == pytest.approx([0.98 * 81 / 82, 0.9 * 81 / 82])


def test_unreliable_annotators_contradict_nobody():
    made = table([0, 0, 0], [0, 1, 2], [0, 0, 0], n_items=1, n_annotators=3, options=2)
    log_probs = np.log([[0.02, 0.98]])
    assert len(queue.contradictions(made, log_probs, known(made, log_probs, [0.4, 0.4, 0.4]))) == 0
