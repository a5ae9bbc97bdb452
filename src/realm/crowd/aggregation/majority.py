"""Majority vote, plain and weighted by how often each annotator agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.arrays import AnnotationArrays, most_probable
from realm.crowd.aggregation.base import Aggregator, gold_start, normalise
from realm.crowd.evidence import Floats
from realm.errors import RealmError


@dataclass(eq=False)
class MajorityVote(Aggregator):
    """The option that most annotators gave; ties are broken uniformly at random.

    M. J. A. N. de Condorcet (1785). Essai sur l'application de l'analyse à la probabilité des décisions rendues à la
    pluralité des voix.

    `posterior_` is the share of the item's annotations that each option has; `accuracy_` is how often the annotator
    agrees with the majority, their own vote counted. Abstentions are no votes. The other attributes are those of every
    `Aggregator`.

    Examples:
        >>> vote = MajorityVote().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> vote.labels_.tolist(), vote.posterior_[0].round(2).tolist()
        ([1, 0], [0.33, 0.67])
    """

    takes_abstain = True
    seed: int = 0

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        shares = arrays.label_shares()
        majority = most_probable(shares, self.seed)
        self.accuracy_ = arrays.annotator_mean((arrays.label == majority[arrays.item]).astype(np.float64))
        return shares


@dataclass(eq=False)
class WeightedMajority(Aggregator):
    """Iterative weighted majority vote: an annotator who agrees with the result in a share w of cases weighs K w - 1.

    H. Li and B. Yu (2014). Error rate bounds and iterative weighted majority voting for crowdsourcing. arXiv:1411.4086.

    Starts from the majority vote (where there is gold, from a vote weighed by it) and alternates weights and labels
    until no label changes. Who is right by chance alone weighs nothing; who is wrong more often counts against their
    own label. K w - 1 is the linear part of the one-coin log-odds around chance, (K - 1)/K log((K - 1) w / (1 - w)), so
    `posterior_` is the one-coin posterior with uniform class priors under that approximation, and its best option is
    the winner of the weighted vote.

    | attribute | shape | meaning |
    |---|---|---|
    | accuracy_ | (annotators,) | w: how often the annotator agrees with the result |
    | n_iter_ | | rounds until the labels settled |

    The other attributes are those of every `Aggregator`.

    Examples:
        >>> model = WeightedMajority().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> model.labels_.tolist()
        [1, 0]
    """

    max_iter: int = 100
    seed: int = 0

    n_iter_: int = field(init=False, repr=False)

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        if self.max_iter < 1:
            raise RealmError(f"`max_iter` must be 1 or more, not {self.max_iter}.")
        k = arrays.option_counts.astype(np.float64)[:, None]
        scale = k / np.maximum(k - 1, 1)
        start = gold_start(arrays)
        labels = most_probable(arrays.label_shares() if start is None else start, self.seed)
        for round_ in range(1, self.max_iter + 1):
            self.n_iter_ = round_
            self.accuracy_ = arrays.annotator_mean((arrays.label == labels[arrays.item]).astype(np.float64))
            posterior = scale * (k * arrays.option_sums(self.accuracy_[arrays.annotator]) - arrays.counts)
            normalise(posterior, arrays)
            before, labels = labels, most_probable(posterior, self.seed)
            if np.array_equal(before, labels):
                break
        return posterior
