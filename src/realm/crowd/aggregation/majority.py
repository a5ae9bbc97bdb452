"""Majority vote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays, most_probable
from realm.crowd.aggregation.base import Aggregator
from realm.crowd.evidence import Floats


@dataclass(eq=False)
class MajorityVote(Aggregator):
    """The option that most annotators gave; ties are broken uniformly at random.

    M. J. A. N. de Condorcet (1785). Essai sur l'application de l'analyse à la probabilité des décisions rendues à la
    pluralité des voix.

    `posterior_` is the share of the item's annotations that each option has; `accuracy_` is how often the annotator
    agrees with the majority, their own vote counted. The other attributes are those of every `Aggregator`.

    Example:
        >>> vote = MajorityVote().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> vote.labels_.tolist(), vote.posterior_[0].round(2).tolist()
        ([1, 0], [0.33, 0.67])
    """

    seed: int = 0

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        shares = arrays.label_shares()
        majority = most_probable(shares, self.seed)
        self.accuracy_ = arrays.annotator_mean((arrays.label == majority[arrays.item]).astype(np.float64))
        return shares
