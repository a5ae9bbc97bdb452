"""What every aggregator takes and gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays, annotation_arrays, most_probable
from realm.crowd.evidence import Floats


class Aggregator(ABC):
    """`fit` over plain integer arrays, as in scikit-learn; the results are in attributes that end in `_`.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) int32 | the most probable label, ties at random by seed; -1 for an item with no annotation |
    | posterior_ | (items, options) | how probable each option is; zero for options that the item lacks |
    | accuracy_ | (annotators,) | how often the annotator is right, by this method's estimate; NaN with no annotation |
    | classes_ | (options,) | the labels, 0 to K-1 |
    """

    seed: int
    labels_: npt.NDArray[np.int32]
    posterior_: Floats
    accuracy_: Floats
    classes_: npt.NDArray[np.int64]

    def fit(
        self,
        items: npt.ArrayLike,
        annotators: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        n_options: int | None = None,
        option_counts: npt.ArrayLike | None = None,
        gold: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Aggregate the annotations.

        | argument | shape | meaning |
        |---|---|---|
        | items, annotators, labels | (annotations,) | integers from 0, in any order |
        | n_options | | K; default: as many as are met |
        | option_counts | (items,) | where items have fewer options than K: how many each has |
        | gold | (items,) | the true label where it is known, -1 elsewhere; those items are held to it |
        | weight | (annotations,) | how much each annotation counts; default 1. Weight 2 is as good as two annotations |
        """
        arrays = annotation_arrays(items, annotators, labels, n_options, option_counts, gold, weight)
        posterior = self._fit(arrays)
        self.labels_ = arrays.spread_labels(most_probable(posterior, self.seed))
        self.posterior_ = arrays.spread(posterior)
        self.classes_ = np.arange(arrays.n_options)
        return self

    @abstractmethod
    def _fit(self, arrays: AnnotationArrays) -> Floats:
        """Set `accuracy_` and the method's own attributes; return the posterior of the items with annotations."""
