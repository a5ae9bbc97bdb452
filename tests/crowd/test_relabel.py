"""Whom to ask about what within a budget, against the definitions and naive loops over all pairs and answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd import relabel as queue
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.relabel import HALF_AS_GOOD, LEAST_GAIN, correction_gain, information_gain, relabel_queue
from realm.errors import RealmError

from .crowds import known_estimate, mixtures, simulate, table


def known(annotations, log_probs, beta, **settings) -> Estimate:
    """An estimate with these betas and even habits, certain."""
    width = np.shape(log_probs)[1]
    return known_estimate(annotations, mixtures(beta, np.full(width, 1 / width)), log_probs, **settings)


def mutual_information(shares: np.ndarray, matrix: np.ndarray) -> float:
    """By the definition, from the joint distribution of true label and label given."""
    joint = shares[:, None] * matrix
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 1e-100
    return float((joint[some] * np.log2(joint[some] / apart[some])).sum())


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_gains_are_what_the_joint_distribution_of_truth_and_answer_gives(seed, k):
    rng = np.random.default_rng(seed)
    p, matrices = rng.dirichlet(np.ones(k), 4), rng.dirichlet(np.ones(k), (3, k))
    for channel in matrices:
        bits, corrected = information_gain(p, channel), correction_gain(p, channel)
        for i in range(4):
            assert bits[i] == pytest.approx(mutual_information(p[i], channel), abs=1e-9)
            after = (p[i][:, None] * channel).max(axis=0).sum()
            assert corrected[i] == pytest.approx(max(after - p[i].max(), 0.0), abs=1e-12)


def test_where_annotators_err_together_a_label_tells_less():
    made = table([0, 0, 1], [0, 1, 2], [0, 1, 0], n_items=2, n_annotators=3, options=2)
    flat = np.zeros((2, 2))
    alone, together = (
        relabel_queue(made, flat, known(made, flat, [0.8] * 3, tau=tau), budget=5)["gain_bits"] for tau in (1.0, 0.3)
    )
    assert (together < 0.5 * alone).all()


def test_nothing_is_gained_of_what_all_annotators_miss():
    """Ten labels of one kind: the rest of the doubt is that all are wrong, and an eleventh tells nothing of it."""
    made = table(np.repeat([0, 1], [10, 1]), [*range(10), 10], [0] * 11, n_items=2, n_annotators=11, options=2)
    flat = np.zeros((2, 2))
    found = known(made, flat, [0.8] * 11)
    found = replace(
        found, posterior=0.75 * found.posterior + 0.25 * found.posterior[:, ::-1], shared_error=np.array([0.25])
    )
    frame = relabel_queue(made, flat, found, budget=5).set_index("item")
    assert frame["confidence"].max() < 0.76 and frame.index[0] == "i1"
    assert "i0" not in frame.index or frame.loc["i0", "gain_bits"] < 1e-3 * frame.loc["i1", "gain_bits"]
    assert frame.loc["i1", "gain_labels"] <= 0.5 * (1 - 0.9)


def test_the_most_uncertain_item_comes_first_and_goes_to_the_best_who_has_not_labelled_it():
    made = table([0, 0, 1, 2, 2], [0, 1, 2, 0, 2], [0, 1, 0, 0, 0], n_items=3, n_annotators=3, options=2)
    log_probs = np.log([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1]])
    frame = relabel_queue(made, log_probs, known(made, log_probs, [0.9, 0.9, 0.5]), budget=10)
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
    frame = relabel_queue(made, log_probs, known(made, log_probs, [0.8, 0.0, -0.9]), budget=5)
    assert frame["item"].tolist() == ["i1"]
    assert frame["ask"].tolist() == ["a0"]


def test_the_budget_is_money_where_annotations_have_a_price():
    crowd = simulate(0, annotators=6, labels_each=50, per_item=2)
    guess = estimate(crowd.annotations, np.exp(crowd.log_probs))
    assert len(relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7)) == 7
    costs = {f"a{a}": 0.25 for a in range(6)}
    assert len(relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7, costs=costs)) == 28
    only = relabel_queue(crowd.annotations, crowd.log_probs, guess, budget=7, costs={"a2": 1.0})
    assert set(only["ask"]) == {"a2"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": 0}, "`budget`"),
        ({"budget": 5, "costs": {"a0": 0.0}}, "`costs`: the cost"),
        ({"budget": 5, "costs": {"nobody": 1.0}}, "names none"),
        ({"budget": 5, "most_each": 0}, "`most_each`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, says):
    crowd = simulate(0)
    guess = estimate(crowd.annotations, np.exp(crowd.log_probs))
    with pytest.raises(RealmError, match=says):
        relabel_queue(crowd.annotations, crowd.log_probs, guess, **settings)


def test_asking_as_the_queue_says_mends_more_labels_than_asking_at_random():
    crowd = simulate(5, annotators=20, labels_each=150, per_item=3, options=3, pool=(4, 2), sharpness=1.0)
    made, rng = crowd.annotations, np.random.default_rng(0)
    guess = estimate(made, np.exp(crowd.log_probs))
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
        return float(np.mean(estimate(more, np.exp(crowd.log_probs)).posterior.argmax(axis=1) == crowd.truth))

    frame = relabel_queue(made, crowd.log_probs, guess, budget=200)
    chosen = after(*(frame[c].str[1:].astype(int).to_numpy() for c in ("item", "ask")))
    at_random = after(rng.choice(made.n_items, 200, replace=False), rng.integers(0, 20, 200))
    assert chosen - before > 2 * (at_random - before)
    assert chosen - before > 0.03


# -------------------------------------------------------------------- handing out


def small(seed: int, items: int = 7, annotators: int = 5, per_item: int = 2):
    """A small crowd of known betas and prices, each item labelled by some."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), per_item)
    annotator = np.concatenate([rng.choice(annotators, per_item, replace=False) for _ in range(items)])
    made = table(item, annotator, rng.integers(0, 3, len(item)), n_items=items, n_annotators=annotators, options=3)
    log_probs = np.log(rng.dirichlet(np.ones(3), items))
    guess = known(made, log_probs, rng.uniform(0.05, 0.95, annotators))
    return made, log_probs, guess, rng.uniform(0.5, 2.0, annotators)


