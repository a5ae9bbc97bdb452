"""What the untrained model says of the items is used where it is worth something, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm.channels import channel_class
from realm.crowd.evidence import log_softmax_rows
from realm.training.channel_fit import ChannelFit
from realm.training.opinion import Opinion, find_opinion, known_beforehand, without_label_bias
from tests.crowd.crowds import coins, labelled, mixtures, table


def answers(seed: int, truth: np.ndarray, options: int, accuracy: float, claimed: float) -> np.ndarray:
    """log P of a model that is right with one probability and claims another. (items, K)"""
    rng = np.random.default_rng(seed)
    wrong = (truth + rng.integers(1, options, len(truth))) % options
    favourite = np.where(rng.random(len(truth)) < accuracy, truth, wrong)
    return np.log(np.where(np.arange(options) == favourite[:, None], claimed, (1 - claimed) / (options - 1)))


@pytest.mark.parametrize("per_item", [1, 3])
def test_a_model_that_knows_something_has_an_opinion_and_one_that_guesses_has_none(per_item) -> None:
    """Of 20 models that guess none passes, even where annotators differ in their habits and label each item alone."""
    false = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=300 // per_item)
        people = mixtures(rng.uniform(0.2, 0.9, 12), rng.dirichlet(np.full(3, 1.5), 12))
        annotations = labelled(seed, truth, people, per_item)
        own = channel_class("confusion").from_annotations(annotations)
        guesses = log_softmax_rows(2 * rng.normal(size=(len(truth), 3)))
        false += find_opinion(own, annotations, guesses).significant
        if seed < 3:
            opinion = find_opinion(own, annotations, answers(seed, truth, 3, 0.75, 0.9))
            assert opinion.significant and "agrees with" in opinion.sentence
    assert false == 0


def test_the_temperature_brings_claims_to_what_they_are_worth() -> None:
    truth = np.random.default_rng(0).integers(2, size=800)
    annotations = labelled(0, truth, coins([0.9, 0.8, 0.7, 0.6], 2), 4)
    channel = channel_class("uniform").from_annotations(annotations)
    before = channel.omega.clone()
    opinion = find_opinion(channel, annotations, answers(0, truth, 2, 0.7, 0.99))
    assert torch.equal(channel.omega, before)
    # log-odds of 4.6 are worth log(.7 / .3) = .85
    assert opinion.temperature in (5.0, 8.0)
    assert float(opinion.log_probs.exp().max(dim=1).values.mean()) == pytest.approx(0.7, abs=0.07)
    fair = find_opinion(channel, annotations, answers(0, truth, 2, 0.7, 0.7))
    assert fair.temperature in (0.7, 1.0, 1.5)


def test_label_bias_is_taken_off_where_a_task_has_one_label_set() -> None:
    truth = np.random.default_rng(1).integers(3, size=90)
    annotations = labelled(1, truth, coins([0.9, 0.8, 0.7], 3), 3)
    plain = answers(1, truth, 3, 0.8, 0.8)
    biased = log_softmax_rows(plain + np.array([3.0, 0.0, -1.0]))
    assert (biased.argmax(axis=1) == 0).mean() > 0.9
    found = without_label_bias(annotations, biased)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-9)
    assert (found.argmax(axis=1) == plain.argmax(axis=1)).mean() > 0.8
    own = table([0, 1], [0, 0], [0, 1], n_items=2, n_annotators=1, options=[2, 3])
    np.testing.assert_array_equal(without_label_bias(own, biased[:2]), biased[:2])  # an option of each item's own


def test_an_opinion_and_a_confusion_matrix_solve_a_pool_that_is_mostly_wrong() -> None:
    """At K=2 two of three annotators who lie outvote the third: only the opinion tells which labelling is true."""
    truth = np.random.default_rng(2).integers(2, size=600)
    annotations = labelled(2, truth, coins([0.9, 0.1, 0.1], 2), 3)
    channel = channel_class("confusion").from_annotations(annotations)
    opinion = find_opinion(channel, annotations, answers(3, truth, 2, 0.65, 0.9))
    assert opinion.significant and opinion.agreeing == 1 and opinion.annotators == 3
    assert "agrees with 1 of 3 annotators" in opinion.sentence and "expertise starts from that" in opinion.sentence
    known = known_beforehand(annotations, opinion)
    fit = ChannelFit(channel, annotations)
    fit.fit(known)
    posterior = (fit.known(known) + fit.item_sums(fit.evidence())).argmax(dim=1).numpy()
    assert (posterior == truth).mean() > 0.93
    accuracy = channel.summary()["accuracy_trained"][:, 0]
    np.testing.assert_allclose(accuracy, [0.9, 0.1, 0.1], atol=0.06)
    without = channel_class("confusion").from_annotations(annotations)
    blind = ChannelFit(without, annotations)
    blind.fit(known_beforehand(annotations, None))
    assert ((blind.class_shares + blind.item_sums(blind.evidence())).argmax(dim=1).numpy() == truth).mean() < 0.3


def test_gold_is_known_whatever_the_opinion_says() -> None:
    from dataclasses import replace

    annotations = table([0, 1, 2], [0, 1, 0], [0, 1, 1], n_items=3, n_annotators=2, options=2)
    annotations = replace(annotations, gold=np.array([1, -1, -1], np.int32))
    log_probs = torch.full((3, 2), 0.5).double().log()
    doubtful = Opinion(log_probs, 1.0, 0.0, 1.0, 0, 2)
    assert not doubtful.significant and doubtful.sentence.startswith("opinion: not used")
    known = known_beforehand(annotations, doubtful)
    assert known[0].tolist() == [float("-inf"), 0.0] and known[1:].isnan().all()
    sure = Opinion(log_probs, 1.0, 100.0, 0.0, 2, 2)
    assert torch.equal(known_beforehand(annotations, sure)[1:], log_probs[1:])
