"""The crowd layer: a matrix per annotator on the softmax's output."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from realm import Annotations, Channel, ItemScores, Observed


class CrowdLayerChannel(Channel):
    """P(label = y) = softmax(W p)[y], p the model's probabilities and W the annotator's matrix, from the identity.

    F. Rodrigues and F. Pereira (2018). Deep learning from crowds. AAAI-18. The variant MW, which the paper recommends.

    Not a mixture over the truth: the annotator's answer is computed from p as a whole. Its evidence is therefore the
    same for every option, E[a, k] = log softmax(W p)[y], and log sum_k P(k) exp E[a, k] is the layer's own
    log-likelihood. It says nothing of an item's truth beyond p, so no posterior is made of it. `options` is K, the most
    options of any item.

    Examples:
        >>> channel = CrowdLayerChannel(annotators=1, options=2)
        >>> scores = ItemScores(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([2]))
        >>> zero = torch.tensor([0])
        >>> channel(scores, Observed(zero, zero, zero, zero, torch.ones(1))).exp().detach()  # sigmoid(0.8 - 0.2), twice
        tensor([[0.6457, 0.6457]])
    """

    def __init__(self, annotators: int, tasks: int = 1, shared_tasks: bool = False, *, options: int) -> None:
        super().__init__(annotators, tasks, shared_tasks)
        self.options = options
        self.matrices = nn.Parameter(torch.eye(options).expand(*self.touched.shape, options, options).clone())

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        options = int(annotations.option_counts.max(initial=2))
        return cls(annotations.n_annotators, len(annotations.tasks), **{"options": options, **settings})

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        width = scores.log_probs.shape[1]
        matrices = self.matrices[observed.annotator, self.column(observed.task), :width, :width]
        answers = (matrices @ scores.log_probs[observed.item].exp().to(matrices.dtype)[:, :, None])[:, :, 0]
        beyond = torch.arange(width, device=answers.device) >= scores.option_counts[observed.item][:, None]
        log_answers = answers.masked_fill(beyond, float("-inf")).log_softmax(dim=1)
        return log_answers.gather(1, observed.label[:, None]).expand(-1, width)

    def summary(self) -> dict[str, Any]:
        """`expertise_trained`: how much likelier than 1/K the layer makes an option that the model is sure of.

        On the scale of beta, but compressed by the softmax: an order of annotators, not a mixture weight.
        """
        right = self.matrices.detach().double().softmax(dim=2).diagonal(dim1=2, dim2=3).mean(dim=2)
        return {
            "expertise_trained": self._per_task((right * self.matrices.shape[2] - 1) / (self.matrices.shape[2] - 1))
        }
