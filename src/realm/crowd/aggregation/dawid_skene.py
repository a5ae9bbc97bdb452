"""Dawid-Skene: a confusion matrix per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays
from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import (
    FLOOR,
    EMPath,
    class_shares,
    gold_start,
    log_priors,
    need_overlap,
    normalise,
    run_em,
)
from realm.crowd.evidence import Bools, Floats
from realm.errors import RealmError


@dataclass(eq=False)
class DawidSkene(Aggregator):
    """EM for P(annotator a gives label l | truth k) = confusion[a, k, l] and P(truth = k) = prior[k].

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28.

    Starts from the shares of the labels and works in log space; each step is one sparse product over the annotations.
    With `smoothing=0` every estimate is the maximum likelihood one, floored at 1e-10; `smoothing=s` adds s annotations
    to every entry of every confusion matrix, which is a Dirichlet(1 + s) prior. EM ends after `max_iter` iterations, or
    when the objective per annotation rises by less than `tol` (0: never).

    Where there is gold, EM also starts from what the gold says of the annotators, and the higher maximum is kept.

    An item with fewer options than K can only be one of its own. What the annotators' confusion matrices say of the
    other options is pooled over all the items they labelled.

    | attribute | shape | meaning |
    |---|---|---|
    | confusion_ | (annotators, options, options) | P(label l given truth k) at [a, k, l]; a row sums to 1 |
    | priors_ | (options,) | P(truth = k) |
    | accuracy_ | (annotators,) | the mean posterior of the labels the annotator gave |
    | log_likelihoods_ | (iterations,) | at each E-step; `log_likelihood_` is the last |
    | n_iter_ | | iterations run |

    The other attributes are those of every `Aggregator`.

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

    confusion_: Floats = field(init=False, repr=False)
    priors_: Floats = field(init=False, repr=False)
    log_likelihoods_: list[float] = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        if self.smoothing < 0:
            raise RealmError(f"`smoothing` must be 0 or more, not {self.smoothing}.")
        need_overlap(arrays)
        k = arrays.n_options
        pair = arrays.annotator * k + arrays.label
        matrix = arrays.matrix(pair, arrays.n_annotators * k)
        given = np.bincount(pair, minlength=arrays.n_annotators * k) > 0

        path, posterior, priors, label_probs = self._em(arrays, matrix, given, arrays.label_shares())
        if (start := gold_start(arrays)) is not None:
            other = self._em(arrays, matrix, given, start)
            if other[0].objectives[-1] > path.objectives[-1]:
                path, posterior, priors, label_probs = other
        self.log_likelihoods_, self.log_likelihood_ = path.likelihoods, path.likelihoods[-1]
        self.n_iter_ = len(path.likelihoods)
        self.priors_ = priors
        self.confusion_ = np.ascontiguousarray(label_probs.reshape(-1, k, k).transpose(0, 2, 1))
        self.accuracy_ = arrays.annotator_mean(posterior.ravel()[arrays.position])
        return posterior

    def _em(
        self, arrays: AnnotationArrays, matrix: sparse.csr_array, given: Bools, posterior: Floats
    ) -> tuple[EMPath, Floats, Floats, Floats]:
        """EM from this posterior: its path, and the posterior, class priors and label_probs at its end."""
        transposed = matrix.T
        priors, label_probs = (
            class_shares(posterior),
            self._label_probs(transposed @ posterior, given, arrays.n_options),
        )

        def step() -> tuple[float, float]:
            nonlocal posterior, priors, label_probs
            with np.errstate(divide="ignore"):
                log_label_probs = np.log(label_probs)
            posterior = matrix @ log_label_probs
            posterior += log_priors(priors, arrays.met)
            likelihood = normalise(posterior, arrays)
            prior = self.smoothing * float(log_label_probs[:, arrays.met].sum()) if self.smoothing else 0.0
            priors, label_probs = (
                class_shares(posterior),
                self._label_probs(transposed @ posterior, given, arrays.n_options),
            )
            return likelihood, likelihood + prior

        path = run_em(step, self.max_iter, self.tol, arrays.total_weight)
        return path, posterior, priors, label_probs

    def _label_probs(self, sums: Floats, given: Bools, k: int) -> Floats:
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
