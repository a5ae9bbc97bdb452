from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import DawidSkene, Mace, MajorityVote, aggregate
from realm.crowd.habit import POOL_STEPS, Habit, HabitPrior
from realm.data import Annotations

from .pools import simulate


@dataclass(eq=False)
class Unpooled(Mace):
    """Maximum likelihood, as in the publication's EM."""

    pooling: bool = False

    def _model(self, arrays) -> Habit:
        habit = super()._model(arrays)
        none = np.zeros(habit.n_pairs)
        return habit.with_prior(HabitPrior(none, none, np.zeros_like(habit.prior.habit)))


def slow_mace(annotations: list[tuple[int, int, int]], n_options: int, iterations: int):
    """EM as it was published (whether a label was copied from the truth is a latent variable), one label at a time."""
    items = sorted({i for i, _, _ in annotations})
    people = sorted({a for _, a, _ in annotations})
    ks = range(n_options)
    prior = [1 / n_options] * n_options
    beta = dict.fromkeys(people, 0.5)
    counts = [sum(y == k for _, _, y in annotations) for k in ks]
    xi = {a: [count / sum(counts) for count in counts] for a in people}
    posterior = {}
    for _ in range(iterations):
        copied, total = dict.fromkeys(people, 0.0), dict.fromkeys(people, 0.0)
        guessed = {a: [1e-12] * n_options for a in people}
        for i in items:
            joint = list(prior)
            for _, a, y in (row for row in annotations if row[0] == i):
                joint = [p * (beta[a] * (y == k) + (1 - beta[a]) * xi[a][y]) for k, p in enumerate(joint)]
            posterior[i] = [p / sum(joint) for p in joint]
            for _, a, y in (row for row in annotations if row[0] == i):
                own = beta[a] + (1 - beta[a]) * xi[a][y]
                copy = posterior[i][y] * beta[a] / own
                copied[a] += copy
                total[a] += 1
                guessed[a][y] += 1 - copy
        beta = {a: copied[a] / total[a] for a in people}
        xi = {a: [g / sum(guessed[a]) for g in guessed[a]] for a in people}
        prior = [sum(posterior[i][k] for i in items) / len(items) for k in ks]
    return posterior, beta, xi


def crowd(seed: int, n_items: int, per_item: int, annotators: int, shares: list[float], alike: float):
    """Annotators with a Beta(4, 2) expertise and habits around the shares of the labels."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), size=n_items, p=shares)
    items = np.repeat(np.arange(n_items), per_item)
    annotator = rng.integers(annotators, size=len(items))
    beta, xi = rng.beta(4, 2, annotators), rng.dirichlet(alike * np.array(shares), annotators)
    guess = (xi[annotator].cumsum(axis=1) < rng.random(len(items))[:, None]).sum(axis=1).clip(max=len(shares) - 1)
    return items, annotator, np.where(rng.random(len(items)) < beta[annotator], truth[items], guess), truth


def test_agrees_with_a_slow_implementation_of_the_publication() -> None:
    pool = simulate(seed=3, n_items=60, n_annotators=6, n_options=3, per_item=4, low=0.6)
    posterior, beta, xi = slow_mace(list(zip(*pool.arrays, strict=True)), 3, iterations=600)
    model = Unpooled(max_iter=600, tol=0).fit(*pool.arrays)
    np.testing.assert_allclose(model.posterior_, [posterior[i] for i in range(60)], atol=1e-4)
    np.testing.assert_allclose(model.expertise_, [beta[a] for a in range(6)], atol=1e-3)
    informative = model.expertise_ < 0.9  # of who hardly ever guesses, the habit is hardly known
    np.testing.assert_allclose(model.habits_[informative], np.array([xi[a] for a in range(6)])[informative], atol=1e-2)


def test_posterior_and_likelihood_against_every_assignment_of_truths_with_few_options() -> None:
    pool = simulate(seed=9, n_items=6, n_annotators=4, n_options=3, per_item=3, low=0.5)
    largest = np.zeros(6, dtype=int)
    np.maximum.at(largest, pool.items, pool.labels)
    counts = np.maximum(largest + 1, 2)
    model = Mace(max_iter=3000, tol=0).fit(*pool.arrays, option_counts=counts)
    evidence, marginal = 0.0, np.zeros((6, 3))
    for truths in itertools.product(*(range(count) for count in counts)):
        joint = math.prod(model.priors_[k] for k in truths)
        for i, a, y in zip(*pool.arrays, strict=True):
            beta, xi = model.expertise_[a], model.habits_[a, : counts[i]] / model.habits_[a, : counts[i]].sum()
            joint *= beta * (truths[i] == y) + (1 - beta) * xi[y]
        evidence += joint
        for i, k in enumerate(truths):
            marginal[i, k] += joint
    np.testing.assert_allclose(model.posterior_, marginal / evidence, atol=1e-5)
    assert model.log_likelihood_ == pytest.approx(math.log(evidence), abs=1e-5)


@pytest.mark.parametrize("pooling", [True, False])
def test_objective_never_falls_once_the_pool_is_held_and_it_stops(pooling: bool) -> None:
    pool = simulate(seed=5, n_options=4, low=0.2, high=0.8)
    largest = np.zeros(400, dtype=int)
    np.maximum.at(largest, pool.items, pool.labels)
    model = Mace(max_iter=300, tol=0, pooling=pooling).fit(*pool.arrays, option_counts=largest + 1)
    held = POOL_STEPS[-1] if pooling else 0
    assert np.diff(model.objectives_[held:]).min() > -1e-7
    assert Mace(max_iter=300, pooling=pooling).fit(*pool.arrays).n_iter_ < 300


def test_a_weight_of_two_is_as_good_as_two_annotations() -> None:
    pool = simulate(seed=8, n_items=80)
    weight = np.where(np.arange(len(pool.items)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(pool.items)), weight.astype(int))
    one = Mace().fit(*pool.arrays, weight=weight)
    other = Mace().fit(*(column[twice] for column in pool.arrays))
    np.testing.assert_allclose(one.posterior_, other.posterior_, atol=1e-9)


def test_gold_is_held_and_overturns_a_majority_that_is_wrong() -> None:
    """Seven of ten annotators give the mirror image; forty gold items say so."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=400)
    items, annotators = np.repeat(np.arange(400), 10), np.tile(np.arange(10), 400)
    right = rng.random(4000) < np.where(annotators < 7, 0.15, 0.9)
    labels = np.where(right, truth[items], 1 - truth[items])
    gold = np.where(np.arange(400) < 40, truth, -1)
    model = Mace().fit(items, annotators, labels, gold=gold)
    assert (model.labels_[:40] == truth[:40]).all()
    assert (model.labels_ == truth).mean() > 0.95
    assert (model.expertise_[:7] < -0.4).all() and (model.expertise_[7:] > 0.6).all()


