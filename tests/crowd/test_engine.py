"""The engine: its posterior is Bayes' rule, its EM rises, and renaming what is in a table renames the result."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd.engine import (
    PRIORS,
    LabelTable,
    Pool,
    fit,
    item_scores,
    log_softmax,
)

from .crowds import coins, mixtures
from .label_tables import DAWID_SKENE, confusions, drawn, run

EVERY = {**PRIORS, "dawid-skene": DAWID_SKENE}
every_prior = pytest.mark.parametrize("name", EVERY)


def small(seed: int, options: int = 3, weighted: bool = False, items: int = 40, people: int = 5) -> LabelTable:
    rng = np.random.default_rng(seed)
    return drawn(
        seed + 1,
        rng.integers(0, options, items),
        coins(np.linspace(0.3, 0.9, people), options),
        chance=0.6,
        weighted=weighted,
    )


# -------------------------------------------------------------------- the E-step


@every_prior
def test_the_posterior_is_that_of_every_truth_enumerated(name: str) -> None:
    """P(truths of all items | labels) written out over all K^n truths, on a table of five items."""
    table = small(0, items=5, people=3)
    fitted = run(table, EVERY[name], max_iter=7, tol=0.0)
    evidence, shares = fitted.parameters.evidence[table.cell], fitted.class_shares
    joint, total, marginals = 0.0, 0.0, np.zeros((5, 3))
    for truths in product(range(3), repeat=5):
        joint = np.prod(shares[list(truths)])
        for row in range(len(table.item)):
            joint *= np.exp(evidence[row, truths[table.item[row]]])
        total += joint
        marginals[np.arange(5), list(truths)] += joint
    np.testing.assert_allclose(fitted.posterior, marginals / total, atol=1e-12)
    assert fitted.log_likelihood == pytest.approx(np.log(total), rel=1e-9)


def test_items_with_fewer_options_are_judged_given_that_the_label_is_one_of_theirs() -> None:
    counts = np.array([2, 3, 3, 2])
    table = LabelTable(np.array([0, 1, 2, 3]), np.zeros(4, int), np.array([0, 2, 1, 1]), 4, 1, 3, None, counts)
    priors = PRIORS["habit"]
    fitted = run(table, priors, max_iter=3)
    matrix = confusions(table, fitted, priors)[0]
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    scores = item_scores(table, fitted.parameters, np.zeros(3), priors=priors)
    for item, label in enumerate(table.label):
        inside = matrix[: counts[item], : counts[item]]
        expected = np.log(inside[:, label] / inside.sum(axis=1))
        np.testing.assert_allclose(scores[item, : counts[item]], expected, atol=1e-12)
        assert np.isinf(scores[item, counts[item] :]).all()
    assert not fitted.posterior[[0, 3], 2].any()


def test_known_truths_are_taken_as_given() -> None:
    table = small(3)
    known = np.full(40, -1)
    known[:6] = 2
    fitted = fit(table, PRIORS["confusion"], Pool.of(table, PRIORS["confusion"]), table.vote_shares, known=known)
    assert (fitted.posterior[:6] == [0, 0, 1]).all()
    assert ((fitted.posterior[6:] > 0) & (fitted.posterior[6:] < 1)).all()


def test_a_models_probabilities_are_the_prior_of_each_item_and_nan_rows_have_the_class_shares() -> None:
    table = small(4)
    log_prior = np.log(np.random.default_rng(0).dirichlet(np.ones(3), 40))
    log_prior[30:] = np.nan
    fitted = run(table, log_prior=log_prior, max_iter=5)
    scores = item_scores(table, fitted.parameters, np.zeros(3), PRIORS["confusion"])
    np.testing.assert_allclose(fitted.posterior[:30], np.exp(log_softmax(log_prior[:30] + scores[:30])), atol=1e-12)
    # the parameters are those of the last M-step, as the shares are
    expected = np.exp(log_softmax(np.log(fitted.class_shares) + scores[30:]))
    np.testing.assert_allclose(fitted.posterior[30:], expected, atol=1e-12)


def test_held_class_shares_are_held() -> None:
    truth = np.repeat([0, 1], [120, 380])
    table = drawn(5, truth, mixtures([0.5, 0.4, 0.6, 0.5], [0.2, 0.8]), 3)
    free = run(table, max_iter=60)
    held = run(table, max_iter=60, held_shares=np.array([0.5, 0.5]))
    assert free.class_shares[1] > 0.7
    np.testing.assert_allclose(held.posterior.mean(axis=0), [0.5, 0.5], atol=0.01)


# -------------------------------------------------------------------- the M-step


# -------------------------------------------------------------------- EM


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_never_falls_under_dawid_and_skene(seed: int, options: int) -> None:
    """EM's own promise: what it climbs is the likelihood times the prior, here a Dirichlet on rows and class shares."""
    table = small(seed, options, weighted=seed % 2 == 1, items=60)
    values = []
    for steps in range(25):
        fitted = run(table, DAWID_SKENE, max_iter=steps, tol=0.0)
        matrices = np.log(confusions(table, fitted, DAWID_SKENE))
        prior = DAWID_SKENE.rows / options * matrices.sum() + DAWID_SKENE.classes * np.log(fitted.class_shares).sum()
        values.append(fitted.log_likelihood + prior)
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0]


# -------------------------------------------------------------------- renaming

tables = st.integers(0, 10_000).flatmap(
    lambda seed: st.tuples(st.just(seed), st.sampled_from([2, 3, 4]), st.sampled_from(list(EVERY)))
)


@settings(max_examples=40, deadline=None)
@given(tables)
def test_renaming_items_annotators_or_labels_renames_the_result(drawn_table) -> None:
    seed, options, name = drawn_table
    table, rng, priors = (
        small(seed, options, weighted=seed % 2 == 0, items=25),
        np.random.default_rng(seed),
        EVERY[name],
    )
    fitted = run(table, priors, max_iter=8, tol=0.0)
    items, people, labels = (rng.permutation(size) for size in (25, 5, options))  # new number of each
    order = rng.permutation(len(table.item))
    renamed = LabelTable(
        items[table.item][order],
        people[table.annotator][order],
        labels[table.label][order],
        25,
        5,
        options,
        None if table.weight is None else table.weight[order],
    )
    other = run(renamed, priors, max_iter=8, tol=0.0)
    np.testing.assert_allclose(other.posterior[items][:, labels], fitted.posterior, atol=1e-9)
    np.testing.assert_allclose(other.parameters.skill[people], fitted.parameters.skill, atol=1e-9)
    np.testing.assert_allclose(other.parameters.habit[people][:, labels], fitted.parameters.habit, atol=1e-9)
    np.testing.assert_allclose(other.parameters.shared[labels][:, labels], fitted.parameters.shared, atol=1e-9)
    assert other.log_likelihood == pytest.approx(fitted.log_likelihood, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_weight_of_two_is_a_label_given_twice(seed: int) -> None:
    table = small(seed, items=25)
    twice = replace(table, item=np.repeat(table.item, 2), annotator=np.repeat(table.annotator, 2),
                    label=np.repeat(table.label, 2))  # fmt: skip
    heavy = replace(table, weight=np.full(len(table.item), 2.0))
    one, two = run(twice, max_iter=6, tol=0.0), run(heavy, max_iter=6, tol=0.0)
    np.testing.assert_allclose(one.posterior, two.posterior, atol=1e-9)
    np.testing.assert_allclose(one.parameters.skill, two.parameters.skill, atol=1e-9)


# -------------------------------------------------------------------- kappa, and the table itself
