"""Majority vote, Dawid-Skene, one coin and MACE over integer arrays, in scikit-learn's manners.

All but the vote are the engine (`realm.crowd.engine`) with other priors; the default is `realm.crowd.model`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import INFINITE, PRIORS, Fit, Floats, Ints, LabelTable, Pool, Priors, fit, statistics
from realm.crowd.starts import chosen_start, gold_posterior
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError

EQUAL = 1 - 1e-9  # options within this factor of the best are tied: sums in another order differ by rounding


class Aggregator:
    """`fit` over integer arrays; what is learned is in attributes that end in `_`.

    EM starts from the shares of the labels and ends after `max_iter` iterations, or when the log-likelihood per
    annotation rises by less than `tol` (0: never). Where there is gold, it also starts from what that says of the
    annotators, and the more likely end is taken. `seed` breaks ties.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) int32 | the most probable label, ties at random by seed; -1 for an item that has none |
    | posterior_ | (items, options) | how probable each option is; zero for options that the item lacks |
    | accuracy_ | (annotators,) | the share of the annotator's labels that is right; NaN with no annotation |
    | classes_ | (options,) | the labels, 0 to K-1 |

    All but the vote also have `class_shares_` (options,), the mean posterior of each option, `confusion_matrices_`
    (annotators, options, options), P(label l given truth k) at [a, k, l], `log_likelihood_` and `n_iter_`.
    """

    priors: ClassVar[Priors | None] = None
    takes_abstain: ClassVar[bool] = True

    def __init__(self, seed: int = 0, *, max_iter: int = 100, tol: float = 1e-6) -> None:
        self.seed, self.max_iter, self.tol = seed, max_iter, tol

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed})"

    def fit(
        self,
        items: npt.ArrayLike,
        annotators: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        n_options: int | None = None,
        gold: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        abstain: int | None = None,
    ) -> Self:
        """Aggregate annotations: integers from 0, in any order, (annotations,) each.

        `n_options` is K, by default as many as occur; `gold` (items,) the true label where it is known, -1 elsewhere,
        which those items are held to; `weight` (annotations,) how much each counts; `abstain` the label of those who
        did not say: an answer like others, but never the truth.
        """
        if isinstance(items, Annotations):
            raise RealmError("`items` is `Annotations`: give `aggregate(annotations, method)`, which fits every task.")
        item, annotator, label = _indices(items=items, annotators=annotators, labels=labels)
        n_items = int(item.max()) + 1
        (known,) = _indices(-1, gold=np.full(n_items, UNKNOWN) if gold is None else gold)
        options = max(int(label.max()), int(known.max())) + 1 if n_options is None else n_options
        if len(known) < n_items or max(label.max(), known.max()) >= options:
            raise RealmError(f"`gold` must have one entry for each of {n_items} items, and labels be below {options}.")
        weights = None if weight is None else np.asarray(weight, np.float64)
        if weights is not None and (weights.shape != item.shape or not (np.isfinite(weights) & (weights > 0)).all()):
            raise RealmError(f"`weight` must be one number above 0 for each of the {len(item)} annotations.")
        table = LabelTable(item, annotator, label, len(known), int(annotator.max()) + 1, options, weights)
        return self.fit_table(table, known, abstain)

    def fit_predict(
        self, items: npt.ArrayLike, annotators: npt.ArrayLike, labels: npt.ArrayLike, **options: Any
    ) -> npt.NDArray[np.int32]:
        """`labels_` of these annotations; `options` are those of `fit`."""
        return self.fit(items, annotators, labels, **options).labels_

    def fit_table(self, table: LabelTable, known: Ints, abstain: int | None = None) -> Self:
        """`fit` to a table that is checked already; `known` (items,) is gold."""
        settled, options = known != UNKNOWN, np.arange(table.n_options)
        possible = np.bincount(table.label, minlength=table.n_options) > 0
        possible[known[settled]] = True
        if abstain is not None:
            if not self.takes_abstain or not 0 <= abstain < len(options) or not possible[options != abstain].any():
                raise RealmError("`abstain` must be one of several labels, and OneCoin does not take it.")
            possible[abstain] = False
        table = replace(table, never_true=None if possible.all() else ~possible)
        posterior, has_label = self._posterior(table, known), table.labelled
        counts = np.full(len(known), table.n_options) if table.option_counts is None else table.option_counts
        posterior[~table.labelled] = ((options < counts[:, None]) / counts[:, None])[~table.labelled]
        posterior[settled] = options == known[settled, None]
        self.posterior_, self.classes_ = posterior, options
        self.labels_ = most_probable(posterior, self.seed).astype(np.int32)
        if self.priors is None:  # abstentions are no votes
            has_label = np.bincount(table.item[possible[table.label]], minlength=table.n_items) > 0
        self.labels_[~(has_label | settled)] = UNKNOWN
        truth = posterior if self.priors else (options == self.labels_[:, None]).astype(np.float64)
        right = statistics(table, truth)[np.arange(len(table.cell_label)), table.cell_label]
        votes = possible[table.cell_label] * table.cell_weight
        with np.errstate(invalid="ignore"):
            self.accuracy_ = (table.of_annotators @ right) / (table.of_annotators @ votes)
        return self

    def _posterior(self, table: LabelTable, known: Ints) -> Floats:
        if self.priors is None:
            return table.vote_shares
        if self.max_iter < 1 or self.tol < 0:
            raise RealmError(f"`max_iter` must be 1 or more and `tol` 0 or more, not {self.max_iter} and {self.tol}.")
        has_gold = bool((known != UNKNOWN).any())
        if table.one_label_each and not has_gold:
            raise RealmError(
                "no item has two annotations, and none has gold: every vote is unanimous, and EM would call everybody "
                "perfect. Collect a second label for some items."
            )
        starts = [self._start(table, known), *([gold_posterior(table, known)] if has_gold else [])]
        fits = [self._em(table, known, start, self.max_iter - 1, self.tol) for start in starts]
        best = max(fits, key=lambda each: each.log_likelihood)
        self.class_shares_, self.log_likelihood_ = best.class_shares, best.log_likelihood
        self.n_iter_, self.table_, self.parameters_ = best.iterations + 1, table, best.parameters
        return best.posterior

    def _em(self, table: LabelTable, known: Ints, start: Floats | Fit, max_iter: int = 100, tol: float = 1e-6) -> Fit:
        assert self.priors is not None
        return fit(table, self.priors, Pool.of(table, self.priors), start, known=known, max_iter=max_iter, tol=tol)

    def _start(self, table: LabelTable, known: Ints) -> Floats | Fit:
        return table.vote_shares

    @property
    def confusion_matrices_(self) -> Floats:
        """P(label l | truth k) of each annotator; even where they have no labels. (annotators, options, options)"""
        table, shape = self.table_, (self.table_.n_annotators, self.table_.n_options)
        annotator, label = (index.ravel() for index in np.indices(shape))
        evidence = self.parameters_.evidence_of(table, annotator, label, self.priors or Priors())
        matrices = np.exp(evidence).reshape(*shape, -1).transpose(0, 2, 1)
        matrices = np.where((table.annotator_weight > 0)[:, None, None], matrices, 1.0)
        return np.asarray(matrices / matrices.sum(axis=2, keepdims=True))


class MajorityVote(Aggregator):
    """The option that most annotators gave; ties are broken uniformly at random. Abstentions are no votes.

    M. J. A. N. de Condorcet (1785). Essai sur l'application de l'analyse à la probabilité des décisions rendues à la
    pluralité des voix. `posterior_` is the share of the item's annotations that each option has; `accuracy_` is how
    often the annotator agrees with the majority, their own vote counted.

    Examples:
        >>> vote = MajorityVote().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> vote.labels_.tolist(), vote.posterior_[0].round(2).tolist()
        ([1, 0], [0.33, 0.67])
    """


class DawidSkene(Aggregator):
    """A confusion matrix per annotator, by maximum likelihood.

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28. A matrix has K (K - 1) parameters: where annotators have
    few labels of each class, use another method.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> DawidSkene().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1]).labels_.tolist()
        [0, 1, 1]
    """

    priors = Priors(rows=0.0, shared=INFINITE, habit=INFINITE, form="none", classes=0.0)


class OneCoin(Aggregator):
    """One accuracy per annotator: right with probability a, else any of the other options equally.

    Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing. Journal of Machine Learning Research, 17, 1-44.
    """

    takes_abstain = False
    priors = replace(PRIORS["coin"], skill=0.0, classes=0.0)


class Mace(Aggregator):
    """P(annotator a gives label l | truth k) = beta[a] [l = k] + (1 - beta[a]) xi[a, l].

    D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013). Learning whom to trust with MACE. Proceedings of
    NAACL-HLT 2013, 1120-1130. beta and xi are drawn to the pool of annotators, and three deterministic starts take the
    place of random ones (`realm.crowd.starts`).
    """

    priors = PRIORS["habit"]

    def _start(self, table: LabelTable, known: Ints) -> Floats | Fit:
        return chosen_start(table, known, self._em)

    @property
    def expertise_(self) -> Floats:
        """beta; NaN with no annotation. Shape (annotators,)"""
        return np.where(self.table_.annotator_weight > 0, self.parameters_.skill, np.nan)

    @property
    def habits_(self) -> Floats:
        """xi; NaN with no annotation. Shape (annotators, options)"""
        return np.where((self.table_.annotator_weight > 0)[:, None], self.parameters_.habit, np.nan)


ESTIMATORS: dict[str, type[Aggregator]] = {
    "majority": MajorityVote,
    "dawid-skene": DawidSkene,
    "one-coin": OneCoin,
    "mace": Mace,
}


def most_probable(scores: Floats, seed: int) -> Ints:
    """The best option of each row of (items, options), ties broken uniformly at random by seed."""
    best: Ints = scores.argmax(axis=1)
    threshold = scores[np.arange(len(scores)), best][:, None] * EQUAL
    tied = np.flatnonzero((scores >= threshold).sum(axis=1) > 1)
    if len(tied):
        draws = np.random.default_rng(seed).random((len(tied), scores.shape[1]))
        draws[scores[tied] < threshold[tied]] = -1.0
        best[tied] = draws.argmax(axis=1)
    return best


def _indices(lowest: int = 0, **columns: npt.ArrayLike) -> list[Ints]:
    """Columns of whole numbers from `lowest`, equally long and not empty."""
    arrays = [np.asarray(values) for values in columns.values()]
    for name, array in zip(columns, arrays, strict=True):
        if array.ndim != 1 or not 0 < len(array) == len(arrays[0]) or array.dtype.kind not in "iub":
            raise RealmError(
                f"`{name}` must be a column of whole numbers, one entry per annotation (`gold`: per item), not empty; "
                "`numpy.unique(values, return_inverse=True)` numbers names."
            )
        if array.min() < lowest:
            raise RealmError(f"`{name}[{array.argmin()}]` is {array.min()}; the lowest allowed is {lowest}.")
    return [array.astype(np.int64, copy=False) for array in arrays]
