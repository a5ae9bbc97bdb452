"""Whom to ask within a budget, against naive loops over all pairs, all assignments and all answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd import relabel_offers
from realm.crowd.relabel import relabel_queue, summarise_queue
from realm.crowd.relabel_offers import HALF_AS_GOOD, LEAST_GAIN, Offers, correction_gain, information_gain
from realm.errors import RealmError

from .crowds import simulate, table
from .test_relabel import known


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_corrections_are_what_enumerating_truths_and_answers_gives(seed, k):
    rng = np.random.default_rng(seed)
    p, xi, beta = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), 3), rng.uniform(0, 1, 3)
    found = correction_gain(np.append(p, 0.0)[None], np.array([k]), beta[None], np.column_stack([xi, np.zeros(3)]))
    for a in range(3):
        joint = p[:, None] * (beta[a] * np.eye(k) + (1 - beta[a]) * xi[a])  # truth, answer
        after = sum(joint[:, answer].max() for answer in range(k))
        assert found[0, a] == pytest.approx(after - p.max(), abs=1e-12)


def test_an_answer_that_cannot_change_the_label_tells_bits_and_corrects_nothing():
    shares, options = np.array([[0.9, 0.1]]), np.array([2])
    assert correction_gain(shares, options, np.array([0.5]))[0] == 0.0
    assert information_gain(shares, options, np.array([0.5]))[0] > 0.05
    assert correction_gain(shares, options, np.array([1.0]))[0] == pytest.approx(0.1)


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
            gains[i, a] = information_gain(guess.posterior[[i]], np.array([3]), guess.expertise[[a], 0])[0]
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
        made, _, guess, prices = small(seed, items=12, annotators=6)
        for budget in (2.5, 6.0, 100.0):
            requests = Offers(made, guess, prices).requests(budget, most_each)
            found = list(zip(requests.items.tolist(), requests.annotators.tolist(), strict=True))
            assert found == naive_requests(gains_of(made, guess), prices, budget, most_each), (seed, budget)
            assert requests.costs.sum() <= budget


@pytest.mark.parametrize(("pool", "sharers"), [(10_000, 2), (10_000, 1), (1, 128), (3, 2)])
def test_short_lists_of_items_and_annotators_change_nothing(monkeypatch, pool, sharers):
    """Nobody may have two: lists run out again and again, and are made anew of who is left."""
    cases = [small(seed, items=20, annotators=18, per_item=1) for seed in range(5)]
    monkeypatch.setattr(relabel_offers, "SHARERS", sharers)
    if pool > 100:  # only with all items before them is the best pair the best of all
        monkeypatch.setattr(relabel_offers, "CANDIDATES", 1)
    monkeypatch.setattr(relabel_offers, "POOL", pool)
    for made, _, guess, prices in cases:
        naive = naive_requests(gains_of(made, guess), prices, 1e9, 1)
        requests = Offers(made, guess, prices).requests(1e9, 1)
        if pool > 100:
            assert list(zip(requests.items, requests.annotators, strict=True)) == naive and len(naive) > 8
        else:
            assert len(requests.items) == len(naive) and len(set(requests.annotators)) == len(naive)
            assert len(set(requests.items)) == len(naive)


def naive_shares(gains, budget):
    """The best pair of those below the limit, unless a pair of somebody at the limit is more than twice as good."""
    load, limit, chosen, free = np.zeros(gains.shape[1], int), 1, [], set(range(len(gains)))
    while len(chosen) < budget:
        pairs = [
            (gains[i, a], -i, load[a] < limit, a) for i in free for a in range(len(load)) if gains[i, a] > LEAST_GAIN
        ]
        if not pairs:
            return chosen
        below = [pair for pair in pairs if pair[2]]
        if not below or max(below)[0] < HALF_AS_GOOD * max(pairs)[0]:
            limit += 1
            continue
        _, minus, _, a = max(below)
        chosen.append((-minus, a))
        free.discard(-minus)
        load[a] += 1
    return chosen


@pytest.mark.parametrize("pool", [10_000, 6])
def test_a_small_budget_asks_for_the_first_labels_of_a_larger_one(monkeypatch, pool):
    """What a report lists first is what a queue of that many labels has: the same items by the same annotators."""
    monkeypatch.setattr(relabel_offers, "POOL", pool)
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


def test_nobody_gets_settled_items_to_fill_a_share():
    """a1 has labelled every doubtful item: they go to a0, who is as good, and a1 gets none of the others instead."""
    items, doubtful = 60, 30
    made = table(
        np.concatenate([np.arange(doubtful), [doubtful]]),
        np.concatenate([np.full(doubtful, 1), [0]]),
        np.zeros(doubtful + 1),
        n_items=items, n_annotators=2, options=2,
    )  # fmt: skip
    log_probs = np.log(np.full((items, 2), 0.5))
    guess = known(made, log_probs, [0.8, 0.8])
    guess.posterior[:] = np.where(np.arange(items)[:, None] < doubtful, 0.5, [0.995, 0.005])
    frame = relabel_queue(made, log_probs, guess, budget=20)
    assert len(frame) == 20 and set(frame["ask"]) == {"a0"} and frame["gain_bits"].min() > 0.3
    rest = relabel_queue(made, log_probs, guess, budget=50).iloc[doubtful:]
    assert len(rest) == 20 and rest["ask"].value_counts()["a1"] == 20, "who has had less catches up"


def test_greedy_is_at_least_half_of_the_best_assignment_and_mostly_close_to_it():
    """Every assignment of 4 items to 3 annotators or nobody, none asked twice."""
    ratios = []
    for seed in range(12):
        made, _, guess, _ = small(seed, items=4, annotators=3, per_item=1)
        gains = np.maximum(gains_of(made, guess), 0.0)
        best = 0.0
        for choice in itertools.product(range(4), repeat=4):  # 3 is nobody
            used = [a for a in choice if a < 3]
            if len(set(used)) == len(used):
                best = max(best, sum(gains[i, a] for i, a in enumerate(choice) if a < 3))
        gained = Offers(made, guess, np.ones(3)).requests(1e9, 1).gains.sum()
        ratios.append(gained / best if best else 1.0 + gained)
    assert max(ratios) <= 1 + 1e-9 and min(ratios) >= 0.5 and np.mean(ratios) > 0.9


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
    assert sorted(loads.index) == [f"a{a}" for a in range(5)] and loads.max() == 20
    alone = relabel_queue(made, log_probs, guess, budget=100, most_each=100)
    assert alone["ask"].nunique() < 3, "without shares nearly all goes to the best"
    assert frame["gain_bits"].sum() > HALF_AS_GOOD * alone["gain_bits"].sum()


def test_one_expert_among_guessers_gets_it_all_where_nobody_is_half_as_good():
    made, log_probs, guess = equals(1, 9)
    frame = relabel_queue(made, log_probs, guess, budget=50)
    assert set(frame["ask"]) == {"a0"} and len(frame) == 50


def test_shares_are_raised_where_the_items_leave_no_other_way():
    """a1 and a2 have labelled everything: a0 must take more than a third."""
    items = 30
    made = table(
        np.concatenate([np.arange(items), np.arange(items), [0]]),
        np.concatenate([np.full(items, 1), np.full(items, 2), [0]]),
        np.concatenate([np.zeros(items), np.ones(items), [0]]),
        n_items=items, n_annotators=3, options=2,
    )  # fmt: skip
    log_probs = np.log(np.full((items, 2), 0.5))
    frame = relabel_queue(made, log_probs, known(made, log_probs, [0.8, 0.8, 0.8]), budget=20)
    assert len(frame) == 20 and set(frame["ask"]) == {"a0"}
    hard = relabel_queue(made, log_probs, known(made, log_probs, [0.8, 0.8, 0.8]), budget=20, most_each=7)
    assert len(hard) == 7, "what is asked for is not exceeded"


def test_with_more_items_than_are_looked_at_the_most_doubtful_are_taken(monkeypatch):
    made, log_probs, guess = equals(5, 5)
    rng = np.random.default_rng(1)
    guess.posterior[:, 0] = rng.uniform(0.5, 1, made.n_items)
    guess.posterior[:, 1] = 1 - guess.posterior[:, 0]
    whole = relabel_queue(made, log_probs, guess, budget=10)
    monkeypatch.setattr(relabel_offers, "POOL", 15)
    part = relabel_queue(made, log_probs, guess, budget=10)
    assert len(part) == 10 and part["gain_bits"].sum() > 0.98 * whole["gain_bits"].sum()
    monkeypatch.setattr(relabel_offers, "POOL", 4)
    assert len(relabel_queue(made, log_probs, guess, budget=10)) == 10, "the next take the place of those handed out"


@pytest.mark.parametrize("most_each", [0, -3])
def test_a_share_of_nothing_is_refused(most_each):
    crowd = simulate(0)
    guess = known(crowd.annotations, crowd.log_probs, np.full(crowd.annotations.n_annotators, 0.5))
    with pytest.raises(RealmError, match="`most_each="):
        relabel_queue(crowd.annotations, crowd.log_probs, guess, 5, None, most_each)


# -------------------------------------------------------------------- what it buys


def test_a_queue_buys_what_is_expected_of_it():
    """Truths drawn from the posterior, answers from the annotators, labels judged anew: on average as expected."""
    made, log_probs, guess, prices = small(3, items=40, annotators=6)
    costs = {f"a{a}": float(price) for a, price in enumerate(prices)}
    frame = relabel_queue(made, log_probs, guess, budget=25, costs=costs)
    summary = summarise_queue(frame, guess)
    rng = np.random.default_rng(0)
    items = frame["item"].str[1:].astype(int).to_numpy()
    asked = frame["ask"].str[1:].astype(int).to_numpy()
    corrected, removed, wrong = [], [], []
    for _ in range(400):
        truth = np.array([rng.choice(3, p=p) for p in guess.posterior])
        before = guess.posterior.argmax(axis=1)
        wrong.append((before != truth).sum())
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
    for drawn, expected in ((corrected, summary.labels), (removed, summary.bits), (wrong, summary.wrong_now)):
        assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(len(drawn)))
    assert summary.labels > 1 and summary.bits < summary.bits_now


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log2(p)).sum())


def test_the_workload_adds_up():
    made, log_probs, guess, prices = small(4, items=30, annotators=6)
    costs = {f"a{a}": float(price) for a, price in enumerate(prices)}
    frame = relabel_queue(made, log_probs, guess, budget=12, costs=costs)
    summary = summarise_queue(frame, guess)
    assert summary.annotations == len(frame) == summary.workload["annotations"].sum()
    assert summary.cost == pytest.approx(summary.workload["cost"].sum()) and summary.cost <= 12
    for name, group in frame.groupby("ask"):
        row = summary.workload.set_index("annotator").loc[name]
        assert row["annotations"] == len(group) and row["gain_bits"] == pytest.approx(group["gain_bits"].sum())
    np.testing.assert_allclose(frame["gain_per_cost"], frame["gain_bits"] / frame["cost"])


def test_an_empty_queue_buys_nothing():
    made = table([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, options=2)
    log_probs = np.zeros((1, 2))
    guess = known(made, log_probs, [0.8, 0.8])
    summary = summarise_queue(relabel_queue(made, log_probs, guess, budget=5), guess)
    assert (summary.annotations, summary.cost, summary.bits, summary.labels) == (0, 0.0, 0.0, 0.0)
    assert summary.wrong_now == pytest.approx(0.5) and len(summary.workload) == 0
