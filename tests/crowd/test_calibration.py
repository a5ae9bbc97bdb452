from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from realm.crowd.calibration import labels_temperature, temperature, tempered
from realm.crowd.estimate import estimate
from realm.data import Annotations

from .crowds import simulate


@pytest.mark.parametrize("distortion", [0.4, 1.0, 3.0])
def test_the_temperature_that_undoes_a_distortion_is_found_from_agreement(distortion):
    crowd = simulate(0, annotators=20, labels_each=600, per_item=4, options=3, sharpness=1.0)
    claimed = tempered(crowd.log_probs, distortion)
    assert temperature(crowd.annotations, claimed) == pytest.approx(1 / distortion, rel=0.15)


def test_an_overconfident_model_ruins_the_cleaned_labels_and_its_temperature_mends_them():
    crowd = simulate(1, annotators=20, labels_each=200, per_item=3, options=3, sharpness=1.0)
    sure = tempered(crowd.log_probs, 0.1)

    def right(log_probs) -> float:
        return float(np.mean(estimate(crowd.annotations, log_probs).posterior.argmax(axis=1) == crowd.truth))

    mended = tempered(sure, temperature(crowd.annotations, sure))
    assert right(sure) < right(crowd.log_probs) - 0.1
    assert right(mended) > right(crowd.log_probs) - 0.01


@pytest.mark.parametrize("seed", range(6))
def test_a_handful_of_items_with_two_labels_hardly_changes_a_calibrated_model(seed):
    crowd = simulate(seed, annotators=4, labels_each=150, per_item=1, options=2, sharpness=0.5)
    more = simulate(seed, annotators=4, labels_each=15, per_item=2, options=2, sharpness=0.5)
    both = crowd.annotations.to_pandas(), more.annotations.to_pandas()
    both[1]["item"] = "again " + both[1]["item"].astype(str)
    both[1]["text"] = both[1]["item"]
    table = Annotations.from_pandas(pd.concat(both), labels=list(crowd.annotations.tasks[0].labels))
    assert 0.8 < temperature(table, np.concatenate([crowd.log_probs, more.log_probs])) < 1.25


def test_with_one_label_per_item_nothing_can_be_said():
    crowd = simulate(0, per_item=1)
    assert temperature(crowd.annotations, crowd.log_probs) == 1.0


def test_tempering_keeps_impossible_options_impossible():
    found = np.exp(tempered(np.array([[np.log(0.8), np.log(0.2), -np.inf]]), 2.0))
    np.testing.assert_allclose(found, [[2 / 3, 1 / 3, 0.0]])


def test_the_temperature_of_labels_is_the_best_of_a_grid_and_never_sharpens():
    rng = np.random.default_rng(2)
    log_probs = np.log(rng.dirichlet(np.ones(3), 300))
    log_probs[:50, 2] = -np.inf  # items of two options
    item = rng.integers(300, size=900)
    probs = np.exp(tempered(log_probs, 1.0))
    label = np.array([rng.choice(3, p=row) for row in probs[item]])
    weight = rng.random(900)

    def loss(sharp, at):
        chosen = np.maximum(tempered(sharp, at)[item, label], np.log(1e-6))
        return -(weight * chosen).sum()

    for distortion in (0.2, 0.5):  # sharper than the labels bear out
        sharp = tempered(log_probs, distortion)
        grid = np.exp(np.linspace(0, np.log(20), 400))
        best = grid[np.argmin([loss(sharp, at) for at in grid])]
        assert best > 1.5
        assert labels_temperature(sharp, item, label, weight) == pytest.approx(best, rel=0.02)
    assert labels_temperature(tempered(log_probs, 3.0), item, label, weight) == 1.0
    assert labels_temperature(log_probs, item[:0], label[:0], weight[:0]) == 1.0
    impossible = np.log(np.array([[1.0, 0.0]]) + 1e-300)
    assert 1.0 <= labels_temperature(impossible, np.zeros(3, int), np.array([0, 0, 1]), np.ones(3)) <= 20.0
