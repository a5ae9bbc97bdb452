"""What the untrained model says of the items is used where it is worth something, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.engine import log_softmax
from realm.crowd.model import AnnotatorModel
from realm.training.opinion import agreement, opinion, without_label_bias
from tests.crowd.crowds import coins, labelled, mixtures, table
from tests.tiny import crowd
from tests.trainers import DEFAULT, trainer


def answers(seed: int, truth: np.ndarray, options: int, accuracy: float, claimed: float) -> np.ndarray:
    """log P of a model that is right with one probability and claims another. (items, K)"""
    rng = np.random.default_rng(seed)
    wrong = (truth + rng.integers(1, options, len(truth))) % options
    favourite = np.where(rng.random(len(truth)) < accuracy, truth, wrong)
    return np.log(np.where(np.arange(options) == favourite[:, None], claimed, (1 - claimed) / (options - 1)))


@pytest.mark.parametrize("per_item", [1, 3])
def test_a_model_that_knows_something_has_an_opinion_and_one_that_guesses_has_none(per_item) -> None:
    """Of 100 models that guess one passes at most, even where annotators have habits and label each item alone."""
    false = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=600 // per_item)
        people = mixtures(rng.uniform(0.2, 0.9, 12), rng.dirichlet(np.full(3, 1.5), 12))
        annotations = labelled(seed, truth, people, per_item)
        guesses = without_label_bias(annotations, log_softmax(2 * rng.normal(size=(len(truth), 3))))
        false += agreement(annotations, guesses.argmax(axis=1))[0] > 0
        if seed < 3:
            log_probs, sentence = opinion(annotations, answers(seed, truth, 3, 0.75, 0.9))
            assert log_probs is not None and "agrees with" in sentence
    assert false <= 1


def test_label_bias_is_taken_off_where_a_task_has_one_label_set() -> None:
    truth = np.random.default_rng(1).integers(3, size=90)
    annotations = labelled(1, truth, coins([0.9, 0.8, 0.7], 3), 3)
    plain = answers(1, truth, 3, 0.8, 0.8)
    biased = log_softmax(plain + np.array([3.0, 0.0, -1.0]))
    assert (biased.argmax(axis=1) == 0).mean() > 0.9
    found = without_label_bias(annotations, biased)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-9)
    assert (found.argmax(axis=1) == plain.argmax(axis=1)).mean() > 0.8
    own = table([0, 1], [0, 0], [0, 1], n_items=2, n_annotators=1, options=[2, 3])
    np.testing.assert_array_equal(without_label_bias(own, biased[:2]), biased[:2])  # an option of each item's own


def test_an_opinion_solves_a_pool_that_is_mostly_wrong(tiny_model, tmp_path, monkeypatch) -> None:
    """At K=2 two of three annotators who lie outvote the third: only the opinion tells which labelling is true."""
    annotations = crowd(600, (0.9, 0.1, 0.1), labels=2)
    truth = annotations.gold
    made = trainer(tiny_model("bert"), annotations.without_gold(), tmp_path, **DEFAULT, max_steps=1)
    made.scorer.new_head = False
    log_probs = answers(3, truth, 2, 0.65, 0.9)
    monkeypatch.setattr(type(made), "score_training_items", lambda *_, **__: type("S", (), {"log_probs": log_probs})())
    made._start_channel()
    assert "agrees with 1 of 3 annotators" in made.notes[0] and "expertise starts from that" in made.notes[0]
    accuracy = made.channel.summary()["accuracy_trained"][:, 0]
    np.testing.assert_allclose(accuracy, [0.9, 0.1, 0.1], atol=0.08)
    blind = AnnotatorModel(annotations.without_gold()).fit().summary()["accuracy_trained"][:, 0]
    assert blind[0] < 0.3 < 0.7 < blind[1]


def test_a_new_head_has_no_opinion(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path, **DEFAULT, max_steps=1)
    assert made.scorer.new_head and made._opinion_log_probs() is None and made.notes == []
