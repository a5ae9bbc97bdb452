"""Dawid-Skene: a confusion matrix per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from realm.aggregation.softmax import normalise
from realm.aggregation.votes import Floats, Integers, agreement, most_probable, votes
from realm.errors import RealmError

FLOOR = 1e-10


@dataclass(eq=False)
class DawidSkene:
    """EM for P(annotator a gives label l | truth k) = confusion[a, k, l] and P(truth = k) = prior[k].

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28.

    Starts from the vote shares and works in log space; each step is one sparse product over the annotations. With
    `smoothing=0` every estimate is the maximum likelihood one, floored at 1e-10; `smoothing=s` adds s annotations to
    every cell of every confusion matrix, which is a Dirichlet(1 + s) prior. EM ends after `max_iter` iterations, or
    when the objective per annotation rises by less than `tol` (0: never).

    An item with fewer options than K can only be one of its own. What the annotators' confusion matrices say of the
    other options is pooled over all the items they labelled.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) | the most probable label, ties at random; -1 for an item with no annotation |
    | posterior_ | (items, options) | P(truth = k given all labels) |
    | confusion_ | (annotators, options, options) | P(label l given truth k) at [a, k, l]; a row sums to 1 |
    | priors_ | (options,) | P(truth = k) |
    | accuracy_ | (annotators,) | the mean posterior of the labels the annotator gave; NaN with none |
    | log_likelihoods_ | (iterations,) | before each M-step; `log_likelihood_` is the last |
    | n_iter_, classes_ | | iterations run; the labels |

    Example:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = DawidSkene().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist()
        [0, 1, 1]
    """

    max_iter: int = 100
    tol: float = 1e-6
    smoothing: float = 0.0
    seed: int = 0

    labels_: npt.NDArray[np.int32] = field(init=False, repr=False)
    posterior_: Floats = field(init=False, repr=False)
    confusion_: Floats = field(init=False, repr=False)
    priors_: Floats = field(init=False, repr=False)
    accuracy_: Floats = field(init=False, repr=False)
    classes_: npt.NDArray[np.int64] = field(init=False, repr=False)
    log_likelihoods_: list[float] = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)

    def fit(
        self,
        items: Integers,
        annotators: Integers,
        labels: Integers,
        *,
        n_options: int | None = None,
        option_counts: Integers | None = None,
        gold: Integers | None = None,
    ) -> DawidSkene:
        """Aggregate. `items`, `annotators` and `labels` are (annotations,) integers from 0.

        `n_options` is K (default: as many as are met); `option_counts` (items,) where items have options of their
        own number; `gold` (items,) the true label where it is known and -1 elsewhere.
        """
        if self.max_iter < 1 or self.tol < 0 or self.smoothing < 0:
            raise RealmError("DawidSkene needs max_iter of 1 or more, and tol and smoothing of 0 or more.")
        found = votes(items, annotators, labels, n_options, option_counts, gold)
        k = found.n_options
        pair = found.annotator * k + found.label
        matrix = found.matrix(pair, found.n_annotators * k)
        transposed = matrix.T
        given = np.bincount(pair, minlength=found.n_annotators * k) > 0

        posterior = found.vote_shares()
        # A class that nobody gave and no gold names has no mass at the start, and EM can never give it any.
        met = posterior.any(axis=0)
        priors, chances = posterior.mean(axis=0), self._confusion(transposed @ posterior, given, k)
        self.log_likelihoods_ = []
        previous = -np.inf
        for _ in range(self.max_iter):
            with np.errstate(divide="ignore"):
                log_priors = np.log(np.where(met, np.maximum(priors, FLOOR), 0.0))
                log_chances = np.log(chances)
            posterior = matrix @ log_chances
            posterior += log_priors
            likelihood = normalise(posterior, found)
            self.log_likelihoods_.append(likelihood)
            objective = likelihood
            if self.smoothing:
                objective += self.smoothing * float(log_chances[:, met].sum())
            priors, chances = posterior.mean(axis=0), self._confusion(transposed @ posterior, given, k)
            if self.tol and objective - previous < self.tol * found.n_annotations:
                break
            previous = objective

        self.n_iter_, self.log_likelihood_ = len(self.log_likelihoods_), self.log_likelihoods_[-1]
        self.priors_ = priors
        self.confusion_ = np.ascontiguousarray(chances.reshape(-1, k, k).transpose(0, 2, 1))
        self.accuracy_ = agreement(found, posterior.ravel()[found.cell])
        self.labels_ = found.spread_labels(most_probable(posterior, self.seed))
        self.posterior_ = found.spread(posterior)
        self.classes_ = np.arange(k)
        return self

    def _confusion(self, sums: Floats, given: npt.NDArray[np.bool_], k: int) -> Floats:
        """Expected counts (annotators * labels, truths) to P(label | truth), in the same shape.

        Without smoothing a label the annotator never gave has probability 0, and a truth they never met leaves those
        they did give equally likely.
        """
        if self.smoothing:
            sums += self.smoothing
        else:
            np.maximum(sums, np.where(given, FLOOR, 0.0)[:, None], out=sums)
        cube = sums.reshape(-1, k, k)
        totals = cube.sum(axis=1, keepdims=True)
        silent = totals == 0
        if silent.any():
            cube += silent / k
            totals += silent
        cube /= totals
        return sums
