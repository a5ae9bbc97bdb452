"""The confusion channel: a whole matrix per annotator, drawn towards their habit mixture."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import ItemScores, Observed
from realm.channels.habit import HabitChannel
from realm.crowd.pooling import dirichlet_strength

CHUNK_SIZE = 2**24
"""Entries of the annotations' matrices that are formed at once: 64 MB of float32."""
SHRINKAGE = 4.0
"""Precision of the prior on deviations: 1 / 0.5^2, so that a factor of 1.6 either way is an ordinary deviation."""


class ConfusionChannel(HabitChannel):
    """`P(label = y | truth = k) = C[k, y]`, each row a softmax of the habit mixture and deviations from it.

    Row k is the softmax over y of `log(beta [y = k] + (1 - beta) xi(y)) + deviation[k, y]`.

    Dawid and Skene's matrix, one per annotator and task. A normal prior draws the deviations to 0, where the row is
    `HabitChannel`'s: free matrices collapse when there are many options. With deviations held at 0 it is
    `HabitChannel`, and with even habits `UniformChannel`.

    | argument | shape | meaning |
    |---|---|---|
    | annotators, tasks, start, shared_tasks, options, shares, counts, learn_habits, groups | | as for `HabitChannel` |
    | shrinkage | | precision of the prior on the deviations; in the closed-form update, as many annotations |
    | pooled | | whether `fit_pool` fits how many, by how far all rows are from their mixtures |
    | learn_deviations | | False holds them at 0 |
    """

    row_strength: Tensor

    def __init__(
        self,
        *size: Any,
        shrinkage: float = SHRINKAGE,
        pooled: bool = True,
        learn_deviations: bool = True,
        **habit_settings: Any,
    ) -> None:
        super().__init__(*size, **habit_settings)
        self.shrinkage, self.pooled, self.learn_deviations = shrinkage, pooled, learn_deviations
        strength = torch.full((self.n_pools,), float(shrinkage), dtype=torch.float64)
        self.register_buffer("row_strength", strength)
        shape = (*self.habit_logits.shape, self.habit_logits.shape[2])
        self.deviations = nn.Parameter(torch.zeros(shape), learn_deviations)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        width = scores.log_probs.shape[1]
        pair = (observed.annotator, self.column(observed.task))
        if self.omega.numel() <= len(observed.label) and int(scores.option_counts.min()) == self.options:
            # Each annotator's matrix once, instead of once per annotation.
            tables = self._log_matrices()
            return tables[*pair, :, observed.label][:, :width]
        deviations = self.deviations[pair][:, :width, :width]
        rows = (log_mixture(self.omega[pair], self.log_habits(scores, observed)) + deviations).log_softmax(dim=2)
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
    def update(
        self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    ) -> None:
        """Expertise and habits as if there were no deviations, then each row from the labels given where it was true.

        A row is drawn to the habit mixture by as many annotations as `row_strength` says.
        """
        counts = self._label_counts(scores, observed) if self.learn_deviations else None
        super().update(scores, observed, prior)
        if counts is None:
            return
        mixture = self._log_mixtures().double()
        totals = self.row_strength[self.pools][..., None, None] * mixture.exp() + counts
        deviations = (totals / totals.sum(dim=3, keepdim=True)).log() - mixture
        moved = (~self.pinned).view(-1, 1, 1, 1)
        self.deviations.copy_(torch.where(moved, deviations.to(self.deviations.dtype), self.deviations))

    @torch.no_grad()
    def fit_pool(self, scores: ItemScores, observed: Observed) -> None:
        """Beside the priors on expertise and habits: how far the rows of a pool are from their mixtures."""
        if self.pooled and self.learn_deviations:
            counts = self._label_counts(scores, observed)
            mixture = self._log_mixtures().double().exp()
            for pool in range(self.n_pools):
                members = self.members(pool)
                rows, means = (each[members].reshape(-1, each.shape[3]).numpy() for each in (counts, mixture))
                met = rows.sum(axis=1) > 0
                self.row_strength[pool] = dirichlet_strength(rows[met], means[met])
        if self.pooled:
            super().fit_pool(scores, observed)

    def _label_counts(self, scores: ItemScores, observed: Observed) -> Tensor:
        """How often each annotator gave each label where each option was true, in expectation.

        (annotators, columns, truth, label)
        """
        counts = torch.zeros(self.deviations.shape, dtype=torch.float64)
        rows_at_once = max(CHUNK_SIZE // self.deviations.shape[2] ** 2, 1)
        for rows in torch.split(torch.arange(len(observed.label)), rows_at_once):
            part = observed.take(rows)
            truth = (scores.log_probs[part.item] + self.evidence(scores, part)).softmax(dim=1).double()
            options = torch.arange(truth.shape[1])[None, :]
            place = (part.annotator[:, None], self.column(part.task)[:, None], options, part.label[:, None])
            counts.index_put_(place, truth * part.weight.double()[:, None], accumulate=True)
        return counts

    def _log_mixtures(self) -> Tensor:
        """What every matrix is drawn to, over all options. (annotators, tasks, K, K)"""
        return log_mixture(self.omega.detach(), self.habit_logits.detach().log_softmax(dim=2))

    def _log_matrices(self) -> Tensor:
        """The log of every matrix, over all options. (annotators, tasks, K, K)"""
        return (log_mixture(self.omega, self.habit_logits.log_softmax(dim=2)) + self.deviations).log_softmax(dim=3)

    def settings(self) -> dict[str, Any]:
        own = {"shrinkage": self.shrinkage, "pooled": self.pooled, "learn_deviations": self.learn_deviations}
        return {**super().settings(), **own}

    def summary(self) -> dict[str, Any]:
        """`accuracy_trained` is the mean of the diagonal over the options of the task.

        `expertise_trained` is the beta of a mixture with the same mean, (K accuracy - 1) / (K - 1): negative for
        somebody who is below chance.
        """
        diagonal = self._log_matrices().detach().exp().diagonal(dim1=2, dim2=3)
        present = (self.pool[: self.touched.shape[1]] > 0).to(diagonal.dtype)  # of all groups alike
        options = present.sum(dim=1)
        accuracy = (diagonal * present).sum(dim=2) / options
        expertise = (options * accuracy - 1) / (options - 1).clamp(min=1)
        own = {"expertise_trained": self._per_task(expertise), "accuracy_trained": self._per_task(accuracy)}
        return {**super().summary(), **own}


def log_mixture(omega: Tensor, log_habits: Tensor) -> Tensor:
    """log(beta [y = k] + (1 - beta) xi(y)) for every k and y: omega (...), log_habits (..., K), (..., K, K) out."""
    guess = logsigmoid(-omega)[..., None] + log_habits
    right = torch.logaddexp(logsigmoid(omega)[..., None], guess)
    same = torch.eye(guess.shape[-1], dtype=torch.bool, device=guess.device)
    return torch.where(same, right[..., None, :], guess[..., None, :])
