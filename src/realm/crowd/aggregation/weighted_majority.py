"""Majority vote weighted by how often each annotator agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays, most_probable
from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import gold_start, normalise
from realm.crowd.evidence import Floats
from realm.errors import RealmError


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

    Example:
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
