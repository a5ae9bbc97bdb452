"""Majority vote, Dawid-Skene, one coin and MACE over integer arrays, in scikit-learn's manners.

All but the vote are the engine (`realm.crowd.engine`) with other priors; the default is `realm.crowd.model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import INFINITE, LEAST, PRIORS, Fit, Floats, Ints, LabelTable, Pool, Priors, fit, statistics
from realm.crowd.shared_mistakes import forecast_labels
from realm.crowd.starts import chosen_start, gold_posterior
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress

EQUAL = 1 - 1e-9
"""Options within this factor of the best are tied: two sums of the same terms in another order differ by rounding."""


@dataclass(eq=False)
class Aggregator:
    """`fit` over integer arrays; what is learned is in attributes that end in `_`.

    | attribute | shape | meaning |
    |---|---|---|
    | labels_ | (items,) int32 | the most probable label, ties at random by seed; -1 for an item that has none |
    | posterior_ | (items, options) | how probable each option is; zero for options that the item lacks |
    | accuracy_ | (annotators,) | the share of the annotator's labels that is right; NaN with no annotation |
    | classes_ | (options,) | the labels, 0 to K-1 |
    """

    takes_abstain: ClassVar[bool] = True
    """Whether `fit` takes `abstain`."""
    seed: int = 0

    labels_: npt.NDArray[np.int32] = field(init=False, repr=False)
    posterior_: Floats = field(init=False, repr=False)
    accuracy_: Floats = field(init=False, repr=False)
    classes_: Ints = field(init=False, repr=False)

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
        """Aggregate the annotations.

        | argument | shape | meaning |
        |---|---|---|
        | items, annotators, labels | (annotations,) | integers from 0, in any order |
        | n_options | | K; default: as many as occur |
        | gold | (items,) | the true label where it is known, -1 elsewhere; those items are held to it |
        | weight | (annotations,) | how much each annotation counts; default 1. Weight 2 is as good as two annotations |
        | abstain | | the label of those who did not say: an answer like others, but never the truth |
        """
        if isinstance(items, Annotations):
            raise RealmError("`items` is `Annotations`: give `aggregate(annotations, method)`, which fits every task.")
        return self.fit_table(*_checked(items, annotators, labels, n_options, gold, weight), abstain)

    def fit_table(self, table: LabelTable, known: Ints, abstain: int | None = None) -> Self:
        """`fit` to a table that is checked already; `known` (items,) is gold."""
        settled, options = known != UNKNOWN, np.arange(table.n_options)
        possible = np.bincount(table.label, minlength=table.n_options) > 0
        possible[known[settled]] = True
        if abstain is not None:
            if not self.takes_abstain or not 0 <= abstain < len(options) or not possible[options != abstain].any():
                able = ", ".join(each.__name__ for each in ESTIMATORS.values() if each.takes_abstain)
                raise RealmError(f"`abstain` must be one of several labels, and the method one of: {able}.")
            possible[abstain] = False
        table = replace(table, never_true=None if possible.all() else ~possible)
        posterior = self._fit(table, known)
        bare = np.flatnonzero(~table.labelled)
        counts = table.n_options if table.option_counts is None else table.option_counts[bare, None]
        posterior[bare] = (options < counts) / counts
        posterior[settled] = options == known[settled, None]
        self.posterior_, self.classes_ = posterior, options
        self.labels_ = most_probable(posterior, self.seed).astype(np.int32)
        self.labels_[~(self._labelled(table) | settled)] = UNKNOWN
        votes = np.ones(len(table.cell_label)) if table.never_true is None else ~table.never_true[table.cell_label]
        with np.errstate(invalid="ignore"):
            self.accuracy_ = (table.of_annotators @ self._right(table)) / (
                table.of_annotators @ (votes * table.cell_weight)
            )
        return self

    def fit_predict(
        self, items: npt.ArrayLike, annotators: npt.ArrayLike, labels: npt.ArrayLike, **options: Any
    ) -> npt.NDArray[np.int32]:
        """`labels_` of these annotations; `options` are those of `fit`."""
        return self.fit(items, annotators, labels, **options).labels_

    def _fit(self, table: LabelTable, known: Ints) -> Floats:
        """Set the method's own attributes; return the posterior (items, options)."""
        raise NotImplementedError

    def _labelled(self, table: LabelTable) -> npt.NDArray[np.bool_]:
        """The items that get a label. Shape (items,)"""
        return table.labelled

    def _right(self, table: LabelTable) -> Floats:
        """How much of the annotations of each cell is right. Shape (cells,)"""
        return statistics(table, self.posterior_)[np.arange(len(table.cell_label)), table.cell_label]