def test_annotators_with_habits_do_not_look_expert() -> None:
    """Four who always say 1 agree with each other, and are no better than a coin that fell on 1."""
    rng = np.random.default_rng(2)
    truth = (rng.random(1500) < 0.4).astype(int)
    items, annotators = np.repeat(np.arange(1500), 8), np.tile(np.arange(8), 1500)
    read = rng.random(len(items)) < np.where(annotators < 4, 0.1, 0.75)
    guess = (rng.random(len(items)) < np.where(annotators < 4, 0.95, 0.5)).astype(int)
    model = Mace().fit(items, annotators, np.where(read, truth[items], guess))
    assert model.expertise_[:4].max() < 0.3 < model.expertise_[4:].min()
    assert model.habits_[:4, 1].min() > 0.9
    vote = MajorityVote().fit(items, annotators, np.where(read, truth[items], guess))
    assert (model.labels_ == truth).mean() > (vote.labels_ == truth).mean() + 0.1


@pytest.mark.parametrize(
    ("shares", "per_item", "alike"), [([0.7, 0.3], 5, 5.0), ([0.6, 0.3, 0.1], 5, 5.0), ([0.9, 0.1], 3, 1.0)]
)
def test_thousands_of_annotators_with_few_labels_are_pooled_to_no_less_than_a_vote(shares, per_item, alike) -> None:
    *arrays, truth = crowd(0, 3000, per_item, 3000, shares, alike)
    right = {type(model): (model.fit(*arrays).labels_ == truth).mean() for model in (Mace(), MajorityVote())}
    assert right[Mace] >= right[MajorityVote] - 0.001
    assert (Unpooled().fit(*arrays).labels_ == truth).mean() < right[MajorityVote] - 0.005


def panel(path: Path) -> Annotations:
    wide = pd.read_csv(path, dtype=str)
    return Annotations.from_pandas(
        wide.melt(["item", "text", "gold"], var_name="annotator", value_name="label").dropna(subset=["label"])
    )


@pytest.mark.parametrize(
    ("name", "majority", "mace"), [("dices350", 0.654, 0.691), ("civilcomments_judges", 0.72, 0.73)]
)
def test_real_panels(name: str, majority: float, mace: float, shared_data: Path) -> None:
    annotations = panel(shared_data / name / "panel.csv")
    known = annotations.gold >= 0
    for method, expected in (("majority", majority), ("mace", mace)):
        labels = aggregate(annotations, method).labels
        assert (labels == annotations.gold)[known].mean() == pytest.approx(expected, abs=0.006), method


def test_fewer_parameters_than_a_confusion_matrix_pay_with_many_labels() -> None:
    *arrays, truth = crowd(1, 1000, 5, 200, [0.3, 0.2, 0.15, 0.15, 0.1, 0.1], 4.0)
    assert (Mace().fit(*arrays).labels_ == truth).mean() > (DawidSkene().fit(*arrays).labels_ == truth).mean() + 0.01
