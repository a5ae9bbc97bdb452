"""Dawid-Skene: a confusion matrix per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse

from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import (
    FLOOR,
    Climb,
    class_shares,
    climb,
    gold_start,
    log_priors,
    need_overlap,
    normalise,
)
from realm.crowd.aggregation.votes import Floats, Votes
from realm.errors import RealmError


@dataclass(eq=False)
class DawidSkene(Aggregator):
    """EM for P(annotator a gives label l | truth k) = confusion[a, k, l] and P(truth = k) = prior[k].

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28.

    Starts from the vote shares and works in log space; each step is one sparse product over the annotations. With
    `smoothing=0` every estimate is the maximum likelihood one, floored at 1e-10; `smoothing=s` adds s annotations to
    every cell of every confusion matrix, which is a Dirichlet(1 + s) prior. EM ends after `max_iter` iterations, or
    when the objective per annotation rises by less than `tol` (0: never).

    Where there is gold, EM also climbs from what the gold says of the annotators, and the higher summit is kept.

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

    def _fit(self, found: Votes) -> Floats:
        if self.smoothing < 0:
            raise RealmError(f"smoothing must be 0 or more, not {self.smoothing}.")
        need_overlap(found)
        k = found.n_options
        pair = found.annotator * k + found.label
        matrix = found.matrix(pair, found.n_annotators * k)
        given = np.bincount(pair, minlength=found.n_annotators * k) > 0

        path, posterior, priors, chances = self._climb(found, matrix, given, found.vote_shares())
        if (start := gold_start(found)) is not None:
            other = self._climb(found, matrix, given, start)
            if other[0].objectives[-1] > path.objectives[-1]:
                path, posterior, priors, chances = other
        self.log_likelihoods_, self.log_likelihood_ = path.likelihoods, path.likelihoods[-1]
        self.n_iter_ = len(path.likelihoods)
        self.priors_ = priors
        self.confusion_ = np.ascontiguousarray(chances.reshape(-1, k, k).transpose(0, 2, 1))
        self.accuracy_ = found.annotator_mean(posterior.ravel()[found.cell])
        return posterior

    def _climb(
        self, found: Votes, matrix: sparse.csr_array, given: npt.NDArray[np.bool_], posterior: Floats
    ) -> tuple[Climb, Floats, Floats, Floats]:
        """EM from this posterior: its path, and the posterior, class priors and chances at its end."""
        transposed = matrix.T
        priors, chances = class_shares(posterior), self._chances(transposed @ posterior, given, found.n_options)

        def step() -> tuple[float, float]:
            nonlocal posterior, priors, chances
            with np.errstate(divide="ignore"):
                log_chances = np.log(chances)
            posterior = matrix @ log_chances
            posterior += log_priors(priors, found.met)
            likelihood = normalise(posterior, found)
            prior = self.smoothing * float(log_chances[:, found.met].sum()) if self.smoothing else 0.0
            priors, chances = class_shares(posterior), self._chances(transposed @ posterior, given, found.n_options)
            return likelihood, likelihood + prior

        path = climb(step, self.max_iter, self.tol, found.n_annotations)
        return path, posterior, priors, chances

    def _chances(self, sums: Floats, given: npt.NDArray[np.bool_], k: int) -> Floats:
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
