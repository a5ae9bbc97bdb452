"""The channel of the paper: an annotator knows the answer with probability beta, and else guesses evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import Channel, ItemScores, Observed
from realm.crowd.mixture_weights import PRIOR, solve
from realm.crowd.pooling import mixture_pool

SURE = 1e-6
"""Expertise is kept this far from 0 and 1 by the closed-form update, so that omega stays within +-14."""


class UniformChannel(Channel):
    """P(label = y | truth = k) = beta [y = k] + (1 - beta) / K_Q, with beta = sigmoid(omega[annotator, task]).

    Equations 1 and 5 of the paper. In log space, finite for |omega| up to 1e4 and P down to 0. omega = +inf is
    `IdentityChannel`. Use `HabitChannel` instead where annotators favour a label whatever the item says.

    | argument | meaning |
    |---|---|
    | annotators, tasks | size of omega |
    | start | where omega starts; the paper does not say, 0 (beta = 0.5) is our assumption |
    | shared_tasks | one omega per annotator for all tasks |

    Example:
        >>> channel = UniformChannel(annotators=1, start=0.0)
        >>> scores = ItemScores(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([2]))
        >>> zero = torch.tensor([0])
        >>> channel(scores, Observed(zero, zero, zero, zero, torch.ones(1))).exp()  # 0.5 + 0.5 / 2 and 0.5 / 2
        tensor([[0.7500, 0.2500]], grad_fn=<ExpBackward0>)
    """

    pool_prior: Tensor

    def __init__(self, annotators: int, tasks: int = 1, start: float = 0.0, shared_tasks: bool = False) -> None:
        super().__init__(annotators, tasks, shared_tasks)
        self.omega = nn.Parameter(torch.full(self.touched.shape, float(start)))
        columns = self.touched.shape[1]
        self.register_buffer("pool_prior", torch.tensor(PRIOR, dtype=torch.float64).expand(columns, 2).clone())

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        omega = self.omega[observed.annotator, self.column(observed.task)]
        guess = logsigmoid(-omega) + self.log_guess(scores, observed)
        right = torch.logaddexp(logsigmoid(omega), guess)
        options = torch.arange(scores.log_probs.shape[1], device=omega.device)
        return torch.where(options == observed.label[:, None], right[:, None], guess[:, None])

    def log_guess(self, scores: ItemScores, observed: Observed) -> Tensor:
        """log P(label | the annotator guesses). (annotations,)"""
        return -scores.option_counts[observed.item].to(self.omega.dtype).log()

    @torch.no_grad()
    def start_from(self, expertise: Tensor) -> None:
        beta = expertise.to(self.omega.device, torch.float64)
        if self.shared_tasks:
            beta = beta.nanmean(dim=1, keepdim=True)
        moved = beta.isfinite() & ~self.pinned.to(beta.device)[:, None]
        omega = (beta.log() - (-beta).log1p()).to(self.omega.dtype)
        self.omega.copy_(torch.where(moved, omega, self.omega))

    @torch.no_grad()
    def update(
        self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    ) -> None:
        """Solve for every beta (the log-likelihood is concave in each); annotators not observed stay."""
        p, guess, pair, weight = self._mixtures(scores, observed)
        if prior is None:
            a, b = self.pool_prior.numpy().T
            prior = np.tile(a, len(self.omega)), np.tile(b, len(self.omega))
        start = self.omega.double().sigmoid().reshape(-1).numpy()
        beta = solve(p, guess, pair, self.omega.numel(), weight=weight, prior=prior, start=start)
        observed_pairs = np.bincount(pair, minlength=len(beta)) > 0
        beta = np.where(observed_pairs, np.clip(beta, SURE, 1 - SURE), np.nan)
        self.start_from(torch.from_numpy(beta).reshape(self.omega.shape))

    @torch.no_grad()
    def fit_pool(self, scores: ItemScores, observed: Observed) -> None:
        """The Beta prior on expertise that best explains all annotators of a task."""
        p, guess, pair, weight = self._mixtures(scores, observed)
        annotators, columns = self.omega.shape
        free = ~self.pinned.numpy()[pair // columns]
        task = np.tile(np.arange(columns), annotators)
        pool = mixture_pool(p[free], guess[free], pair[free], task, columns, weight[free])
        self.pool_prior.copy_(torch.from_numpy(np.stack(pool, axis=1)))

    def _mixtures(self, scores: ItemScores, observed: Observed) -> tuple[Any, Any, Any, Any]:
        """P(label) if read off the item, if not; the (annotator, task) pair; the weight. (annotations,) each"""
        p = scores.log_probs[observed.item, observed.label].exp().double()
        guess = self.log_guess(scores, observed).exp().double()
        pair = observed.annotator * self.omega.shape[1] + self.column(observed.task)
        return p.numpy(), guess.numpy(), pair.numpy(), observed.weight.double().numpy()

    def expertise(self) -> Tensor:
        """beta = sigmoid(omega). (annotators, tasks)"""
        return self.omega.detach().sigmoid().cpu().expand(-1, self.tasks)

    def summary(self) -> dict[str, Any]:
        return {"expertise_trained": self._per_task(self.omega.detach().sigmoid())}
