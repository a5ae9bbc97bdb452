"""What a channel is: how an annotator turns the true label into the label they give."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Channel(nn.Module, ABC):
    """Log-likelihood of each annotation, given the items' log-probabilities.

    | input | shape | meaning |
    |---|---|---|
    | log_probs | (items, K) | log P(option given prompt), -inf beyond an item's own options |
    | option_counts | (items,) | K of each item |
    | item | (annotations,) | row of `log_probs` |
    | annotator, task, label | (annotations,) | who, in which task, said which option |
    | returns | (annotations,) | log P(label given prompt, annotator, task) |
    """

    @abstractmethod
    def forward(
        self, log_probs: Tensor, option_counts: Tensor, item: Tensor, annotator: Tensor, task: Tensor, label: Tensor
    ) -> Tensor: ...
