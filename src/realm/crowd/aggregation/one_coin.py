"""One-coin Dawid-Skene: a single accuracy per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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


@dataclass(eq=False)
class OneCoin(Aggregator):
    """EM for one accuracy per annotator: right with probability a, else any of the other K - 1 options equally.

    Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing. Journal of Machine Learning Research, 17, 1-44.

    Starts from the vote shares. Only the annotators who gave an option tell it from the others, so an E-step sums
    log(a (K - 1) / (1 - a)) over them and never looks at a confusion matrix. K is the number of the item's own options.
    EM ends after `max_iter` iterations, or when the log-likelihood per annotation rises by less than `tol` (0: never).
    Where there is gold, EM also climbs from what the gold says of the annotators, and the higher summit is kept.

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

    def _fit(self, found: Votes) -> Floats:
        need_overlap(found)
        path, posterior = self._climb(found, found.vote_shares())
        if (start := gold_start(found)) is not None:
            other = self._climb(found, start)
            if other[0].objectives[-1] > path.objectives[-1]:
                path, posterior = other
        self.log_likelihoods_, self.log_likelihood_ = path.likelihoods, path.likelihoods[-1]
        self.n_iter_ = len(path.likelihoods)
        self.priors_ = class_shares(posterior)
        self.accuracy_ = found.annotator_mean(posterior.ravel()[found.cell])
        return posterior

    def _climb(self, found: Votes, posterior: Floats) -> tuple[Climb, Floats]:
        """EM from this posterior: its path, and the posterior at its end, from which all else follows."""
        constant = -float(found.log_others @ found.per_item)

        def step() -> tuple[float, float]:
            nonlocal posterior
            accuracy = np.nan_to_num(found.annotator_mean(posterior.ravel()[found.cell]))
            np.clip(accuracy, FLOOR, 1 - FLOOR, out=accuracy)
            log_wrong = np.log1p(-accuracy)
            log_shares = log_priors(class_shares(posterior), found.met)
            posterior = found.cell_sums((np.log(accuracy) - log_wrong)[found.annotator])
            posterior += found.guesses
            posterior += log_shares
            likelihood = normalise(posterior, found) + constant + float(log_wrong @ found.per_annotator)
            return likelihood, likelihood

        return climb(step, self.max_iter, self.tol, found.n_annotations), posterior
