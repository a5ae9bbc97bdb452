"""Free confusion matrices with a small trace: the regularised annotators of Tanno et al."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from realm import Annotations, Channel, ItemScores, Observed

TRACE_WEIGHT = 0.01
"""lambda of the trace in the loss, as in the paper."""
DIAGONAL, OFF_DIAGONAL = 1.0, -5.0
"""Where the weights start, as in the authors' code: softplus makes them 1.31 and 0.0067, so that a matrix is near the
identity."""


class TraceConfusionChannel(Channel):
    """P(label = y | truth = k) = C[k, y] = softplus(w[k, y]) / sum_l softplus(w[k, l]), from near the identity.

    R. Tanno, A. Saeedi, S. Sankaranarayanan, D. Alexander and N. Silberman (2019). Learning from noisy labels by
    regularized estimation of annotator confusion. CVPR 2019.

    The loss has lambda (`trace_weight`) times the trace of the annotators' matrices: of all matrices that explain the
    labels together with the model, those with the least trace are wanted, which leaves the confident part to the model.
    Each annotation carries the trace of its annotator, so that the penalty is the mean over annotations (the authors':
    over annotators, the same where all label alike). `options` is K, the most options of any item.
    """

    def __init__(
        self,
        annotators: int,
        tasks: int = 1,
        shared_tasks: bool = False,
        *,
        options: int,
        trace_weight: float = TRACE_WEIGHT,
    ) -> None:
        super().__init__(annotators, tasks, shared_tasks)
        self.options, self.trace_weight = options, trace_weight
        start = OFF_DIAGONAL + (DIAGONAL - OFF_DIAGONAL) * torch.eye(options)
        self.weights = nn.Parameter(start.expand(*self.touched.shape, options, options).clone())

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        options = int(annotations.option_counts.max(initial=2))
        return cls(annotations.n_annotators, len(annotations.tasks), **{"options": options, **settings})

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        width = scores.log_probs.shape[1]
        weights = self.weights[observed.annotator, self.column(observed.task), :width, :width]
        beyond = torch.arange(width, device=weights.device) >= scores.option_counts[observed.item][:, None]
        log_rows = log_softplus(weights)
        log_rows = log_rows - log_rows.masked_fill(beyond[:, None, :], float("-inf")).logsumexp(dim=2, keepdim=True)
        return log_rows.gather(2, observed.label[:, None, None].expand(-1, width, 1))[:, :, 0]

    def log_prior(self, observed: Observed) -> Tensor | None:
        diagonal = self._matrices(self.weights[observed.annotator, self.column(observed.task)]).diagonal(dim1=1, dim2=2)
        return -self.trace_weight * diagonal.sum(dim=1)

    @staticmethod
    def _matrices(weights: Tensor) -> Tensor:
        log_rows = log_softplus(weights)
        return (log_rows - log_rows.logsumexp(dim=-1, keepdim=True)).exp()

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "trace_weight": self.trace_weight}

    def summary(self) -> dict[str, Any]:
        """`accuracy_trained`, the mean of the diagonal, and `expertise_trained`, the same on the scale of beta."""
        accuracy = self._matrices(self.weights.detach().double()).diagonal(dim1=2, dim2=3).mean(dim=2)
        options = self.weights.shape[2]
        expertise = (accuracy * options - 1) / (options - 1)
        return {"expertise_trained": self._per_task(expertise), "accuracy_trained": self._per_task(accuracy)}


def log_softplus(weights: Tensor) -> Tensor:
    """log(log(1 + exp(w))), finite for every w: where exp(w) is all that is left, its logarithm is w."""
    small = weights < -15.0
    return torch.where(small, weights, softplus(weights.masked_fill(small, 0.0)).log())
