"""One-coin Dawid-Skene: a single accuracy per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from realm.crowd.aggregation.annotation_arrays import AnnotationArrays
from realm.crowd.aggregation.base import Aggregator
from realm.crowd.aggregation.em import (
    check_iterations,
    class_shares,
    gold_start,
    log_priors,
    need_overlap,
    normalise,
)
from realm.crowd.evidence import Evidence, Floats


@dataclass(eq=False)
class OneCoin(Aggregator):
    """EM for one accuracy per annotator: right with probability a, else any of the other K - 1 options equally.

    Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing. Journal of Machine Learning Research, 17, 1-44.

    Starts from the shares of the labels. The evidence is that of `realm.crowd.coin`: an option is told from the others
    only by the annotators who gave it. K is the number of the item's own options.
    EM ends after `max_iter` iterations, or when the log-likelihood per annotation rises by less than `tol` (0: never).
    Where there is gold, EM also starts from what the gold says of the annotators, and the higher maximum is kept.

    | attribute | shape | meaning |
    |---|---|---|
    | accuracy_ | (annotators,) | a |
    | priors_ | (options,) | P(truth = k) |
    | log_likelihoods_ | (iterations,) | at each E-step; `log_likelihood_` is the last |
    | n_iter_ | | iterations run |

    The other attributes are those of every `Aggregator`.

    Example:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = OneCoin().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), model.accuracy_.round(2).tolist()
        ([0, 1, 1], [1.0, 1.0, 0.33])
    """

    max_iter: int = 100
    tol: float = 1e-6
    seed: int = 0

    priors_: Floats = field(init=False, repr=False)
    log_likelihoods_: list[float] = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)

    def _fit(self, arrays: AnnotationArrays) -> Floats:
        need_overlap(arrays)
        check_iterations(self.max_iter, self.tol)
        path, posterior = self._em(arrays, arrays.label_shares())
        if (start := gold_start(arrays)) is not None:
            other, other_posterior = self._em(arrays, start)
            if other[-1] > path[-1]:
                path, posterior = other, other_posterior
        self.log_likelihoods_, self.log_likelihood_ = path, path[-1]
        self.n_iter_ = len(path)
        self.priors_ = class_shares(posterior)
        self.accuracy_ = arrays.annotator_mean(posterior.ravel()[arrays.position])
        return posterior

    def _em(self, arrays: AnnotationArrays, posterior: Floats) -> tuple[list[float], Floats]:
        """EM from this posterior: its log-likelihoods, and the posterior at its end, from which all else follows."""
        start = np.nan_to_num(arrays.annotator_mean(posterior.ravel()[arrays.position]))

        def e_step(evidence: Evidence) -> tuple[Floats, float]:
            nonlocal posterior
            log_shares = log_priors(class_shares(posterior), arrays.met)
            posterior = evidence.item_sums(arrays.position, arrays.shape)
            posterior += log_shares
            log_likelihood = normalise(posterior, arrays) + evidence.constant
            return posterior.ravel()[arrays.position], log_likelihood

        fit = arrays.coin.fit(e_step, start, max_iter=self.max_iter, least_gain=self.tol)
        return fit.log_likelihoods, posterior