@dataclass(eq=False)
class MajorityVote(Aggregator):
    """The option that most annotators gave; ties are broken uniformly at random.

    M. J. A. N. de Condorcet (1785). Essai sur l'application de l'analyse à la probabilité des décisions rendues à la
    pluralité des voix.

    `posterior_` is the share of the item's annotations that each option has; `accuracy_` is how often the annotator
    agrees with the majority, their own vote counted. Abstentions are no votes.

    Examples:
        >>> vote = MajorityVote().fit(items=[0, 0, 0, 1], annotators=[0, 1, 2, 0], labels=[1, 1, 0, 0])
        >>> vote.labels_.tolist(), vote.posterior_[0].round(2).tolist()
        ([1, 0], [0.33, 0.67])
    """

    def _fit(self, table: LabelTable, known: Ints) -> Floats:
        return table.vote_shares

    def _labelled(self, table: LabelTable) -> npt.NDArray[np.bool_]:
        votes = table.item if table.never_true is None else table.item[~table.never_true[table.label]]
        return np.bincount(votes, minlength=table.n_items) > 0

    def _right(self, table: LabelTable) -> Floats:
        agrees = (table.label == self.labels_[table.item]) * (1.0 if table.weight is None else table.weight)
        return np.bincount(table.cell, agrees, minlength=len(table.cell_label)).astype(np.float64)


@dataclass(eq=False)
class EMAggregator(Aggregator):
    """EM by the engine, from the shares of the labels; `priors` say which model of annotators.

    It ends after `max_iter` iterations, or when the log-likelihood per annotation rises by less than `tol` (0: never).
    Where there is gold, EM also starts from what it says of the annotators, and the more likely end is taken.

    | attribute | shape | meaning |
    |---|---|---|
    | class_shares_ | (options,) | P(truth = k), the mean posterior of each option |
    | confusion_matrices_ | (annotators, options, options) | P(label l given truth k) at [a, k, l]; rows sum to 1 |
    | log_likelihood_, n_iter_ | | at the last E-step, and how many there were |
    """

    priors: ClassVar[Priors]
    max_iter: int = 100
    tol: float = 1e-6
    progress: Progress = field(default=ignore_progress, repr=False, kw_only=True)

    class_shares_: Floats = field(init=False, repr=False)
    log_likelihood_: float = field(init=False, repr=False)
    n_iter_: int = field(init=False, repr=False)
    _table: LabelTable = field(init=False, repr=False)
    _state: Fit = field(init=False, repr=False)

    def _start(self, table: LabelTable, known: Ints, pool: Pool) -> Floats | Fit:
        """Where EM starts: a posterior (items, options), or an earlier fit."""
        return table.vote_shares

    def _fit(self, table: LabelTable, known: Ints) -> Floats:
        if self.max_iter < 1 or self.tol < 0:
            raise RealmError(f"`max_iter` must be 1 or more and `tol` 0 or more, not {self.max_iter} and {self.tol}.")
        truth = known if (known != UNKNOWN).any() else None
        if table.one_label_each and truth is None:
            raise RealmError(
                "no item has two annotations, and none has gold: every vote is unanimous, and EM would call everybody "
                "perfect. Collect a second label for some items."
            )
        pool = Pool.of(table, self.priors)

        def run(start: Floats | Fit) -> Fit:
            return fit(
                table, self.priors, pool, start, known=truth, max_iter=self.max_iter - 1, tol=self.tol,
                progress=lambda done, total: self.progress("aggregating", done, self.max_iter),
            )  # fmt: skip

        state = run(self._start(table, known, pool))
        if truth is not None:
            state = max(state, run(gold_posterior(table, truth)), key=lambda each: each.log_likelihood)
        self.progress("aggregating", self.max_iter, self.max_iter)  # often earlier than after the most iterations
        self.class_shares_, self.log_likelihood_ = state.class_shares, state.log_likelihood
        self.n_iter_, self._table, self._state = state.iterations + 1, table, state
        self.__dict__.pop("confusion_matrices_", None)
        return state.posterior

    def forecasts(self) -> Floats:
        """How well an item's other labels foretell a label at each exponent, for `fit_exponent`. (items, exponents)"""
        log_shares = np.log(np.maximum(self.class_shares_, LEAST))
        return forecast_labels(self._table, self._state.parameters.evidence, log_shares)

    @cached_property
    def confusion_matrices_(self) -> Floats:
        """P(label l | truth k) of each annotator; even where they have no labels. (annotators, options, options)"""
        table, parameters = self._table, self._state.parameters
        annotator, label = (index.ravel() for index in np.indices((table.n_annotators, table.n_options)))
        matrices = np.exp(parameters.any_evidence(annotator, label, self.priors))
        matrices[table.cell_annotator * table.n_options + table.cell_label] = np.exp(parameters.evidence)
        matrices = matrices.reshape(table.n_annotators, table.n_options, table.n_options).transpose(0, 2, 1)
        matrices = np.where((table.annotator_weight > 0)[:, None, None], matrices, 1.0)
        return np.asarray(matrices / matrices.sum(axis=2, keepdims=True))


