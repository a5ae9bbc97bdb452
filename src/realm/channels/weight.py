"""What channels share in which one number per annotator and task weighs two ways of answering against each other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.channels.base import Channel, ItemScores, Observed
from realm.crowd.mixture_weights import solve
from realm.crowd.pooling import mixture_pool
from realm.data import Annotations

SURE = 1e-6
"""The closed-form update keeps weights this far from 0 and 1, so that their log-odds stay within +-14."""


class WeightChannel(Channel):
    """P(label) = w P(label if answered one way) + (1 - w) P(label if the other), w = sigmoid(weight_logits).

    For the item's P given, this is concave in w, and solved for; the Beta prior on w is the pool's (`pool_prior`,
    (pools, 2)) unless another is given.

    | member | what it is for |
    |---|---|
    | `weight_logits` | the parameter, (annotators, columns) |
    | `label_probabilities(scores, observed)` | P(label) either way, given P of the item; (annotations,) each, float64 |
    """

    pool_prior: Tensor

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        groups = {} if annotations.groups is None else {"groups": annotations.annotator_groups}
        return cls(annotations.n_annotators, len(annotations.tasks), **{**groups, **settings})

    @property
    @abstractmethod
    def weight_logits(self) -> nn.Parameter:
        """The log-odds of w. (annotators, columns)"""

    @abstractmethod
    def label_probabilities(self, scores: ItemScores, observed: Observed) -> tuple[Tensor, Tensor]:
        """P(label) answered the one way and the other. (annotations,) each"""

    def solve_weights(
        self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None
    ) -> Tensor:
        """The most probable w of each annotator and task, NaN for those not observed. (annotators, columns)

        The arguments are those of `update`; `prior` is on w.
        """
        annotators, columns = self.weight_logits.shape
        if prior is None:
            a, b = self.pool_prior.numpy()[self.pools.reshape(-1).numpy()].T
            prior = a, b
        one, other, pair, weight = self._arrays(scores, observed)
        start = self.weight_logits.detach().double().sigmoid().reshape(-1).numpy()
        weights = solve(one, other, pair, annotators * columns, weight=weight, prior=prior, start=start)
        observed_pairs = np.bincount(pair, minlength=len(weights)) > 0
        weights = np.where(observed_pairs, np.clip(weights, SURE, 1 - SURE), np.nan)
        return torch.from_numpy(weights).reshape(annotators, columns)

    @torch.no_grad()
    def fit_pool(self, scores: ItemScores, observed: Observed) -> None:
        """The Beta prior on w that best explains all annotators of each pool."""
        columns = self.weight_logits.shape[1]
        one, other, pair, weight = self._arrays(scores, observed)
        free = ~self.pinned.numpy()[pair // columns]
        pools = self.pools.reshape(-1).numpy()
        pool = mixture_pool(one[free], other[free], pair[free], pools, self.n_pools, weight[free])
        self.pool_prior.copy_(torch.from_numpy(np.stack(pool, axis=1)))

    def _arrays(self, scores: ItemScores, observed: Observed) -> tuple[Any, Any, Any, Any]:
        """P(label) either way, the (annotator, task) pair and the weight of each annotation. (annotations,) each"""
        one, other = self.label_probabilities(scores, observed)
        pair = observed.annotator * self.weight_logits.shape[1] + self.column(observed.task)
        return one.numpy(), other.numpy(), pair.numpy(), observed.weight.double().numpy()
