from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

from realm.crowd.dependence import Dependence, dependence
from realm.crowd.estimate import estimate
from realm.crowd.intervals import Grid
from realm.crowd.shared_error import SHAPE, SHARE, SharedError
from realm.data import Annotations

from .crowds import simulate, table


def panel(
    seed: int = 0, *, n_items: int = 1500, people: int = 15, misled: float = 0.15
) -> tuple[Annotations, np.ndarray]:
    """Judges of two labels who find some items harder than others, all alike, and some of whose items mislead them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n_items)
    seen = np.where(rng.random(n_items) < misled, 1 - truth, truth)
    ease, skill = rng.normal(1.5, 1.5, n_items), rng.normal(0.0, 0.5, people)
    right = rng.random((n_items, people)) < 1 / (1 + np.exp(-(ease[:, None] + skill)))
    labels = np.where(right, seen[:, None], 1 - seen[:, None])
    item, annotator = (index.ravel() for index in np.indices(labels.shape))
    return table(item, annotator, labels.ravel(), n_items=n_items, n_annotators=people, options=2), truth


def covered(found, annotations: Annotations, truth: np.ndarray) -> float:
    right = np.bincount(annotations.annotator, annotations.label == truth[annotations.item])
    right = right / np.bincount(annotations.annotator)
    return float(((found.low[:, 0] <= right) & (right <= found.high[:, 0])).mean())


def test_judges_who_err_together_are_neither_certain_nor_taken_at_their_word() -> None:
    annotations, truth = panel()
    found = estimate(annotations, np.zeros((annotations.n_items, 2)))
    confidence, right = found.posterior.max(axis=1), found.posterior.argmax(axis=1) == truth
    assert found.exponent < 0.7 and found.shared_error > 0.05
    assert abs(confidence.mean() - right.mean()) < 0.06
    assert covered(found, annotations, truth) > 0.9
    # Under independent errors nearly everything would be certain, and a sixth of it wrong.
    assert (confidence > 0.99).mean() < 0.01


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [2, 4])
def test_independent_annotators_are_left_as_they_are(seed: int, options: int) -> None:
    crowd = simulate(seed, annotators=np.linspace(0.5, 0.95, 20), labels_each=100, per_item=5, options=options)
    found = estimate(crowd.annotations, np.zeros_like(crowd.log_probs))
    assert found.exponent == 1 and found.shared_error == 0
    assert not dependence(crowd.annotations).beyond_chance


def test_neighbours_that_everybody_mistakes_are_no_dependence() -> None:
    """Errors that go to the next label are shared by all without any item being harder."""
    rng = np.random.default_rng(0)
    n, people, options = 3000, 15, 4
    truth = rng.integers(options, size=n)
    labels = np.where(rng.random((n, people)) < 0.7, truth[:, None], (truth[:, None] + 1) % options)
    item, annotator = (index.ravel() for index in np.indices(labels.shape))
    annotations = table(item, annotator, labels.ravel(), n_items=n, n_annotators=people, options=options)
    assert not dependence(annotations).beyond_chance


def test_gold_says_how_often_annotators_are_wrong_together() -> None:
    annotations, truth = panel(1, n_items=2000, misled=0.0)
    never = estimate(annotations, np.zeros((2000, 2)))
    gold = np.where(np.arange(2000) % 5 == 0, truth, -1)
    found = estimate(annotations, np.zeros((2000, 2)), gold=gold)
    assert found.shared_error < never.shared_error
    unknown = gold < 0
    for each in (never, found):
        each_error = abs(
            each.posterior.max(axis=1)[unknown].mean() - (each.posterior.argmax(1) == truth)[unknown].mean()
        )
        assert each_error < 0.15
    assert each_error < 0.08
    misled, truth = panel(2, n_items=2000, misled=0.3)
    shares = [
        float(estimate(misled, np.zeros((2000, 2)), gold=some).shared_error)
        for some in (None, np.where(np.arange(2000) % 5 == 0, truth, -1))
    ]
    assert shares[1] > shares[0] and shares[1] == pytest.approx(0.3, abs=0.1)


# -------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("options", [2, 3, 5])
def test_the_channel_against_the_truth_is_what_marginalising_gives(options: int) -> None:
    rng = np.random.default_rng(options)
    share, beta, xi = 0.15, 0.6, rng.dirichlet(np.ones(options))
    seen = np.full((options, options), share / (options - 1))  # truth x what annotators see
    np.fill_diagonal(seen, 1 - share)
    channel = beta * np.eye(options) + (1 - beta) * xi  # what annotators see x label
    against_truth = seen @ channel
    error = SharedError(0.5, share, 1.5, share)
    new_beta, new_xi = error.habit(np.array([beta]), xi[None], np.ones((1, options), bool))
    np.testing.assert_allclose(new_beta[0] * np.eye(options) + (1 - new_beta[0]) * new_xi[0], against_truth, atol=1e-12)
    assert new_xi.sum() == pytest.approx(1)
    apparent = rng.dirichlet(np.ones(options), 4)
    expected = apparent @ seen  # the shares of the truth, if seeing is as symmetric as that
    found = SharedError(1.0, share).posterior(apparent, np.full(4, options))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_without_dependence_nothing_changes() -> None:
    none = SharedError.of(None)
    assert none == SharedError() == SharedError.of(Dependence(0.5, 5.0, standard_errors=1.0))
    apparent = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    assert none.posterior(apparent, np.array([2, 3])) is apparent
    assert none.among(apparent, apparent, np.array([2, 3])).mean == 0
    some = SharedError.of(Dependence(0.25, 5.0, standard_errors=5.0))
    assert some.share == pytest.approx(SHARE / 2)
    softened = some.posterior(apparent, np.array([2, 3]))
    assert softened[0, 2] == 0 and softened.sum(axis=1) == pytest.approx([1, 1])
    assert (softened.max(axis=1) < apparent.max(axis=1)).all()
    assert (softened.argmax(axis=1) == apparent.argmax(axis=1)).all()


def test_a_quantile_is_that_of_simulated_annotators() -> None:
    rng = np.random.default_rng(0)
    grid, error, n = Grid(512), SharedError(0.3, 0.1, 1.7, 0.12), 1e9
    mass = grid.density(np.array([40.0, 80.0]), np.array([10.0, 80.0]))
    skills = np.array([rng.beta(40, 10, 200_000), rng.beta(80, 80, 200_000)])
    share = np.minimum(0.12 * gamma.rvs(SHAPE, size=skills.shape, random_state=1) / SHAPE, 0.5)
    accuracy = (1 - share) * skills + share * (1 - skills) + share * 0.2 * rng.normal(size=skills.shape)
    for level in (0.025, 0.5, 0.975):
        line = np.zeros(2), np.ones(2)
        found = error.quantile(level, grid, mass, line, np.full(2, 2.0), np.full(2, n))
        np.testing.assert_allclose(found, np.quantile(accuracy, level, axis=1), atol=0.012)
    nearly = SharedError(0.9, 1e-6, 1.1, 1e-6).quantile(0.025, grid, mass, line, np.full(2, 2.0), np.full(2, n))
    np.testing.assert_allclose(nearly, grid.quantile(mass, 0.025), atol=1e-3)


@pytest.mark.parametrize("labels", [5, 20, 200])
def test_a_perfect_record_lies_inside_its_interval(labels: int) -> None:
    rng = np.random.default_rng(labels)
    truth = rng.integers(2, size=labels)
    people = np.repeat(np.arange(6), labels)
    label = np.tile(truth, 6)
    slips = (people > 0) & (rng.random(len(people)) < 0.1)
    annotations = table(np.tile(np.arange(labels), 6), people, np.where(slips, 1 - label, label), n_items=labels,
                        n_annotators=6, options=2)  # fmt: skip
    found = estimate(annotations, np.zeros((labels, 2)))
    assert found.high[0, 0] == 1
    assert found.low[0, 0] < 1
    assert (found.high[1:, 0] < 1).sum() >= 3 or labels == 5


def test_confidence_that_takes_errors_to_be_independent_is_said_to_be_too_sure() -> None:
    from realm.crowd.shared_error import too_sure

    (sentence,) = too_sure(panel()[0])
    assert sentence.startswith("annotators err together: 15 annotators per item are worth about ")
    crowd = simulate(0, annotators=np.linspace(0.5, 0.95, 20), labels_each=100, per_item=5, options=2)
    assert too_sure(crowd.annotations) == []


def test_an_estimate_comes_back_from_a_file_with_what_annotators_share(tmp_path) -> None:
    from safetensors.numpy import load_file, save_file

    from realm.crowd.estimate import Estimate

    found = estimate(panel(n_items=400)[0], np.zeros((400, 2)))
    arrays = {name: np.atleast_1d(values) for name, values in found.to_arrays().items()}
    save_file(arrays, tmp_path / "estimate.safetensors")
    stored = load_file(tmp_path / "estimate.safetensors")
    back = Estimate.from_arrays(stored)
    assert float(back.shared_error) == float(found.shared_error) > 0 and float(back.exponent) == float(found.exponent)
    stored.pop("exponent"), stored.pop("shared_error")
    assert float(Estimate.from_arrays(stored).shared_error) == 0, "runs written before"
