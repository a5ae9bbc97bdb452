"""The call that users of cleanlab know: a label matrix and a model's probabilities in, consensus labels out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from realm import Annotations, estimate
from tests.crowd.crowds import coins, mixtures

multiannotator = pytest.importorskip("cleanlab.multiannotator")


def example(seed: int, matrices: np.ndarray, per_item: int, sharpness: float = 0.6):
    """A DataFrame (items, annotators) with NaN where nobody was asked, out-of-sample probabilities, and the truth."""
    rng = np.random.default_rng(seed)
    people, options, _ = matrices.shape
    probs = rng.dirichlet(np.full(options, sharpness), 300)
    truth = np.minimum((probs.cumsum(axis=1) < rng.random(300)[:, None]).sum(axis=1), options - 1)
    chosen = matrices[:, truth].cumsum(axis=2) < rng.random((people, 300, 1))
    labels = np.minimum(chosen.sum(axis=2), options - 1).T.astype(float)
    labels[rng.random(labels.shape).argsort(axis=1).argsort(axis=1) >= per_item] = np.nan
    return pd.DataFrame(labels, columns=[f"a{i}" for i in range(people)]), probs, truth


CROWDS = {
    "alike": coins([0.8] * 6, 3),
    "mixed": coins([0.95, 0.85, 0.7, 0.55, 0.45, 0.35], 3),
    "one answer": mixtures([0.8, 0.8, 0.1, 0.1, 0.1], [[1 / 3] * 3] * 2 + [[0.1, 0.1, 0.8]] * 3),
    "two labels, one answer": mixtures([0.8, 0.7, 0.1, 0.1, 0.1], [[0.5, 0.5]] * 2 + [[0.9, 0.1]] * 3),
    "renamed": np.concatenate([coins([0.85] * 4, 4), coins([0.85] * 2, 4)[:, :, [1, 0, 3, 2]]]),
}


@pytest.mark.filterwarnings("ignore")
def test_the_same_call_gives_better_labels_on_more_tables() -> None:
    wins, losses = 0, 0
    for seed, matrices in enumerate(CROWDS.values()):
        for per_item in (2, 4):
            labels, probs, truth = example(seed, matrices, per_item)
            theirs = multiannotator.get_label_quality_multiannotator(labels, probs, verbose=False)["label_quality"]
            ours = estimate(Annotations.from_matrix(labels), probs)
            right = (ours.posterior.argmax(axis=1) == truth).mean(), (theirs["consensus_label"] == truth).mean()
            wins, losses = wins + (right[0] > right[1]), losses + (right[0] < right[1])
    assert wins > losses + 2, (wins, losses)


def test_a_label_matrix_is_a_table() -> None:
    labels, probs, _ = example(0, CROWDS["mixed"], 3)
    table = Annotations.from_matrix(labels)
    assert table.annotators == tuple(labels.columns) and table.n_items == 300
    assert table.n_annotations == int(labels.notna().sum().sum()) and table.tasks[0].labels == ("0", "1", "2")
    as_numbers = Annotations.from_matrix(labels.fillna(-1).to_numpy().astype(int))
    np.testing.assert_array_equal(as_numbers.label, table.label)
    assert estimate(table, probs).accuracy.shape == (6, 1)
