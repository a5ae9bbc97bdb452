"""The habit channel: the mixture with a guess of the annotator's own."""

from __future__ import annotations

import numpy as np
import torch

from realm.channels import HabitChannel, ItemScores, Observed


def test_the_evidence_against_the_formula() -> None:
    channel = HabitChannel(2, options=3, shares=[[0.5, 0.3, 0.2]]).double()
    with torch.no_grad():
        channel.omega[:, 0] = torch.tensor([0.4, -1.0])
        channel.habit_logits[1, 0] = torch.tensor([0.1, 0.7, 0.2]).log()
    scores = ItemScores(torch.full((2, 3), 1 / 3).double().log(), torch.tensor([3, 2]))
    item, annotator, label = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([2, 1, 0])
    observed = Observed(item, annotator, torch.zeros(3, dtype=torch.long), label, torch.ones(3).double())
    evidence = channel(scores, observed).detach().exp()
    one, other = torch.sigmoid(torch.tensor([0.4, -1.0], dtype=torch.float64)).tolist()
    expected = [
        [0.2 * (1 - one), 0.2 * (1 - one), one + 0.2 * (1 - one)],
        [0.7 * (1 - other), other + 0.7 * (1 - other), 0.7 * (1 - other)],
        [other + (1 - other) * 0.1 / 0.8, (1 - other) * 0.1 / 0.8],  # of an item without the third option
    ]
    np.testing.assert_allclose(evidence[:2], expected[:2], rtol=1e-6)
    np.testing.assert_allclose(evidence[2, :2], expected[2], rtol=1e-6)