@dataclass(eq=False)
class DawidSkene(EMAggregator):
    """A confusion matrix per annotator, by maximum likelihood.

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28.

    A matrix has K (K - 1) parameters: where annotators have few labels of each class, use another method.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> DawidSkene().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1]).labels_.tolist()
        [0, 1, 1]
    """

    priors = Priors(rows=0.0, shared=INFINITE, habit=INFINITE, form="none", classes=0.0)


@dataclass(eq=False)
class OneCoin(EMAggregator):
    """One accuracy per annotator: right with probability a, else any of the other options equally.

    Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing. Journal of Machine Learning Research, 17, 1-44.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> OneCoin().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1]).accuracy_.round(2).tolist()
        [1.0, 1.0, 0.33]
    """

    takes_abstain = False
    priors = replace(PRIORS["coin"], skill=0.0, classes=0.0)


@dataclass(eq=False)
class Mace(EMAggregator):
    """P(annotator a gives label l | truth k) = beta[a] [l = k] + (1 - beta[a]) xi[a, l].

    D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013). Learning whom to trust with MACE. Proceedings of
    NAACL-HLT 2013, 1120-1130.

    beta and xi are drawn to the pool of annotators, and three deterministic starts take the place of random ones
    (`realm.crowd.starts`). `expertise_` (annotators,) is beta, `habits_` (annotators, options) xi; NaN with no
    annotation.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = Mace().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), bool(model.expertise_[2] < model.expertise_[0])
        ([0, 1, 1], True)
    """

    priors = PRIORS["habit"]

    expertise_: Floats = field(init=False, repr=False)
    habits_: Floats = field(init=False, repr=False)

    def _start(self, table: LabelTable, known: Ints, pool: Pool) -> Floats | Fit:
        def run(part: LabelTable, truth: Ints, posterior: Floats) -> Fit:
            return fit(part, self.priors, pool, posterior, known=truth if (truth != UNKNOWN).any() else None)

        return chosen_start(table, known, self.priors, run)

    def _fit(self, table: LabelTable, known: Ints) -> Floats:
        posterior = super()._fit(table, known)
        labelled = table.annotator_weight > 0
        self.expertise_ = np.where(labelled, self._state.parameters.skill, np.nan)
        self.habits_ = np.where(labelled[:, None], self._state.parameters.habit, np.nan)
        return posterior


ESTIMATORS: dict[str, type[Aggregator]] = {
    "majority": MajorityVote, "dawid-skene": DawidSkene, "one-coin": OneCoin, "mace": Mace,
}  # fmt: skip


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


def _checked(
    items: npt.ArrayLike, annotators: npt.ArrayLike, labels: npt.ArrayLike, n_options: int | None,
    gold: npt.ArrayLike | None, weight: npt.ArrayLike | None,
) -> tuple[LabelTable, Ints]:  # fmt: skip
    """The arguments of `fit` as a table, and the truth where it is known, -1 elsewhere (items,)."""
    item, annotator, label = _indices(items, "items"), _indices(annotators, "annotators"), _indices(labels, "labels")
    if not 0 < len(item) == len(annotator) == len(label):
        raise RealmError(
            "`items`, `annotators` and `labels` must be equally long, one entry per annotation, and not empty: they "
            f"have {len(item)}, {len(annotator)} and {len(label)}."
        )
    n_items = int(item.max()) + 1
    known = np.full(n_items, UNKNOWN) if gold is None else _indices(gold, "gold", UNKNOWN, n_items)
    options = max(int(label.max()), int(known.max())) + 1 if n_options is None else n_options
    for name, values in (("labels", label), ("gold", known)):
        if len(beyond := np.flatnonzero(values >= options)):
            raise RealmError(f"`{name}[{beyond[0]}]` is {values[beyond[0]]}, but `n_options` is {options}.")
    weights = None if weight is None else np.asarray(weight, np.float64)
    if weights is not None and (weights.shape != item.shape or not (np.isfinite(weights) & (weights > 0)).all()):
        raise RealmError(f"`weight` must be one number above 0 for each of the {len(item)} annotations.")
    return LabelTable(item, annotator, label, len(known), int(annotator.max()) + 1, options, weights), known


def _indices(values: npt.ArrayLike, name: str, lowest: int = 0, length: int = 0) -> Ints:
    """Whole numbers from `lowest`, as many as `length` or more."""
    array = np.asarray(values)
    if array.ndim != 1 or len(array) < length:
        raise RealmError(f"`{name}` must have one dimension and {length} or more entries; its shape is {array.shape}.")
    if array.dtype.kind not in "iub" and len(array):
        raise RealmError(
            f"`{name}` must be whole numbers from {lowest}, not {array.dtype}. "
            "`numpy.unique(values, return_inverse=True)` numbers names."
        )
    if len(array) and array.min() < lowest:
        raise RealmError(f"`{name}[{array.argmin()}]` is {array.min()}; the lowest allowed is {lowest}.")
    return array.astype(np.int64, copy=False)
