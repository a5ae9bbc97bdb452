from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from realm.crowd.coin import expertise_evidence
from realm.crowd.joint import JointLikelihood
from realm.crowd.posterior import check_log_probs, posterior

from .crowds import simulate, table


def mixed(seed: int = 0, n_items: int = 60, people: int = 6) -> JointLikelihood:
    """Items with two to four options in two tasks."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 5, n_items)
    item, annotator = (x.ravel() for x in np.meshgrid(np.arange(n_items), np.arange(people), indexing="ij"))
    keep = rng.random(len(item)) < 0.6
    item, annotator = item[keep], annotator[keep]
    label = rng.integers(0, counts[item])
    made = table(
        item,
        annotator,
        label,
        n_items=n_items,
        n_annotators=people,
        options=counts.tolist(),
        item_tasks=np.arange(n_items) % 2,
    )
    return JointLikelihood(made, check_log_probs(made, np.log(rng.random((n_items, 4)) + 0.05)))


def test_joint_log_likelihood_is_that_of_enumeration():
    joint = mixed(n_items=6, people=3)
    made, beta = joint.annotations, joint.coin.expertise(np.full(joint.coin.n_pairs, 0.7)).reshape(3, 2)
    total = 0.0
    for truth in itertools.product(*(range(count) for count in made.option_counts)):
        weight = np.prod([np.exp(joint.log_probs[i, k]) for i, k in enumerate(truth)])
        for i, a, y in zip(made.item, made.annotator, made.label, strict=True):
            b = beta[a, made.item_tasks[i]]
            weight *= b * (y == truth[i]) + (1 - b) / made.option_counts[i]
        total += weight
    assert joint.log_likelihood(np.full(joint.coin.n_pairs, 0.7)) == pytest.approx(np.log(total))


def test_leave_one_out_is_the_likelihood_with_that_annotation_taken_away():
    joint = mixed()
    made = joint.annotations
    skill = np.random.default_rng(1).uniform(0.2, 0.9, joint.coin.n_pairs)
    likelihood = joint.leave_one_out(skill[joint.coin.pair])
    beta = joint.coin.expertise(skill).reshape(made.n_annotators, 2)
    for j in range(0, made.n_annotations, 7):
        without = made.keep_annotations(np.arange(made.n_annotations) != j)
        share = posterior(without, joint.log_probs, expertise_evidence(without, beta))[made.item[j], made.label[j]]
        for t, found in ((0.0, likelihood.at_zero[j]), (1.0, likelihood.at_one[j])):
            b = joint.coin.lowest[joint.coin.pair[j]] * (1 - t) + t
            assert found == pytest.approx(b * share + (1 - b) / made.option_counts[made.item[j]], abs=1e-12)


def test_a_sure_posterior_still_leaves_ones_own_label_out():
    made = table([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, options=2)
    joint = JointLikelihood(made, np.log([[1 - 1e-15, 1e-15]]))
    likelihood = joint.leave_one_out(np.array([0.999999, 0.999999]))
    assert likelihood.at_one[0] == pytest.approx(1e9 / (1e9 + 1), rel=1e-3)
    assert likelihood.at_one[1] == pytest.approx(1e-21, rel=0.3)


def test_em_never_lowers_the_joint_likelihood_and_reaches_its_maximum():
    joint = mixed()
    skill = np.full(joint.coin.n_pairs, 0.6)
    values = [joint.log_likelihood(skill)]
    for _ in range(30):
        skill = joint.fit(skill, max_iter=1)
        values.append(joint.log_likelihood(skill))
    assert (np.diff(values) >= -1e-9).all()
    top = joint.fit(skill, max_iter=5000, tol=1e-10)
    best = minimize(lambda s: -joint.log_likelihood(s), top, bounds=[(1e-9, 1 - 1e-9)] * joint.coin.n_pairs)
    assert joint.log_likelihood(top) >= -best.fun - 1e-5


def test_skill_is_accuracy_where_all_items_have_as_many_options():
    joint = JointLikelihood(simulate(0, options=4).annotations, simulate(0, options=4).log_probs)
    skill = np.linspace(0, 1, joint.coin.n_pairs)
    beta = joint.coin.expertise(skill)
    np.testing.assert_allclose(beta + (1 - beta) / 4, skill)
    np.testing.assert_allclose(joint.coin.skill(beta), skill)


def test_fixed_cells_and_cells_without_annotations_stay_where_they_are():
    made = table([0, 1], [0, 1], [0, 1], n_items=2, n_annotators=3, options=2)
    joint = JointLikelihood(made, np.log([[0.9, 0.1], [0.9, 0.1]]))
    found = joint.fit(np.array([0.7, 0.8, 0.6]), fixed=np.array([False, True, False]))
    assert found[1] == 0.8
    assert found[2] == 0.6
    assert found[0] > 0.9
