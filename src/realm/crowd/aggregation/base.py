"""What every aggregator takes and gives, and the EM that most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.arrays import AnnotationArrays, annotation_arrays, most_probable
from realm.crowd.aggregation.fitted import WarmStart
from realm.crowd.evidence import AnnotatorModel, Bools, Floats, softmax_rows
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError, no_attribute
from realm.progress import Progress, ignore_progress

FLOOR = 1e-10
"""No class share and no entry of a confusion matrix is taken to be impossible because it did not occur."""
COLD = 1e-3
"""How much of a cold start is mixed into a warm one: EM has forgotten it after an iteration."""
POOL_PRIOR = 10
"""Labels that the hope of half-way between chance and certainty is worth against all gold labels together."""
ANNOTATOR_PRIOR = 5
"""Labels that the pool's accuracy on gold is worth against an annotator's own: a few unlucky ones decide nothing."""


class Aggregator(ABC):
    """`fit` over plain integer arrays, as in scikit-learn; the results are in attributes that end in `_`.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) int32 | the most probable label, ties at random by seed; -1 for an item with no annotation |
    | posterior_ | (items, options) | how probable each option is; zero for options that the item lacks |
    | accuracy_ | (annotators,) | how often the annotator is right, by this method's estimate; NaN with no annotation |
    | classes_ | (options,) | the labels, 0 to K-1 |
    """

    takes_abstain: ClassVar[bool] = False
    """Whether `fit` takes `abstain`."""
    takes_start: ClassVar[bool] = False
    """Whether `fit` takes `start`: what is learned is learned of annotators alone, by EM."""
    seed: int
    labels_: npt.NDArray[np.int32]
    posterior_: Floats
    accuracy_: Floats
    classes_: npt.NDArray[np.int64]
    _warm_start: WarmStart | None = None

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
        abstain: int | None = None,
        start: WarmStart | None = None,
    ) -> Self:
        """Aggregate the annotations.

        | argument | shape | meaning |
        |---|---|---|
        | items, annotators, labels | (annotations,) | integers from 0, in any order |
        | n_options | | K; default: as many as occur |
        | option_counts | (items,) | where items have fewer options than K: how many each has |
        | gold | (items,) | the true label where it is known, -1 elsewhere; those items are held to it |
        | weight | (annotations,) | how much each annotation counts; default 1. Weight 2 is as good as two annotations |
        | abstain | | the label of those who did not say: an answer like others, but never the truth |
        | start | | parameters and class shares that EM starts from, as an earlier fit left them |
        """
        if isinstance(items, Annotations):
            raise RealmError("`items` is `Annotations`: give `aggregate(annotations, method)`, which fits every task.")
        if abstain is not None and not self.takes_abstain:
            raise RealmError(
                f"`abstain`: {type(self).__name__} has no place for an answer that is never the truth. "
                "Use Dawid-Skene or MACE, or the majority vote, which leaves abstentions out."
            )
        if start is not None and not self.takes_start:
            raise RealmError(f"`start`: {type(self).__name__} cannot start from an earlier aggregation.")
        self._warm_start = start
        arrays = annotation_arrays(items, annotators, labels, n_options, option_counts, gold, weight, abstain)
        posterior = self._fit(arrays)
        self.labels_ = arrays.spread_labels(most_probable(posterior, self.seed))
        self.posterior_ = arrays.spread(posterior)
        self.classes_ = np.arange(arrays.n_options)
        return self

    def fit_predict(
        self, items: npt.ArrayLike, annotators: npt.ArrayLike, labels: npt.ArrayLike, **options: Any
    ) -> npt.NDArray[np.int32]:
        """`labels_` of these annotations; `options` are those of `fit`."""
        return self.fit(items, annotators, labels, **options).labels_

    def __getattr__(self, name: str) -> Any:
        fitted = name.endswith("_") and not name.startswith("_")
        hints = {name: "Call `fit` first."} if fitted else {"predict": "`fit_predict` gives the labels of the items."}
        raise no_attribute(type(self).__name__, name, dir(type(self)), hints)

    @abstractmethod
    def _fit(self, arrays: AnnotationArrays) -> Floats:
        """Set `accuracy_` and the method's own attributes; return the posterior of the items with annotations."""


# -------------------------------------------------------------------- EM


