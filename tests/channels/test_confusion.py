"""The confusion channel: a matrix per annotator, drawn to the habit mixture."""

from __future__ import annotations

import numpy as np
import torch

from realm.channels import ConfusionChannel, HabitChannel, ItemScores, Observed
from tests.tiny import crowd


def test_without_deviations_it_is_the_habit_channel() -> None:
    table = crowd(10, (0.9, 0.4))
    scores = ItemScores(torch.randn(10, 4).log_softmax(1), torch.full((10,), 4))
    channels = [kind.from_annotations(table, start=0.7) for kind in (HabitChannel, ConfusionChannel)]
    one, other = (channel(scores, Observed.of(table)) for channel in channels)
    torch.testing.assert_close(one, other)


def test_the_closed_form_update_finds_who_mistakes_what_for_what() -> None:
    """One annotator is careful, one calls every 1 a 2, one guesses; P is right on nine of ten."""
    generator = np.random.default_rng(0)
    n, k = 600, 3
    truth = generator.integers(k, size=n)
    labels = np.stack([
        np.where(generator.random(n) < 0.95, truth, generator.integers(k, size=n)),
        np.where(truth == 1, 2, truth),
        generator.integers(k, size=n),
    ])  # fmt: skip
    probabilities = np.where(truth[:, None] == np.arange(k), 0.9, 0.05)
    item = torch.arange(n).repeat(3)
    observed = Observed(
        item, torch.arange(3).repeat_interleave(n), torch.zeros_like(item), torch.from_numpy(labels.reshape(-1)),
        torch.ones(3 * n),
    )  # fmt: skip
    channel = ConfusionChannel(3, options=k)
    scores = ItemScores(torch.tensor(probabilities).log(), torch.full((n,), k))
    for _ in range(30):
        channel.update(scores, observed, (1.5, 1.5))
    every = Observed(
        torch.zeros(9, dtype=torch.long), torch.arange(3).repeat_interleave(3), torch.zeros(9, dtype=torch.long),
        torch.arange(3).repeat(3), torch.ones(9),
    )  # fmt: skip
    one_item = ItemScores(scores.log_probs[:1], scores.option_counts[:1])
    matrices = (
        channel(one_item, every).exp().reshape(3, 3, 3).transpose(1, 2).detach().numpy()
    )  # annotator, truth, label
    empirical = np.array(
        [[[np.mean(labels[a][truth == t] == y) for y in range(k)] for t in range(k)] for a in range(3)]
    )
    np.testing.assert_allclose(matrices, empirical, atol=0.06)
    accuracy = channel.summary()["accuracy_trained"][:, 0]
    np.testing.assert_allclose(accuracy, empirical.diagonal(axis1=1, axis2=2).mean(axis=1), atol=0.05)


def test_the_accuracy_of_a_task_is_over_its_own_options() -> None:
    """A task of two options beside one of five: at beta and even habits the accuracy is beta + (1 - beta) / K."""
    shares = [[0.5, 0.5, 0.0, 0.0, 0.0], [0.2] * 5]
    channel = ConfusionChannel(1, 2, options=5, shares=shares, counts=[[10, 10]])
    with torch.no_grad():
        channel.omega.fill_(1.0)
    beta = torch.sigmoid(torch.tensor(1.0)).item()
    expected = [beta + (1 - beta) / k for k in (2, 5)]
    np.testing.assert_allclose(channel.summary()["accuracy_trained"][0], expected, rtol=1e-3)


def test_few_labels_leave_the_matrix_near_the_habit_mixture() -> None:
    observed = Observed(*(torch.tensor([0]) for _ in range(4)), torch.ones(1))
    scores = ItemScores(torch.tensor([[0.5, 0.5]]).double().log(), torch.tensor([2]))
    channel, habit = ConfusionChannel(1, options=2), HabitChannel(1, options=2)
    for each in (channel, habit):
        each.update(scores, observed, (1.5, 1.5))
    difference = channel(scores, observed).exp() - habit(scores, observed).exp()
    assert 0 < float(difference.abs().max().detach()) < 0.15
