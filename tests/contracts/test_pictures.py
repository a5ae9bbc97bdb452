"""The picture of the channels shows what they give: its figures are fits to the annotator it speaks of."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from realm.channels import ConfusionChannel, IdentityChannel, ItemScores, Observed
from tests.contracts.modules import ROOT
from tests.crowd.crowds import table

FIGURE = re.compile(r'<text class="n[ w]*"[^>]*>([\d.]+)</text>')
ANNOTATOR = np.array([[0.60, 0.35, 0.05], [0.05, 0.90, 0.05], [0.05, 0.65, 0.30]])
"""P(label | truth) of the picture's annotator: answers neutral too often, and takes most positive items for neutral."""
LABELS = 10_000
"""Labels for each truth: the priors then change no figure."""


def fitted(form: str) -> np.ndarray:
    """P(label | truth) of an annotator model fitted to the annotator's labels, all truths known. (truth, label)"""
    truth, label = (indices.ravel() for indices in np.indices(ANNOTATOR.shape))
    labelled = table(np.arange(9), np.zeros(9, int), label, n_items=9, n_annotators=1, options=3)
    labelled = replace(labelled, weight=LABELS * ANNOTATOR.ravel(), gold=truth.astype(np.int32))
    scores = ItemScores(torch.full((9, 3), float("nan")).double(), torch.full((9,), 3))
    observed = Observed.of(labelled)
    channel = IdentityChannel() if form == "identity" else ConfusionChannel(labelled, form, gold=labelled.gold)
    if form != "identity":
        channel.fit(scores, labelled)
        for _ in range(20):
            channel.annotators.update(np.where(np.eye(3)[truth] > 0, 0.0, -50.0), steps=20)
        channel.load_state(channel.state())
    evidence = channel.evidence(ItemScores(torch.zeros(9, 3), torch.full((9,), 3)), observed)
    return evidence[torch.arange(9), torch.from_numpy(truth)].exp().numpy().reshape(3, 3)


def test_the_picture_shows_what_each_channel_gives() -> None:
    shown = [float(figure) for figure in FIGURE.findall((ROOT / "docs" / "pictures" / "channels.svg").read_text())]
    channels = ["identity", "uniform", "habit", "confusion"]
    assert len(shown) == 9 * len(channels)
    for channel, figures in zip(channels, np.reshape(shown, (-1, 3, 3)), strict=True):
        assert fitted(channel) == pytest.approx(figures, abs=0.015), channel
