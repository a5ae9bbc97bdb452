"""The identity channel: every annotator gives the true label (beta = 1)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from realm.channels.base import Channel, ItemScores, Observed
from realm.data import Annotations


class IdentityChannel(Channel):
    """`P(label = y | truth = k) = [y = k]`: cross-entropy over the restricted softmax.

    What aggregated labels and gold are trained with; it has no parameters. Labels of one item that contradict each
    other are impossible under it taken together, so it goes with the `paper` objective.
    """

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        return cls(**settings)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        options = torch.arange(scores.log_probs.shape[1], device=observed.label.device)
        impossible = scores.log_probs.new_full((len(observed.label), len(options)), float("-inf"))
        return impossible.masked_fill(options == observed.label[:, None], 0.0)
