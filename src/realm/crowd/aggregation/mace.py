"""MACE: an expertise and a habit per annotator, pooled."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.arrays import AnnotationArrays
from realm.crowd.aggregation.base import EMAggregator, EMResult
from realm.crowd.evidence import AnnotatorModel, Floats, Indices
from realm.crowd.habit import POOL_STEPS, Habit
from realm.errors import RealmError


@dataclass(eq=False)
class Mace(EMAggregator):
    """EM for `P(annotator a gives label l | truth k) = beta[a] [l = k] + (1 - beta[a]) xi[a, l]`.

    D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013). Learning whom to trust with MACE. Proceedings of
    NAACL-HLT 2013, 1120-1130.

    The annotator model is `realm.crowd.habit.Habit`: beta is signed, and both beta and xi are drawn to the pool of
    annotators, whose prior is fitted in the first iterations by marginal likelihood (`pooling=False`: a weak prior,
    the same for every table). `groups` (annotators,), numbers from 0, splits the pool: each group has a prior of its
    own, so that people are not drawn to models. Starts from the shares of the labels. Use `DawidSkene` instead where
    annotators mistake particular labels for each other and have labelled enough to show it.

    | attribute | shape | meaning |
    |---|---|---|
    | expertise_ | (annotators,) | beta; NaN with no annotation |
    | habits_ | (annotators, options) | xi; NaN with no annotation |
    | objectives_ | (iterations,) | log-likelihood and log-prior, less a constant, at each E-step; it never falls from \
the iteration on after which the pool's prior is held |

    The other attributes are those of every `EMAggregator`.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = Mace().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), bool(model.expertise_[2] < model.expertise_[0])
        ([0, 1, 1], True)
    """

    takes_abstain = True
    pooling: bool = True
    groups: npt.ArrayLike | None = None

    expertise_: Floats = field(init=False, repr=False)
    habits_: Floats = field(init=False, repr=False)
    objectives_: list[float] = field(init=False, repr=False)

    def _model(self, arrays: AnnotationArrays) -> Habit:
        task = np.zeros(arrays.n_annotators, dtype=np.int64)
        options, widest = arrays.option_counts[arrays.item], np.array([arrays.n_options])
        pool = None if self.groups is None else self._pools(arrays.n_annotators)
        return Habit(arrays.annotator, arrays.label, options, task, widest, pool=pool, weight=arrays.weight)

    def _pools(self, n_annotators: int) -> Indices:
        pools = np.asarray(self.groups)
        if pools.ndim != 1 or len(pools) < n_annotators or pools.dtype.kind not in "iu" or pools.min(initial=0) < 0:
            raise RealmError(f"`groups` must be a number from 0 for each of the {n_annotators} annotators.")
        return pools[:n_annotators].astype(np.int64)

    def _start(self, model: AnnotatorModel, arrays: AnnotationArrays, posterior: Floats, from_gold: bool) -> Floats:
        assert isinstance(model, Habit)
        return model.update(model.even(), posterior, arrays.position)

    def _refitted(
        self, model: AnnotatorModel, parameters: Floats, posterior: Floats, arrays: AnnotationArrays, iteration: int
    ) -> AnnotatorModel:
        assert isinstance(model, Habit)
        refit = self.pooling and iteration in POOL_STEPS
        return model.pooled(parameters, posterior, arrays.position) if refit else model

    def _log_prior(self, model: AnnotatorModel, parameters: Floats, arrays: AnnotationArrays) -> float:
        assert isinstance(model, Habit)
        return model.log_prior(parameters)

    def _set_attributes(self, result: EMResult, arrays: AnnotationArrays) -> None:
        labelled = arrays.per_annotator > 0
        self.objectives_ = result.objectives
        self.expertise_ = np.where(labelled, result.parameters[:, 0], np.nan)
        self.habits_ = np.where(labelled[:, None], result.parameters[:, 1:], np.nan)[:, : arrays.n_options]
