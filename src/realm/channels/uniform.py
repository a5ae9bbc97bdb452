"""The channel of the paper: a mixture of the model's prediction and a uniform guess."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import Channel


class MixtureChannel(Channel):
    """P(label = y given Q, i, T) = beta P(y given Q) + (1 - beta) / K_Q, with beta = sigmoid(omega[i, T]).

    Equations 1 and 5 of the paper; `omega` is (annotators, tasks), one column where there is one task. In log space
    `logaddexp(logsigmoid(w) + log p, logsigmoid(-w) - log K)`, finite for |w| up to 1e4 and p down to 0.

    During training `touched` marks the entries of omega that the forwards since the last `clear_touched` used, so
    that the optimiser leaves absent annotators alone.

    | parameter | shape | meaning |
    |---|---|---|
    | annotators, tasks | | size of omega |
    | start | | where omega starts; the paper does not say, 0 (beta = 0.5) is our assumption |

    Example:
        >>> channel = MixtureChannel(annotators=2, start=0.0)
        >>> log_probs = torch.tensor([[0.8, 0.2]]).log()
        >>> zero = torch.tensor([0])
        >>> channel(log_probs, torch.tensor([2]), zero, zero, zero, zero).exp()  # 0.5 * 0.8 + 0.5 / 2
        tensor([0.6500], grad_fn=<ExpBackward0>)
    """

    def __init__(self, annotators: int, tasks: int = 1, start: float = 0.0) -> None:
        super().__init__()
        self.omega = nn.Parameter(torch.full((annotators, tasks), float(start)))
        self.touched = torch.zeros(annotators, tasks, dtype=torch.bool)
        self.pinned = torch.zeros(annotators, 1, dtype=torch.bool)

    def forward(
        self, log_probs: Tensor, option_counts: Tensor, item: Tensor, annotator: Tensor, task: Tensor, label: Tensor
    ) -> Tensor:
        if self.training:
            self.touched = self.touched.to(annotator.device)
            self.touched[annotator, task] = True
        omega = self.omega[annotator, task]
        log_guess = -option_counts[item].to(omega.dtype).log()
        informed = logsigmoid(omega) + log_probs[item, label]
        return torch.logaddexp(informed, logsigmoid(-omega) + log_guess)

    def pin(self, annotators: Sequence[int], expertise: float) -> None:
        """Hold these annotators at this expertise: they are never moved."""
        rows = torch.zeros(len(self.omega), 1, dtype=torch.bool)
        rows[list(annotators)] = True
        with torch.no_grad():
            self.omega[rows[:, 0]] = math.log(expertise / (1 - expertise))
        self.pinned = rows
        omega: Any = self.omega
        omega.register_hook(lambda gradient: gradient.masked_fill(rows.to(gradient.device), 0.0))

    @torch.no_grad()
    def place(self, beta: Tensor) -> None:
        """Start or go on from these expertises, (annotators, tasks); NaN and pinned annotators stay where they are."""
        beta = beta.to(self.omega.device, torch.float64)
        moved = beta.isfinite() & ~self.pinned.to(self.omega.device)
        omega = (beta.log() - (-beta).log1p()).to(self.omega.dtype)
        self.omega.copy_(torch.where(moved, omega, self.omega))

    def clear_touched(self) -> None:
        self.touched.zero_()

    @torch.no_grad()
    def expertise(self) -> Tensor:
        """beta = sigmoid(omega). (annotators, tasks)"""
        return self.omega.detach().sigmoid().cpu()
