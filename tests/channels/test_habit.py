"""The habit channel: the mixture with a guess of the annotator's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from realm.channels import HabitChannel, ItemScores, Observed
from realm.data import Annotations
from tests.tiny import crowd


def test_habits_start_at_the_label_shares_of_the_task() -> None:
    table = crowd(30, labels=2)
    shares = np.bincount(table.label, minlength=2) + 1.0
    channel = HabitChannel.from_annotations(table)
    np.testing.assert_allclose(channel.habit_logits.softmax(2)[1, 0].detach(), shares / shares.sum(), rtol=1e-5)


def test_items_with_their_own_options_have_habits_over_positions() -> None:
    frame = pd.DataFrame({
        "text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["u", "v", "p", "p"],
        "options": [["u", "v"], ["u", "v"], ["p", "q", "r"], ["p", "q", "r"]],
    })  # fmt: skip
    table = Annotations.from_pandas(frame)
    channel = HabitChannel.from_annotations(table)
    assert channel.habit_logits.shape == (2, 1, 3)
    scores = ItemScores(torch.full((2, 3), 1 / 3).log(), torch.from_numpy(table.option_counts.astype(np.int64)))
    zeros = torch.zeros(3, dtype=torch.long)
    for item, options in ((0, 2), (1, 3)):
        every = Observed(
            zeros[:options] + item, zeros[:options], zeros[:options], torch.arange(options), torch.ones(options)
        )
        guesses = channel.log_guess(scores, every).exp()
        assert float(guesses.detach().sum()) == pytest.approx(1.0, rel=1e-6) and bool((guesses > 0).all())


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