@dataclass(frozen=True, eq=False)
class EMResult:
    """Where EM ended: the parameters after the last M-step, the posterior at the last E-step, and the path to it.

    `objectives` are the log-likelihoods with any prior on the parameters, at each E-step as those are.
    """

    parameters: Floats
    posterior: Floats
    log_likelihoods: list[float]
    objectives: list[float]


@dataclass(eq=False)
class EMAggregator(Aggregator):
    """EM over an annotator model (`_model`).

    It ends after `max_iter` iterations, or when the objective (the log-likelihood with any prior on the parameters) per
    annotation rises by less than `tol` (0: never). Where there is gold, EM also starts from what the gold says of the
    annotators, and the higher maximum is kept. `progress` is called with how many of the iterations are done.

    | attribute | shape | meaning |
    |---|---|---|
    | accuracy_ | (annotators,) | the mean posterior of the labels the annotator gave |
    | priors_ | (options,) | P(truth = k), the mean posterior of each option |
    | log_likelihoods_ | (iterations,) | at each E-step; `log_likelihood_` is the last |
    | n_iter_ | | iterations run |
    | parameters_ | (annotators, width) | the parameters of the annotator model, to start from another time |
    """

    takes_start = True

    max_iter: int = 100
    tol: float = 1e-6
    seed: int = 0
    progress: Progress = field(default=ignore_progress, repr=False, kw_only=True)

    priors_: Floats = field(init=False, repr=False)
    log_likelihoods_: list[float] = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)
    parameters_: Floats = field(init=False, repr=False)

    @abstractmethod
    def _model(self, arrays: AnnotationArrays) -> AnnotatorModel:
        """The annotator model of these annotations."""

    def _start(self, model: AnnotatorModel, arrays: AnnotationArrays, posterior: Floats, from_gold: bool) -> Floats:
        """The parameters to start from: fitted to a posterior, the shares of the labels or `from_gold`."""
        return model.update(np.zeros(arrays.n_annotators), posterior, arrays.position)

    def _log_class_shares(self, posterior: Floats, arrays: AnnotationArrays) -> Floats:
        """log P(truth = k) given the posterior of the iteration before, floored. (options,)

        A class that nobody gave and no gold names has -inf: it starts with no mass, and EM proper can never give it
        any; the floor alone would.
        """
        return np.where(arrays.present_options, np.log(np.maximum(class_shares(posterior), FLOOR)), -np.inf)

    def _log_prior(self, model: AnnotatorModel, parameters: Floats, arrays: AnnotationArrays) -> float:
        """The log prior of the parameters, but for a constant."""
        return 0.0

    def _refitted(
        self, model: AnnotatorModel, parameters: Floats, posterior: Floats, arrays: AnnotationArrays, iteration: int
    ) -> AnnotatorModel:
        """The model to go on with after an iteration (from 1): the same, but where its prior is fitted on the way."""
        return model

    def _set_attributes(self, result: EMResult, arrays: AnnotationArrays) -> None:
        """Set the method's own attributes."""

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        if self.max_iter < 1 or self.tol < 0:
            raise RealmError(f"`max_iter` must be 1 or more and `tol` 0 or more, not {self.max_iter} and {self.tol}.")
        _check_overlap(arrays)
        model = self._model(arrays)
        result = self._em(model, arrays, arrays.label_shares(), from_gold=False)
        if self._warm_start is None and (posterior := gold_start(arrays)) is not None:
            other = self._em(model, arrays, posterior, from_gold=True)
            result = max(result, other, key=lambda each: each.objectives[-1])
        self.log_likelihoods_, self.log_likelihood_ = result.log_likelihoods, result.log_likelihoods[-1]
        self.n_iter_ = len(result.log_likelihoods)
        self.priors_ = class_shares(result.posterior)
        self.accuracy_ = arrays.annotator_mean(result.posterior.ravel()[arrays.position])
        if self.takes_start:
            self.parameters_ = result.parameters.reshape(arrays.n_annotators, -1)
        self._set_attributes(result, arrays)
        return result.posterior

    def _em(self, model: AnnotatorModel, arrays: AnnotationArrays, posterior: Floats, from_gold: bool) -> EMResult:
        parameters = self._start(model, arrays, posterior, from_gold)
        first_shares: Floats | None = None
        if self._warm_start is not None:
            parameters, first_shares = (
                warm_parameters(self._warm_start, parameters, arrays),
                self._warm_start.class_shares,
            )
        log_likelihoods, objectives = list[float](), [-np.inf]
        refitted = False
        for iteration in range(1, self.max_iter + 1):
            self.progress("aggregating", iteration - 1, self.max_iter)
            evidence = model.evidence(parameters)
            log_shares = self._log_class_shares(posterior if first_shares is None else first_shares[None], arrays)
            first_shares = None
            posterior = evidence.item_sums(arrays.position, arrays.shape)
            posterior += log_shares
            log_likelihoods.append(normalise(posterior, arrays) + evidence.constant)
            objectives.append(log_likelihoods[-1] + self._log_prior(model, parameters, arrays))
            parameters = model.update(parameters, posterior, arrays.position)
            rise = objectives[-1] - objectives[-2]
            if self.tol and not refitted and rise < self.tol * arrays.total_weight:
                break
            before, model = model, self._refitted(model, parameters, posterior, arrays, iteration)
            refitted = model is not before
        self.progress("aggregating", self.max_iter, self.max_iter)  # often earlier than after the most iterations
        return EMResult(parameters, posterior, log_likelihoods, objectives[1:])


