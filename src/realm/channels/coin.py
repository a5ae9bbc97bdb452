"""The coin channel: an annotator is right with probability a, which may lie below chance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import Channel, ItemScores, Observed
from realm.data import Annotations

LEAST = 1e-6
"""Accuracies are kept this far from 0 and 1, so that their log-odds stay within +-14."""


class CoinChannel(Channel):
    """`P(label = y | truth = k) = a [y = k] + (1 - a) / (K_Q - 1) [y != k]`, a the annotator's accuracy, by gradient.

    a = sigmoid(accuracy_logits[annotator, task]). Dawid and Skene's matrix with one number, and the signed coin of
    ILEED (Beliaev et al. 2022). With a >= 1/K it is `UniformChannel` with beta = (a K - 1) / (K - 1); below, beta is
    negative: the annotator is wrong more often than a guess would be, and their label counts against itself. At K = 2
    the labels of all annotators fit the flipped truth as well as the true one, so something must say which it is
    (`needs_anchor`): gold in use, an expert, an earlier estimate, or the model's opinion.

    Every annotator begins at expertise sigmoid(`start`), which lies above chance; `options` is K, the most options of
    any item, `chance` (tasks,) the mean 1/K of a task's items; None for 1/`options`.
    """

    chance: Tensor

    def __init__(
        self,
        annotators: int,
        tasks: int = 1,
        start: float = 0.0,
        shared_tasks: bool = False,
        *,
        options: int,
        chance: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(annotators, tasks, shared_tasks)
        self.options = options
        shares = np.full(tasks, 1 / options) if chance is None else np.asarray(chance, dtype=np.float64)
        shares = shares.mean(keepdims=True) if shared_tasks else shares
        self.register_buffer("chance", torch.tensor(shares), persistent=False)
        self.accuracy_logits = nn.Parameter(torch.zeros(self.touched.shape))
        self.start_from(torch.full((annotators, tasks), float(start), dtype=torch.float64).sigmoid())

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        tasks, options = len(annotations.tasks), int(annotations.option_counts.max(initial=2))
        counts = np.bincount(annotations.item_tasks, minlength=tasks)
        shares = np.bincount(annotations.item_tasks, 1 / annotations.option_counts, minlength=tasks)
        chance = np.where(counts > 0, shares / np.maximum(counts, 1), 1 / options)
        return super().from_annotations(annotations, **{"options": options, "chance": chance, **settings})

    def needs_anchor(self, annotations: Annotations) -> bool:
        return can_be_flipped(annotations)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        log_odds = self.accuracy_logits[observed.annotator, self.column(observed.task)]
        others = (scores.option_counts[observed.item] - 1).clamp(min=1).to(log_odds.dtype)
        right, wrong = logsigmoid(log_odds), logsigmoid(-log_odds) - others.log()
        options = torch.arange(scores.log_probs.shape[1], device=log_odds.device)
        return torch.where(options == observed.label[:, None], right[:, None], wrong[:, None])

    def start_from(self, expertise: Tensor) -> None:
        """Begin at a = beta + (1 - beta) / K; beta may be negative, down to -1 / (K - 1)."""
        beta = expertise.to(self.accuracy_logits.device, torch.float64)
        beta = beta.nanmean(dim=1, keepdim=True) if self.shared_tasks else beta
        self.set_known(self.accuracy_logits, (beta + (1 - beta) * self.chance).clamp(LEAST, 1 - LEAST).logit())

    def summary(self) -> dict[str, Any]:
        """`expertise_trained`, on the scale of beta (negative below chance), and `accuracy_trained`, a itself."""
        accuracy = self.accuracy_logits.detach().double().sigmoid()
        expertise = (accuracy - self.chance) / (1 - self.chance)
        return {"expertise_trained": self._per_task(expertise), "accuracy_trained": self._per_task(accuracy)}


def can_be_flipped(annotations: Annotations) -> bool:
    """Whether an item has two options: swapping them explains one-coin annotators equally well."""
    return bool((annotations.option_counts[annotations.item] == 2).any())
