"""The confusion channel: a whole matrix per annotator, drawn towards their habit mixture."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import ItemScores, Observed
from realm.channels.habit import HabitChannel

SHRINKAGE = 4.0
"""Precision of the prior on deviations: 1 / 0.5^2, so that a factor of 1.6 either way is an ordinary deviation."""


class ConfusionChannel(HabitChannel):
    """P(label = y | truth = k) = C[k, y], each row a softmax of log(beta [y = k] + (1 - beta) xi(y)) + deviation[k, y].

    Dawid and Skene's matrix, one per annotator and task. A normal prior draws the deviations to 0, where the row is
    `HabitChannel`'s: free matrices collapse when there are many options. With deviations held at 0 it is
    `HabitChannel`, and with even habits `UniformChannel`.

    | argument | shape | meaning |
    |---|---|---|
    | annotators, tasks, start, shared_tasks, options, shares, counts, learn_habits | | as for `HabitChannel` |
    | shrinkage | | precision of the prior on the deviations |
    | learn_deviations | | False holds them at 0 |
    """

    def __init__(
        self, *size: Any, shrinkage: float = SHRINKAGE, learn_deviations: bool = True, **habit_settings: Any
    ) -> None:
        super().__init__(*size, **habit_settings)
        self.shrinkage, self.learn_deviations = shrinkage, learn_deviations
        shape = (*self.habit_logits.shape, self.habit_logits.shape[2])
        self.deviations = nn.Parameter(torch.zeros(shape), learn_deviations)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        width = scores.log_probs.shape[1]
        deviations = self.deviations[observed.annotator, self.column(observed.task), :width, :width]
        omega = self.omega[observed.annotator, self.column(observed.task)]
        rows = (log_mixture(omega, self.log_habits(scores, observed)) + deviations).log_softmax(dim=2)
        return rows.gather(2, observed.label[:, None, None].expand(-1, width, 1))[:, :, 0]

    def log_prior(self, observed: Observed) -> Tensor | None:
        habits = super().log_prior(observed)
        if self.counts is None or not self.deviations.requires_grad:
            return habits
        pair = (observed.annotator, self.column(observed.task))
        squares = self.deviations[pair].square().sum(dim=(1, 2))
        own = -0.5 * self.shrinkage * squares / self.counts[pair].clamp(min=1)
        return own if habits is None else own + habits

    @torch.no_grad()
    def update(self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike]) -> None:
        """Expertise and habits as if there were no deviations, then each row from the labels given where it was true.

        A row is drawn to the habit mixture as if by `shrinkage` annotations.
        """
        truth = (scores.log_probs[observed.item] + self.evidence(scores, observed)).softmax(dim=1).double()
        super().update(scores, observed, prior)
        if not self.learn_deviations:
            return
        mixture = self._log_mixtures().double()
        totals = self.shrinkage * mixture.exp()
        column, options = self.column(observed.task)[:, None], torch.arange(truth.shape[1])[None, :]
        place = (observed.annotator[:, None], column, options, observed.label[:, None])
        totals.index_put_(place, truth * observed.weight.double()[:, None], accumulate=True)
        deviations = (totals / totals.sum(dim=3, keepdim=True)).log() - mixture
        moved = (~self.pinned).view(-1, 1, 1, 1)
        self.deviations.copy_(torch.where(moved, deviations.to(self.deviations.dtype), self.deviations))

    def _log_mixtures(self) -> Tensor:
        """What every matrix is drawn to, over all options. (annotators, tasks, K, K)"""
        return log_mixture(self.omega.detach(), self.habit_logits.detach().log_softmax(dim=2))

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "shrinkage": self.shrinkage, "learn_deviations": self.learn_deviations}

    def summary(self) -> dict[str, Any]:
        """Beside the mixture's columns `accuracy_trained`: the mean of the diagonal over the options of the task."""
        diagonal = (self._log_mixtures() + self.deviations.detach()).softmax(dim=3).diagonal(dim1=2, dim2=3)
        present = (self.pool > 0).to(diagonal.dtype)
        accuracy = (diagonal * present).sum(dim=2) / present.sum(dim=1)
        return {**super().summary(), "accuracy_trained": self._per_task(accuracy)}


def log_mixture(omega: Tensor, log_habits: Tensor) -> Tensor:
    """log(beta [y = k] + (1 - beta) xi(y)) for every k and y: omega (...), log_habits (..., K), (..., K, K) out."""
    guess = logsigmoid(-omega)[..., None] + log_habits
    right = torch.logaddexp(logsigmoid(omega)[..., None], guess)
    same = torch.eye(guess.shape[-1], dtype=torch.bool, device=guess.device)
    return torch.where(same, right[..., None, :], guess[..., None, :])