def gains_of(made, guess) -> np.ndarray:
    """Bits of every pair; -1 where they have labelled the item or no item at all. (items, annotators)"""
    gains = np.empty((made.n_items, made.n_annotators))
    for i in range(made.n_items):
        for a in range(made.n_annotators):
            gains[i, a] = information_gain(guess.posterior[[i]], guess.confusion(a, 0))[0]
    gains[made.item, made.annotator] = -1
    gains[:, guess.annotations[:, 0] == 0] = -1
    return gains


def naive_requests(gains, prices, budget, most_each):
    """The best pair again and again, looking at all of them."""
    load, left, chosen, free = np.zeros(len(prices), int), budget, [], set(range(len(gains)))
    while True:
        pairs = [
            (gains[i, a] / prices[a], -i, a)
            for i in free
            for a in range(len(prices))
            if gains[i, a] > LEAST_GAIN and load[a] < most_each and prices[a] <= left * (1 + 1e-12)
        ]
        if not pairs:
            return chosen
        _, minus, a = max(pairs)
        chosen.append((-minus, a))
        free.discard(-minus)
        load[a] += 1
        left -= prices[a]


@pytest.mark.parametrize("most_each", [1, 2, 100])
def test_items_are_handed_out_as_a_loop_over_all_pairs_does_it(most_each):
    for seed in range(25):
        made, flat, guess, prices = small(seed, items=12, annotators=6)
        for budget in (2.5, 6.0, 100.0):
            costs = {f"a{a}": float(price) for a, price in enumerate(prices)}
            frame = relabel_queue(made, flat, guess, budget, costs, most_each)
            found = list(zip(frame["item"].str[1:].astype(int), frame["ask"].str[1:].astype(int), strict=True))
            gains = gains_of(made, guess)
            assert found == naive_requests(gains, prices, budget, most_each), (seed, budget)
            assert frame["cost"].sum() <= budget
            for (item, who), others in zip(found, frame["or_else"], strict=True) if budget == 100.0 else ():
                worth = np.where(gains[item] > LEAST_GAIN, gains[item] / prices, 0.0)
                named = [f"a{a}" for a in np.argsort(-worth) if worth[a] > 0 and a != who][:2]
                assert others == ", ".join(named)


def naive_shares(gains, budget):
    """The item that can tell most next; to one of those who tell half as much or more, in proportion to it."""
    load, chosen = np.zeros(gains.shape[1]), []
    for item in np.argsort(-gains.max(axis=1), kind="stable")[:budget]:
        similar = gains[item] >= max(HALF_AS_GOOD * gains[item].max(), LEAST_GAIN)
        if similar.any():
            who = int(np.where(similar, gains[item] / (1 + load), -1).argmax())
            chosen.append((int(item), who))
            load[who] += 1
    return chosen


