"""How evidence and the model's P become a log-likelihood: the paper's sum over annotations, or the joint over items.

With one annotation per item they are the same number. With several, `paper` counts an item's annotations as if they
were independent items, while `joint` is exact: its gradient in an item's logits is posterior minus P.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from realm.channels import Observed


class Objective(ABC):
    """Terms that add up to the log-likelihood of a batch, and how many count in the effective batch's mean."""

    takes_exponent = False
    """Whether evidence is multiplied by the channel's exponent, for annotators of an item who err together."""

    @abstractmethod
    def log_likelihood(self, log_probs: Tensor, evidence: Tensor, observed: Observed) -> Tensor:
        """From log P (items, K) and evidence (annotations, K) to the terms of the sum."""

    @abstractmethod
    def count(self, item: Tensor, weight: Tensor) -> Tensor:
        """What the sum is divided by, from each annotation's item and weight. Scalar."""


class Paper(Objective):
    """Sum over annotations of w log sum_k P(k) exp E[a, k], over the sum of their weights: Equation 3 of the paper."""

    def log_likelihood(self, log_probs: Tensor, evidence: Tensor, observed: Observed) -> Tensor:
        return observed.weight * (log_probs[observed.item] + evidence).logsumexp(dim=1)

    def count(self, item: Tensor, weight: Tensor) -> Tensor:
        return weight.sum()


class Joint(Objective):
    """Sum over items of log sum_k P(k) exp(sum over the item's annotations of w E[a, k]), over the number of items."""

    takes_exponent = True

    def log_likelihood(self, log_probs: Tensor, evidence: Tensor, observed: Observed) -> Tensor:
        summed = torch.zeros_like(log_probs, dtype=evidence.dtype)
        summed = summed.index_add(0, observed.item, observed.weight[:, None] * evidence)
        annotated = torch.unique(observed.item)
        return (log_probs[annotated] + summed[annotated]).logsumexp(dim=1)

    def count(self, item: Tensor, weight: Tensor) -> Tensor:
        return torch.tensor(len(torch.unique(item)))


OBJECTIVES: dict[str, Objective] = {"joint": Joint(), "paper": Paper()}
"""The objectives that settings can name."""
