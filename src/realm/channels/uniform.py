"""The channel of the paper: an annotator knows the answer with probability beta, and else guesses evenly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from realm.channels.base import Channel, ItemScores, Observed


class UniformChannel(Channel):
    """`P(label = y | truth = k) = beta [y = k] + (1 - beta) / K_Q`, with `beta = sigmoid(omega[annotator, task])`.

    Equations 1 and 5 of the paper: `realm.crowd.engine.mixture` in log space, finite for |omega| up to 1e4 and P down
    to 0. omega = +inf is `IdentityChannel`. Use `HabitChannel` instead where annotators favour a label whatever the
    item says, and `ConfusionChannel` for expertise that needs no learning rate. omega begins at `start`: the paper does
    not say where, 0 (beta = 0.5) is our assumption. The other arguments are those of `Channel`.

    Examples:
        >>> channel = UniformChannel(annotators=1, start=0.0)
        >>> scores = ItemScores(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([2]))
        >>> zero = torch.tensor([0])
        >>> channel(scores, Observed(zero, zero, zero, zero, torch.ones(1))).exp()  # 0.5 + 0.5 / 2 and 0.5 / 2
        tensor([[0.7500, 0.2500]], grad_fn=<ExpBackward0>)
    """

    def __init__(self, annotators: int, tasks: int = 1, start: float = 0.0, shared_tasks: bool = False) -> None:
        super().__init__(annotators, tasks, shared_tasks)
        self.omega = nn.Parameter(torch.full(self.touched.shape, float(start)))

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        omega = self.omega[observed.annotator, self.column(observed.task)]
        guess = logsigmoid(-omega) + self.log_guess(scores, observed)
        right = torch.logaddexp(logsigmoid(omega), guess)
        options = torch.arange(scores.log_probs.shape[1], device=omega.device)
        return torch.where(options == observed.label[:, None], right[:, None], guess[:, None])

    def log_guess(self, scores: ItemScores, observed: Observed) -> Tensor:
        """log P(label | the annotator guesses). (annotations,)"""
        return -scores.option_counts[observed.item].to(self.omega.dtype).log()

    def start_from(self, expertise: Tensor) -> None:
        beta = expertise.to(self.omega.device, torch.float64)
        beta = beta.nanmean(dim=1, keepdim=True) if self.shared_tasks else beta
        self.set_known(self.omega, beta.log() - (-beta).log1p())

    def expertise(self) -> Tensor:
        """beta = sigmoid(omega). (annotators, tasks)"""
        return self.omega.detach().sigmoid().cpu().expand(-1, self.tasks)

    def summary(self) -> dict[str, Any]:
        return {"expertise_trained": self._per_task(self.omega.detach().sigmoid())}
