"""The picture of the channels shows what they give: its figures are fits to the annotator it speaks of."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from realm.channels import (
    Channel,
    ConfusionChannel,
    HabitChannel,
    IdentityChannel,
    ItemScores,
    Observed,
    UniformChannel,
)
from tests.contracts.modules import ROOT

FIGURE = re.compile(r'<text class="n[ w]*"[^>]*>([\d.]+)</text>')
ANNOTATOR = np.array([[0.60, 0.35, 0.05], [0.05, 0.90, 0.05], [0.05, 0.65, 0.30]])
"""P(label | truth) of the picture's annotator: answers neutral too often, and takes most positive items for neutral."""
LABELS = 10_000
"""Labels for each truth: the priors then change no figure."""
UPDATES = 300
"""More than the alternation of expertise and habit needs."""


def fitted(channel: Channel) -> np.ndarray:
    """P(label | truth) after closed-form updates on the annotator's labels, all truths known. (truth, label)"""
    truth, label = (torch.from_numpy(indices.ravel()) for indices in np.indices(ANNOTATOR.shape))
    scores = ItemScores(torch.full((9, 3), -1e9).double().scatter(1, truth[:, None], 0.0), torch.full((9,), 3))
    weight = torch.from_numpy(LABELS * ANNOTATOR.ravel())
    nobody = torch.zeros(9, dtype=torch.long)
    observed = Observed(torch.arange(9), nobody, nobody, label, weight)
    for _ in range(UPDATES if channel.can("update") else 0):
        channel.update(scores, observed)
    evidence = channel.evidence(scores, observed).detach()
    return evidence[torch.arange(9), truth].exp().numpy().reshape(3, 3)


def test_the_picture_shows_what_each_channel_gives() -> None:
    shown = [float(figure) for figure in FIGURE.findall((ROOT / "docs" / "pictures" / "channels.svg").read_text())]
    channels = [IdentityChannel(), UniformChannel(1), HabitChannel(1, options=3), ConfusionChannel(1, options=3)]
    assert len(shown) == 9 * len(channels)
    for channel, figures in zip(channels, np.reshape(shown, (-1, 3, 3)), strict=True):
        assert fitted(channel) == pytest.approx(figures, abs=0.0051), type(channel).__name__