def warm_parameters(start: WarmStart, cold: Floats, arrays: AnnotationArrays) -> Floats:
    """The earlier parameters of each annotator in the shape of `cold`; of one who is new the mean of the others.

    A thousandth (`COLD`) of the cold ones is mixed in: a label that an annotator had never given may be impossible to
    the earlier parameters, and has been given since.
    """
    shape = (arrays.n_annotators, cold.size // arrays.n_annotators)
    if start.parameters.shape != shape or len(start.class_shares) != arrays.n_options:
        raise RealmError(
            f"`start` has parameters of shape {start.parameters.shape} and {len(start.class_shares)} class shares; "
            f"these annotations need {shape} and {arrays.n_options}."
        )
    known: Bools = np.asarray(np.isfinite(start.parameters).all(axis=1))
    mean = start.parameters[known].mean(axis=0) if known.any() else cold.reshape(shape).mean(axis=0)
    warm = np.where(known[:, None], start.parameters, mean).reshape(cold.shape)
    return np.asarray(warm + COLD * (cold - warm))


def class_shares(posterior: Floats) -> Floats:
    """The mean over items of (items, options), column by column: over a long narrow array numpy is slow."""
    return np.array([posterior[:, option].mean() for option in range(posterior.shape[1])])


def normalise(scores: Floats, arrays: AnnotationArrays) -> float:
    """Turn log P(truth = k, labels) (items, options) into the posterior, in place; return the log-likelihood.

    Options that an item lacks, and those that its gold rules out, get nothing.
    """
    if arrays.restricted is not None:
        rows, log_possible = arrays.restricted
        scores[rows] += log_possible
    return softmax_rows(scores)


def gold_start(arrays: AnnotationArrays) -> Floats | None:
    """The posterior (items, options) given each annotator's accuracy on gold; None without any gold.

    EM finds the nearest maximum, and a majority that a clique has won is nearest to a wrong one. The accuracies are
    shrunk to the pool's, and the pool's to halfway between chance and certainty.
    """
    if not len(arrays.gold_items):
        return None
    truth = arrays.gold[arrays.item]
    voted = truth != UNKNOWN if arrays.votes is None else (truth != UNKNOWN) & arrays.votes
    counts, right = (
        np.bincount(arrays.annotator, arrays.weighted(flags.astype(np.float64)), minlength=arrays.n_annotators)
        for flags in (voted, voted & (truth == arrays.label))
    )
    hope = (1 + float((1 / np.maximum(arrays.option_counts, 2)).mean())) / 2
    pool = (right.sum() + POOL_PRIOR * hope) / (counts.sum() + POOL_PRIOR)
    accuracy = (right + ANNOTATOR_PRIOR * pool) / (counts + ANNOTATOR_PRIOR)
    posterior = arrays.coin.evidence(accuracy).item_sums(arrays.position, arrays.shape)
    if arrays.abstain is not None:
        posterior[:, arrays.abstain] = -np.inf
    normalise(posterior, arrays)
    return posterior


def _check_overlap(arrays: AnnotationArrays) -> None:
    """Refuse annotations of which no two are about the same item, and none about one with gold."""
    if not len(arrays.gold_items) and np.bincount(arrays.item).max() < 2:
        raise RealmError(
            "no item has two annotations, and none has gold: every vote is unanimous, and EM would call everybody "
            "perfect. Collect a second label for some items."
        )