@pytest.mark.parametrize("pool", [10_000, 6])
def test_a_small_budget_asks_for_the_first_labels_of_a_larger_one(monkeypatch, pool):
    """What a report lists first is what a queue of that many labels has: the same items by the same annotators."""
    monkeypatch.setattr(queue, "POOL", pool)
    for seed in range(25):
        made, log_probs, guess, _ = small(seed, items=30, annotators=8, per_item=3)
        whole = relabel_queue(made, log_probs, guess, budget=1_000)
        for budget in (1, 4, 11, 25):
            part = relabel_queue(made, log_probs, guess, budget=budget)
            assert part.equals(whole.head(budget)), (seed, budget)
        if pool > 100:
            naive = naive_shares(gains_of(made, guess), 1_000)
            found = list(zip(whole["item"].str[1:].astype(int), whole["ask"].str[1:].astype(int), strict=True))
            assert found == naive, seed


def equals(n_good: int, n_poor: int, items: int = 300):
    """A crowd in which nobody has labelled more than one item in twenty."""
    rng = np.random.default_rng(0)
    n = n_good + n_poor
    made = table(
        np.arange(items), rng.integers(0, n, items), rng.integers(0, 2, items), n_items=items, n_annotators=n, options=2
    )
    log_probs = np.log(np.full((items, 2), 0.5))
    betas = [0.9 - 0.01 * a for a in range(n_good)] + [0.1] * n_poor
    return made, log_probs, known(made, log_probs, betas)


def test_those_who_are_about_as_good_share_the_work_and_poor_ones_get_none():
    made, log_probs, guess = equals(5, 5)
    frame = relabel_queue(made, log_probs, guess, budget=100)
    loads = frame["ask"].value_counts()
    assert len(frame) == 100
    assert sorted(loads.index) == [f"a{a}" for a in range(5)] and loads.min() >= 15 and loads.max() <= 25
    alone = relabel_queue(made, log_probs, guess, budget=100, most_each=100)
    assert alone["ask"].nunique() < 3, "without shares nearly all goes to the best"
    assert frame["gain_bits"].sum() > HALF_AS_GOOD * alone["gain_bits"].sum()


def test_a_queue_buys_what_is_expected_of_it():
    """Truths drawn from the posterior, answers from the annotators, labels judged anew: on average as expected."""
    made, log_probs, guess, prices = small(3, items=40, annotators=6)
    costs = {f"a{a}": float(price) for a, price in enumerate(prices)}
    frame = relabel_queue(made, log_probs, guess, budget=25, costs=costs)
    rng = np.random.default_rng(0)
    items = frame["item"].str[1:].astype(int).to_numpy()
    asked = frame["ask"].str[1:].astype(int).to_numpy()
    corrected, removed = [], []
    for _ in range(400):
        truth = np.array([rng.choice(3, p=p) for p in guess.posterior])
        before = guess.posterior.argmax(axis=1)
        change = bits = 0.0
        for i, a in zip(items, asked, strict=True):
            beta = guess.expertise[a, 0]
            answer = truth[i] if rng.random() < beta else rng.integers(3)
            after = guess.posterior[i] * np.where(np.arange(3) == answer, beta + (1 - beta) / 3, (1 - beta) / 3)
            after /= after.sum()
            change += int(after.argmax() == truth[i]) - int(before[i] == truth[i])
            bits += entropy(guess.posterior[i]) - entropy(after)
        corrected.append(change)
        removed.append(bits)
    for drawn, expected in ((corrected, frame["gain_labels"].sum()), (removed, frame["gain_bits"].sum())):
        assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(len(drawn)))
    assert frame["gain_labels"].sum() > 1


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log2(p)).sum())


def test_what_it_costs_and_an_empty_queue():
    made, log_probs, guess, prices = small(4, items=30, annotators=6)
    costs = {f"a{a}": float(price) for a, price in enumerate(prices)}
    frame = relabel_queue(made, log_probs, guess, budget=12, costs=costs)
    assert 0 < frame["cost"].sum() <= 12
    np.testing.assert_allclose(frame["gain_per_cost"], frame["gain_bits"] / frame["cost"])
    everybody = table([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, options=2)
    nobody = relabel_queue(everybody, np.zeros((1, 2)), known(everybody, np.zeros((1, 2)), [0.8, 0.8]), budget=5)
    assert len(nobody) == 0 and list(nobody.columns) == list(frame.columns)
