"""A weight counts an annotation as often; weights of 1 change nothing; soft labels are weighted annotations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from realm.channels import HabitChannel, UniformChannel
from realm.training.labels import training_labels
from tests.tiny import crowd
from tests.trainers import trainer, trajectory


def repeated(table, times: np.ndarray):
    """The table with each annotation as often as `times` says."""
    index = np.repeat(np.arange(table.n_annotations), times)
    return replace(table, item=table.item[index], annotator=table.annotator[index], label=table.label[index])


@pytest.mark.parametrize("settings", [{}, {"objective": "joint"}, {"expertise_update": "em"}], ids=str)
@pytest.mark.parametrize("channel", ["uniform", "habit"])
def test_a_weight_of_two_is_the_annotation_twice(channel, settings, tiny_model, tmp_path) -> None:
    table = crowd(40, per_item=2)
    times = np.random.default_rng(0).integers(1, 3, size=table.n_annotations)
    runs = []
    for each in (replace(table, weight=times.astype(float)), repeated(table, times)):
        # Without counts there is no prior, whose strength is in annotations, not in weights.
        made = UniformChannel(3) if channel == "uniform" else HabitChannel(3, options=4)
        runs.append(trajectory(
            trainer(tiny_model("bert"), each, tmp_path, double=True, max_steps=5, channel=made, **settings)
        ))  # fmt: skip
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=1e-9)
    np.testing.assert_allclose(runs[1][1], runs[0][1], rtol=1e-6, atol=1e-8)


def test_weights_of_one_change_nothing(tiny_model, tmp_path) -> None:
    table = crowd(40, per_item=2)
    runs = [
        trajectory(trainer(tiny_model("bert"), each, tmp_path, max_steps=5))
        for each in (table, replace(table, weight=np.ones(table.n_annotations)))
    ]
    np.testing.assert_array_equal(runs[1][0], runs[0][0])
    np.testing.assert_array_equal(runs[1][1], runs[0][1])


@pytest.mark.parametrize("method", ["majority", "dawid-skene", "oracle"])
def test_aggregated_labels_and_gold_have_no_weights_of_annotations(method) -> None:
    table = crowd(20)
    weighted = replace(table, weight=np.random.default_rng(0).random(table.n_annotations) + 0.1)
    assert training_labels(weighted, method).annotations.weight is None


def test_columns_of_different_lengths_are_refused() -> None:
    table = crowd(5)
    with pytest.raises(ValueError, match="equally long"):
        replace(table, weight=np.ones(3))
    with pytest.raises(ValueError, match="equally long"):
        replace(table, label=table.label[:2])


def test_soft_labels_are_weighted_annotations_under_the_identity(tiny_model, tmp_path) -> None:
    """K annotations per item with weights q: the loss is the cross-entropy between q and P."""
    table = crowd(10, accuracies=(0.9, 0.5, 0.4, 0.3))
    soft = np.random.default_rng(0).dirichlet(np.ones(4), size=10)
    every = replace(
        table, item=np.repeat(np.arange(10, dtype=np.int32), 4), annotator=np.zeros(40, dtype=np.int32),
        label=np.tile(np.arange(4, dtype=np.int32), 10), weight=soft.reshape(-1),
    )  # fmt: skip
    made = trainer(tiny_model("causal"), every, tmp_path, double=True, method="noisy")
    model = made.model.eval()
    (batch,) = made.get_train_dataloader()
    order = [int(index) // 4 for index in batch["annotation_index"][::4]]
    log_probs = model.scorer(batch)
    expected = -(torch.from_numpy(soft[order]) * log_probs).sum(dim=1).mean()
    loss = -model(**batch).sum() / model.count(batch)
    assert model.count(batch) == pytest.approx(10, rel=1e-6)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
