"""Majority vote."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.aggregation.votes import Floats, Integers, agreement, most_probable, votes


@dataclass(eq=False)
class MajorityVote:
    """The option that most annotators gave; ties are broken uniformly at random.

    Condorcet, M. J. A. N. (1785). Essai sur l'application de l'analyse à la probabilité des décisions rendues à la
    pluralité des voix.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) | the label; -1 for an item with no annotation |
    | posterior_ | (items, options) | the share of the item's annotations that each option has |
    | accuracy_ | (annotators,) | how often the annotator agrees with `labels_` (their own vote counted) |
    | classes_ | (options,) | the labels |

    Example:
        >>> vote = MajorityVote().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> vote.labels_.tolist(), vote.posterior_[0].round(2).tolist()
        ([1, 0], [0.33, 0.67])
    """

    seed: int = 0

    labels_: npt.NDArray[np.int32] = field(init=False, repr=False)
    posterior_: Floats = field(init=False, repr=False)
    accuracy_: Floats = field(init=False, repr=False)
    classes_: npt.NDArray[np.int64] = field(init=False, repr=False)

    def fit(
        self,
        items: Integers,
        annotators: Integers,
        labels: Integers,
        *,
        n_options: int | None = None,
        option_counts: Integers | None = None,
        gold: Integers | None = None,
    ) -> MajorityVote:
        """Aggregate. `items`, `annotators` and `labels` are (annotations,) integers from 0.

        `n_options` is K (default: as many as are met); `option_counts` (items,) where items have options of their
        own number; `gold` (items,) the true label where it is known and -1 elsewhere.
        """
        found = votes(items, annotators, labels, n_options, option_counts, gold)
        shares = found.vote_shares()
        chosen = most_probable(shares, self.seed)
        self.labels_ = found.spread_labels(chosen)
        self.posterior_ = found.spread(shares)
        self.accuracy_ = agreement(found, (found.label == chosen[found.item]).astype(np.float64))
        self.classes_ = np.arange(found.n_options)
        return self
