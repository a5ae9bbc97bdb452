"""A weight counts an annotation as often; weights of 1 change nothing; soft labels are weighted annotations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from realm.channels import HabitChannel, UniformChannel
from realm.crowd.aggregation import aggregate
from realm.methods import METHODS
from realm.training import labels
from realm.training.labels import LEAST_WEIGHT, training_labels
from tests.tiny import crowd
from tests.trainers import trainer, trajectory

SOFT = [name for name, method in METHODS.items() if method.soft]


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


@pytest.mark.parametrize("method", SOFT)
def test_soft_labels_are_the_posterior_as_weights(method) -> None:
    table = crowd(40, (0.9, 0.5, 0.4, 0.3))
    made = training_labels(table, method).annotations
    posterior = aggregate(table, METHODS[method].labels).posterior
    weights = np.zeros_like(posterior)
    weights[made.item, made.label] = made.weight
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights, posterior, atol=4 * LEAST_WEIGHT)
    assert (made.weight >= LEAST_WEIGHT).all() and (np.diff(made.item) >= 0).all()
    assert made.annotators == ("aggregate",) and made.gold is None


@pytest.mark.parametrize("method", SOFT)
def test_a_posterior_without_doubt_follows_the_hard_labels_exactly(method, tiny_model, tmp_path, monkeypatch) -> None:
    table = crowd(40, (0.9, 0.8, 0.7))
    hard = training_labels(table, METHODS[method].labels).annotations
    monkeypatch.setattr(
        labels, "aggregate", lambda *args, **more: replace(aggregate(*args, **more), posterior=np.eye(4)[hard.label])
    )
    runs = [
        trainer(tiny_model("bert"), table, tmp_path, max_steps=5, method=name)
        for name in (METHODS[method].labels, method)
    ]
    losses = [trajectory(run)[0] for run in runs]
    np.testing.assert_array_equal(losses[1], losses[0])
    for one, other in zip(*(run.model.parameters() for run in runs), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("equal", [True, False], ids=["as many labels each", "not as many"])
def test_soft_majority_is_noisy_where_all_items_have_as_many_labels(equal, tiny_model, tmp_path) -> None:
    """The shares of an item's votes against its votes: the same mean, unless items count by their annotations."""
    table = crowd(40, (0.9, 0.5, 0.4, 0.3), per_item=3)
    if not equal:
        table = table.keep_annotations((np.arange(table.n_annotations) % 3 > 0) | (table.item < 20))
    runs = [
        trajectory(trainer(tiny_model("bert"), table, tmp_path, double=True, max_steps=5, method=name))[0]
        for name in ("noisy", "soft-majority")
    ]
    difference = np.abs(runs[1] / runs[0] - 1).max()
    assert difference < 1e-6 if equal else difference > 1e-4, difference


def test_gold_in_use_takes_the_place_of_soft_labels() -> None:
    table = crowd(40, (0.9, 0.5, 0.4))
    some = replace(table, gold=np.where(np.arange(40) < 10, table.gold, -1).astype(np.int32))
    made = training_labels(some, "soft-majority", use_gold=True).annotations
    assert made.item.min() == 10 and (made.gold[:10] >= 0).all()


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
