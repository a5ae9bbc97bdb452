"""The identity channel: every annotator gives the true label (beta = 1)."""

from __future__ import annotations

from torch import Tensor

from realm.channels.base import Channel


class IdentityChannel(Channel):
    """log P(label) = log P(y = label given prompt): cross-entropy over the restricted softmax.

    What `noisy`, `majority`, `dawid-skene` and `oracle` train with. It has no parameters.

    Example:
        >>> import torch
        >>> log_probs = torch.tensor([[0.8, 0.2]]).log()
        >>> zero = torch.tensor([0])
        >>> IdentityChannel()(log_probs, torch.tensor([2]), zero, zero, zero, zero).exp()
        tensor([0.8000])
    """

    def forward(
        self, log_probs: Tensor, option_counts: Tensor, item: Tensor, annotator: Tensor, task: Tensor, label: Tensor
    ) -> Tensor:
        return log_probs[item, label]
