"""The chance level that annotators are held against, and the verdicts that follow from their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.coin import chance_of

from .crowds import mixed, table


def test_chance_is_what_always_giving_the_most_frequent_label_scores():
    """90% negative by the posterior: whoever always says so is right 90% of the time, and no coin is meant."""
    made = table(np.repeat(np.arange(10), 2), np.tile([0, 1], 10), [0] * 20, n_items=10, n_annotators=3, options=2)
    posterior = np.tile([0.9, 0.1], (10, 1))
    posterior[0] = [0.0, 1.0]
    np.testing.assert_allclose(chance_of(made, posterior)[:2], 0.81)
    assert np.isnan(chance_of(made, posterior)[2]), "no annotations"


def test_chance_is_never_below_drawing_lots():
    """Who got rare items only could still draw lots among the options."""
    made = table([0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0], n_items=4, n_annotators=2, options=4)
    posterior = np.eye(4)[[0, 0, 1, 1]] * 0.97 + 0.0075
    posterior[0] = [1.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(chance_of(made, posterior), [(1 + 0.9775) / 2, 0.25])


@pytest.mark.parametrize("seed", range(3))
def test_chance_agrees_with_one_annotator_at_a_time(seed):
    made = mixed(seed).annotations
    rng = np.random.default_rng(seed)
    posterior = np.where(np.arange(4) < made.option_counts[:, None], rng.random((made.n_items, 4)), 0.0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    found = chance_of(made, posterior).reshape(made.n_annotators, len(made.tasks))
    for task in range(len(made.tasks)):
        frequent = posterior[made.item_tasks == task].sum(axis=0).argmax()
        for annotator in range(made.n_annotators):
            items = made.item[(made.annotator == annotator) & (made.item_tasks[made.item] == task)]
            expected = max(posterior[items, frequent].mean(), (1 / made.option_counts[items]).mean())
            assert found[annotator, task] == pytest.approx(expected)
