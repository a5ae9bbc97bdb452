from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from realm.crowd.aggregation.arrays import annotation_arrays
from realm.crowd.aggregation.dawid_skene import ConfusionMatrices
from realm.crowd.coin import Coin, expertise_evidence
from realm.crowd.evidence import JointLikelihood, LabelEvidence, posterior
from realm.errors import RealmError

from .crowds import mixed, simulate, table


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


def test_joint_log_likelihood_is_that_of_enumeration():
    joint = mixed(n_items=6, people=3)
    made, beta = joint.annotations, joint.model.expertise(np.full(joint.model.n_pairs, 0.7)).reshape(3, 2)
    total = 0.0
    for truth in itertools.product(*(range(count) for count in made.option_counts)):
        weight = np.prod([np.exp(joint.log_probs[i, k]) for i, k in enumerate(truth)])
        for i, a, y in zip(made.item, made.annotator, made.label, strict=True):
            b = beta[a, made.item_tasks[i]]
            weight *= b * (y == truth[i]) + (1 - b) / made.option_counts[i]
        total += weight
    assert joint.log_likelihood(np.full(joint.model.n_pairs, 0.7)) == pytest.approx(np.log(total))


def test_em_never_lowers_the_joint_likelihood_and_reaches_its_maximum():
    joint = mixed()
    skill = np.full(joint.model.n_pairs, 0.6)
    values = [joint.log_likelihood(skill)]
    for _ in range(30):
        skill = joint.fit(skill, max_iter=1)
        values.append(joint.log_likelihood(skill))
    assert (np.diff(values) >= -1e-9).all()
    top = joint.fit(skill, max_iter=5000, tol=1e-10)
    best = minimize(lambda s: -joint.log_likelihood(s), top, bounds=[(1e-9, 1 - 1e-9)] * joint.model.n_pairs)
    assert joint.log_likelihood(top) >= -best.fun - 1e-5


def test_skill_is_accuracy_where_all_items_have_as_many_options():
    coin = Coin.of(simulate(0, options=4).annotations)
    skill = np.linspace(0, 1, coin.n_pairs)
    beta = coin.expertise(skill)
    np.testing.assert_allclose(beta + (1 - beta) / 4, skill)
    np.testing.assert_allclose(coin.skill(beta), skill)


def test_fixed_pairs_and_pairs_without_annotations_stay_where_they_are():
    made = table([0, 1], [0, 1], [0, 1], n_items=2, n_annotators=3, options=2)
    joint = JointLikelihood(made, np.log([[0.9, 0.1], [0.9, 0.1]]), Coin.of(made))
    found = joint.fit(np.array([0.7, 0.8, 0.6]), fixed=np.array([False, True, False]))
    assert found[1] == 0.8
    assert found[2] == 0.6
    assert found[0] > 0.9


class Habit:
    """An annotator model in a few lines: beta [y=k] + (1-beta) xi(y), the habits xi (annotators, options) fixed."""

    def __init__(self, annotations, habits):
        self.annotator, self.n_labels = annotations.annotator, habits.shape[1]
        self.row = annotations.annotator.astype(np.int64) * self.n_labels + annotations.label
        self.guess = habits.ravel()

    def evidence(self, parameters):
        by_habit = np.repeat(1 - parameters, self.n_labels) * self.guess
        return LabelEvidence(np.log(np.repeat(parameters, self.n_labels) + by_habit), np.log(by_habit), self.row)

    def update(self, parameters, posterior, position):
        beta = parameters[self.annotator]
        knew = posterior.ravel()[position] * beta / (beta + (1 - beta) * self.guess[self.row])
        return np.bincount(self.annotator, knew) / np.bincount(self.annotator)


def test_another_annotator_model_is_its_evidence_and_its_update():
    crowd = simulate(0, annotators=6, labels_each=60, options=3)
    made, start = crowd.annotations, np.full(6, 0.5)
    habits = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    joint = JointLikelihood(made, crowd.log_probs, Habit(made, habits))
    steps = [joint.fit(start, max_iter=n) for n in range(1, 20)]
    assert (np.diff([joint.log_likelihood(beta) for beta in steps]) >= -1e-9).all()
    even = JointLikelihood(made, crowd.log_probs, Habit(made, np.full((6, 3), 1 / 3)))
    coin = Coin.of(made)
    paper = JointLikelihood(made, crowd.log_probs, coin)
    assert even.log_likelihood(start) == pytest.approx(paper.log_likelihood(coin.skill(0.5)), rel=1e-12)
    beta = coin.expertise(paper.fit(coin.skill(0.5), max_iter=5000, tol=1e-12))
    assert (beta > 0).all(), "a habit cannot be worse than chance"
    np.testing.assert_allclose(even.fit(start, max_iter=5000, tol=1e-12), beta, atol=1e-6)


def test_confusion_matrices_are_an_annotator_model_too():
    crowd = simulate(1, annotators=6, labels_each=100, options=3)
    made = crowd.annotations
    matrices = ConfusionMatrices(annotation_arrays(made.item, made.annotator, made.label, 3), smoothing=1.0)
    joint = JointLikelihood(made, crowd.log_probs, matrices)
    start = matrices.update(np.empty(0), np.exp(crowd.log_probs), joint.position)
    fitted = joint.fit(start, max_iter=500)
    assert joint.log_likelihood(fitted) > joint.log_likelihood(start)
    accuracy = fitted.reshape(6, 3, 3).trace(axis1=1, axis2=2) / 3
    np.testing.assert_allclose(accuracy, crowd.accuracy, atol=0.15)
