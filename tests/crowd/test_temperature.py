"""The temperature of a model's probabilities."""

from __future__ import annotations

import numpy as np

from realm import Annotations
from realm.crowd.engine import log_softmax
from realm.crowd.model import AnnotatorModel
from realm.crowd.temperature import fit_temperature

Floats = np.ndarray


def items_of(rng: np.random.Generator, n: int, options: int) -> tuple[Floats, Floats]:
    """log P that is calibrated, and truths drawn from it."""
    log_probs = log_softmax(rng.normal(size=(n, options)) * 1.5)
    truth = (np.exp(log_probs).cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return log_probs, np.minimum(truth, options - 1)


def test_a_sharpened_model_gets_its_factor_back() -> None:
    log_probs, truth = items_of(np.random.default_rng(0), 4000, 3)
    targets = np.eye(3)[truth]
    assert abs(fit_temperature(log_probs, targets) - 1.0) < 0.1
    assert abs(fit_temperature(3 * log_probs, targets) / 3 - 1) < 0.08


def test_it_is_never_below_one_and_one_without_items() -> None:
    log_probs, truth = items_of(np.random.default_rng(2), 500, 3)
    assert fit_temperature(0.3 * log_probs, np.eye(3)[truth]) == 1.0
    assert fit_temperature(np.zeros((0, 3)), np.zeros((0, 3))) == 1.0


def crowd(rng: np.random.Generator, truth: np.ndarray, accuracies: list[float], per_item: int) -> Annotations:
    n, options = len(truth), int(truth.max()) + 1
    item = np.repeat(np.arange(n), per_item)
    annotator = np.concatenate([rng.permutation(len(accuracies))[:per_item] for _ in range(n)])
    right = rng.random(len(item)) < np.array(accuracies)[annotator]
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, options, len(item))) % options)
    return Annotations.from_arrays(item, annotator, label, options)


def test_noise_of_annotators_does_not_soften_a_calibrated_model_out_of_fold() -> None:
    """Single labels are right three times in four; P is calibrated to the truth, and stays nearly as it is."""
    rng = np.random.default_rng(4)
    log_probs, truth = items_of(rng, 2000, 3)
    model = AnnotatorModel(crowd(rng, truth, [0.8, 0.75, 0.7, 0.75], 3)).fit(log_probs)
    bound = model.best_temperature(log_probs, in_sample=True)
    assert 1.0 <= model.best_temperature(log_probs) < 0.75 * bound  # what predicts single labels best is far softer
    sharpened = AnnotatorModel(model.annotations).fit(3 * log_probs).best_temperature(3 * log_probs)
    assert 2.0 < sharpened < 4.5


def test_annotators_who_do_not_read_have_no_say() -> None:
    """Two who invert every label would make P look wrong: at two options the bound is then the hottest there is."""
    rng = np.random.default_rng(5)
    log_probs, truth = items_of(rng, 1500, 2)
    table = crowd(rng, truth, [0.9, 0.1, 0.1], 1)
    model = AnnotatorModel(table).fit(log_probs)
    every_label = np.eye(2)[table.label]
    assert fit_temperature(log_probs[table.item], every_label) > 10
    assert model.best_temperature(log_probs, in_sample=True) < 2


def test_a_known_truth_is_its_own_target() -> None:
    rng = np.random.default_rng(6)
    log_probs, truth = items_of(rng, 3000, 3)
    table = crowd(rng, truth, [0.8, 0.7], 2)
    model = AnnotatorModel(table, gold=truth).fit(3 * log_probs)
    assert abs(model.best_temperature(3 * log_probs) / 3 - 1) < 0.08
