"""The one model of annotators, and the EM engine that fits it.

    z_i ~ P_i                                      the truth of item i; P_i a model's probabilities, or the class shares
    y | z = k, annotator j ~ C_j[k]                the label that j gives
    C_j[k] ~ Dirichlet(s rho_jk)
    rho_jk(y) ~ (b_j [y = k] + (1 - b_j) xi_j(y)) D[k, y]
    b_j ~ Beta(pool),  xi_j ~ Dirichlet(kappa * label shares),  D[k, y] drawn to 1: mistakes that everybody shares

`statistics` are expected counts, additive over any split of the items; `maximise` turns them into parameters. Dawid and
Skene's model, MACE, one coin and the rest are the same engine with other `Priors` (`realm.crowd.aggregation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

if TYPE_CHECKING:
    from realm.crowd.pairs import PairAgreement

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=Any)

LEAST = 1e-12
"""No label is taken to be impossible: the floor of probabilities before their logarithm."""
INNER_STEPS = 5
"""Fixed-point steps for b and xi within one M-step: they move by less than 1e-3 after these."""
EMPTY = 1e-10
"""Without a prior on rows, the expected labels that a cell has at least: a truth that an annotator never met leaves the
labels they gave equally likely, as in crowd-kit."""
EXPERT = 0.999
"""The b at which an annotator named an expert is held: a slip of theirs is not an impossible event."""
KAPPAS = np.geomspace(1.0, 1000.0, 25)
"""Strengths considered for the prior on habits; 1000 means that annotators' label shares differ by chance alone."""
POOL_START, POOL_START_WEIGHT = 0.7, 2.0
"""The mean b of a pool before there is data, worth two annotators: simulated and real crowds lie at .5 to .9."""


def mixture(skill: Number, same: Number, guess: Number) -> Number:
    """P(label | truth) of an annotator who reads the item with probability `skill` and guesses otherwise.

    `same` is 1 where the label is the truth, `guess` the probability that a guess falls on the label. The formula of
    the paper (guess = 1/K) and of every habit; numpy arrays and torch tensors alike.
    """
    probability: Number = skill * same + (1 - skill) * guess
    return probability


ROWS = 50.0
"""Of 10, 50 and 200 the best on simulated worlds: one expert .410 and .524, permuted labels 98% -> 93% right at 200."""
SHARED = 50.0
"""Where everybody takes a class for another: labels right .70 without D, .80 with it; elsewhere within 1.4 points."""
SKILL = 4.0
"""Labels that the pool is worth: at 0.1 up to 1.6 points are lost, and log loss rises."""


@dataclass(frozen=True)
class Priors:
    """What distinguishes one annotator model from another, all fitted by the same engine.

    | field | meaning |
    |---|---|
    | rows | s: labels that the mixture is worth against a row of the confusion matrix; inf: no rows, 0: rows alone |
    | shared | t: labels that "nobody shares a mistake" is worth; inf: no D |
    | skill | labels that the pool's mean is worth against an annotator's own b |
    | mean | the pool's mean of b where it is held; None: learned |
    | habit | kappa, labels that the pool's label shares are worth against a habit; None: fitted; inf: no habits |
    | form | guesses by `habit`, `uniform`: evenly, `coin`: evenly among wrong labels; `none`: rows are drawn to 1/K |
    | classes | labels that an even class share is worth |
    """

    rows: float = ROWS
    shared: float = SHARED
    skill: float = SKILL
    mean: float | None = None
    habit: float | None = None
    form: Literal["habit", "uniform", "coin", "none"] = "habit"
    classes: float = 1.0


INFINITE = float("inf")
PRIORS: dict[str, Priors] = {
    "confusion": Priors(),
    "habit": Priors(rows=INFINITE, shared=INFINITE),
    "uniform": Priors(rows=INFINITE, shared=INFINITE, habit=INFINITE, form="uniform"),
    "coin": Priors(rows=INFINITE, shared=INFINITE, habit=INFINITE, form="coin"),
    "raykar": Priors(rows=2.0, shared=INFINITE, habit=INFINITE, form="none"),
}
"""The annotator model of each channel that has a closed form; `confusion` is the default."""
ONE_LABEL_MEAN = 0.8
"""The pool's mean of b where items have one label each: its scale is not identified, and a learned one collapses."""


# -------------------------------------------------------------------- the annotations of one task


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The annotations of one task as arrays. A cell is a distinct (annotator, label): its annotations share evidence.

    | field | shape | meaning |
    |---|---|---|
    | item, annotator, label | (annotations,) | numbers from 0 |
    | weight | (annotations,) or None | how much each counts; None: 1 |
    | option_counts | (items,) or None | where items have fewer options than `n_options`; None: all have them all |
    | group | (annotators,) or None | the pool that each annotator belongs to; None: one pool |
    | never_true | (options,) bool or None | labels that annotators may give and no item has: abstentions; None: none |
    """

    item: npt.NDArray[np.integer]
    annotator: npt.NDArray[np.integer]
    label: npt.NDArray[np.integer]
    n_items: int
    n_annotators: int
    n_options: int
    weight: Floats | None = None
    option_counts: Ints | None = None
    group: Ints | None = None
    never_true: Bools | None = None

    @cached_property
    def _cells(self) -> tuple[npt.NDArray[np.int32], Ints]:
        key = self.annotator.astype(np.int64) * self.n_options + self.label
        if self.n_annotators * self.n_options <= 4 * len(key) + 1024:  # a table of all cells is smaller than a sort
            present = np.zeros(self.n_annotators * self.n_options, dtype=bool)
            present[key] = True
            keys = np.flatnonzero(present)
            place = np.zeros(len(present), dtype=np.int32)
            place[keys] = np.arange(len(keys))
            return place[key], keys
        keys, cell = np.unique(key, return_inverse=True)
        return cell.astype(np.int32), keys

    @property
    def cell(self) -> npt.NDArray[np.int32]:
        """The cell of each annotation. Shape (annotations,)."""
        return self._cells[0]

    @cached_property
    def cell_annotator(self) -> Ints:
        """The annotator of each cell. Shape (cells,)."""
        return self._cells[1] // self.n_options

    @cached_property
    def cell_label(self) -> Ints:
        """The label of each cell. Shape (cells,)."""
        return self._cells[1] % self.n_options

    @cached_property
    def cell_weight(self) -> Floats:
        """The sum of the weights of each cell's annotations. Shape (cells,)."""
        return np.bincount(self.cell, self.weight, minlength=len(self._cells[1])).astype(np.float64)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Items x cells, the weight where an annotation of the item is in the cell."""
        values = np.ones(len(self.item)) if self.weight is None else self.weight
        shape = (self.n_items, len(self._cells[1]))
        if len(self.item) and (np.diff(self.item) >= 0).all():  # sorted already: no copy, no sort
            ends = np.searchsorted(self.item, np.arange(self.n_items + 1)).astype(np.int32)
            return sparse.csr_array((values, self.cell, ends), shape=shape)
        return sparse.csr_array((values, (self.item, self.cell)), shape=shape)

    @cached_property
    def of_annotators(self) -> sparse.csr_array:
        """Annotators x cells, 1 where the cell is the annotator's."""
        n = len(self._cells[1])
        ends = np.searchsorted(self.cell_annotator, np.arange(self.n_annotators + 1))
        return sparse.csr_array((np.ones(n), np.arange(n), ends), shape=(self.n_annotators, n))

    @cached_property
    def of_labels(self) -> sparse.csr_array:
        """Options x cells, 1 where the cell's label is the option."""
        n = len(self._cells[1])
        return sparse.csr_array((np.ones(n), (self.cell_label, np.arange(n))), shape=(self.n_options, n))

    @cached_property
    def labelled(self) -> Bools:
        """Which items have an annotation. Shape (items,)."""
        return np.bincount(self.item, minlength=self.n_items) > 0

    @cached_property
    def one_label_each(self) -> bool:
        """Whether no item has two annotations."""
        return bool(np.bincount(self.item, minlength=1).max() <= 1)

    @cached_property
    def annotator_weight(self) -> Floats:
        """The sum of the weights of each annotator's annotations. Shape (annotators,)."""
        return np.bincount(self.annotator, self.weight, minlength=self.n_annotators).astype(np.float64)

    @cached_property
    def label_shares(self) -> Floats:
        """The share of each label among all annotations, one imagined label each added. Shape (options,)."""
        counts = np.bincount(self.label, self.weight, minlength=self.n_options)
        return np.asarray((counts + 1) / (counts.sum() + self.n_options))

    @cached_property
    def pairs(self) -> PairAgreement:
        """Who agrees with whom, pair by pair: starts, copies and warnings ask for it."""
        from realm.crowd.pairs import PairAgreement  # which is made of a table

        return PairAgreement(self)

    @property
    def vote_shares(self) -> Floats:
        """The share of each label among an item's annotations; even where it has none. Shape (items, options).

        Labels that are never true are no votes.
        """
        votes = np.bincount(self.item.astype(np.int64) * self.n_options + self.label, self.weight,
                            minlength=self.n_items * self.n_options).reshape(self.n_items, -1)  # fmt: skip
        possible: Floats | float = 1 / self.n_options
        if self.never_true is not None:
            votes[:, self.never_true] = 0.0
            possible = ~self.never_true / (~self.never_true).sum()
        total = votes.sum(axis=1, keepdims=True)
        return np.where(total > 0, votes / np.maximum(total, LEAST), possible)

    @cached_property
    def outside(self) -> Bools | None:
        """The options that cannot be true of an item. Shape (items, options); None where every item has all."""
        all_options = self.option_counts is None or bool((self.option_counts == self.n_options).all())
        if all_options and self.never_true is None:
            return None
        outside = np.zeros((self.n_items, self.n_options), dtype=bool)
        if self.option_counts is not None:
            outside |= np.arange(self.n_options) >= self.option_counts[:, None]
        if self.never_true is not None:
            outside |= self.never_true & self.labelled[:, None]
        return outside

    @cached_property
    def narrow(self) -> list[tuple[int, sparse.csr_array]]:
        """Number of options and the matrix items x annotators, for each number below `n_options` that items have."""
        if self.outside is None or self.option_counts is None:
            return []
        own, weight = self.option_counts[self.item], np.ones(len(self.item)) if self.weight is None else self.weight
        shape = (self.n_items, self.n_annotators)
        matrices = []
        for count in np.unique(own[own < self.n_options]):
            rows = own == count
            entries = (weight[rows], (self.item[rows], self.annotator[rows]))
            matrices.append((int(count), sparse.csr_array(entries, shape)))
        return matrices

    def take_items(self, items: Ints) -> LabelTable:
        """The annotations of these items (sorted indices); items are numbered anew, annotators and labels stay."""
        place = np.full(self.n_items, -1)
        place[items] = np.arange(len(items))
        rows = place[self.item] >= 0
        return replace(
            self,
            item=place[self.item[rows]],
            annotator=self.annotator[rows],
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            option_counts=None if self.option_counts is None else self.option_counts[items],
            n_items=len(items),
        )


# -------------------------------------------------------------------- parameters


@dataclass(frozen=True, eq=False)
class Parameters:
    """What EM learns of the annotators of one task.

    | field | shape | meaning |
    |---|---|---|
    | skill | (annotators,) | b, the share of labels that are read off the item |
    | habit | (annotators, options) | xi |
    | shared | (options, options) | D[k, y] |
    | evidence | (cells, options) | log C_j[k, y] of each cell (j, y) and truth k |
    | row_mass | (annotators, options) | expected number of items of each truth that j labelled |
    | pool_mean | (groups,) | the mean b that annotators are drawn to |
    """

    skill: Floats
    habit: Floats
    shared: Floats
    evidence: Floats
    row_mass: Floats
    pool_mean: Floats

    def cell_probabilities(self, annotator: Ints, label: Ints, priors: Priors) -> Floats:
        """rho_jk(y), what C_j[k, y] is drawn to, of any annotators j and labels y. (n,), (n,) -> (n, options)"""
        options, skill = self.habit.shape[1], self.skill[annotator]
        rho = np.full((len(label), options), 1 / options)
        if priors.form == "none":
            return rho
        guess = 1 / max(options - 1, 1) if priors.form == "coin" else self.habit[annotator, label]
        wrong: Floats = np.asarray(mixture(skill, 0.0, guess))
        rho[:] = wrong[:, None]  # few passes over cells x options: they are what takes time
        rho[np.arange(len(label)), label] = mixture(skill, 1, 0 if priors.form == "coin" else guess)
        if not np.isinf(priors.shared):
            rho *= self.shared.T[label]
            rho /= self._row_total[annotator]
        return rho

    @cached_property
    def _row_total(self) -> Floats:
        """What each row of the mixture times D sums to. Shape (annotators, options)."""
        return mixture(self.skill[:, None], np.diag(self.shared)[None, :], self.habit @ self.shared.T)

    def any_evidence(self, annotator: Ints, label: Ints, priors: Priors) -> Floats:
        """The evidence of labels that an annotator has never given before. Shapes (n,), (n,) -> (n, options)."""
        rho = self.cell_probabilities(annotator, label, priors)
        if np.isinf(priors.rows):
            return np.log(np.maximum(rho, LEAST))
        weight = priors.rows / np.maximum(self.row_mass[annotator] + priors.rows, LEAST)
        weight[self.skill[annotator] == EXPERT] = 1.0  # experts have no rows of their own
        return np.log(np.maximum(weight * rho, LEAST))


def log_softmax(scores: Floats) -> Floats:
    """Each row less the log of the sum of its exponentials. (..., options)"""
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - top - np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)))


def standard_errors(values: npt.NDArray[Any]) -> float:
    """How many standard errors the sum of independent values lies above the 0 that is expected of it."""
    return float(values.sum() / max(np.sqrt((values**2).sum()), LEAST))


def normalise(scores: Floats) -> float:
    """Turn rows of log-scores into probabilities, in place; return the sum of the rows' log-sum-exps.

    Column by column over blocks that stay in the cache: a reduction over a handful of options, row by row, costs numpy
    more than the exponentials.
    """
    total_log = 0.0
    step = max(32768 // max(scores.shape[1], 1), 256)
    for start in range(0, len(scores), step):
        block = scores[start : start + step]
        columns = [block[:, option] for option in range(scores.shape[1])]
        peak = columns[0].copy()
        for column in columns[1:]:
            np.maximum(peak, column, out=peak)
        for column in columns:
            column -= peak
        np.exp(block, out=block)
        total = columns[0].copy()
        for column in columns[1:]:
            total += column
        total_log += float(peak.sum() + np.log(total).sum())
        np.reciprocal(total, out=total)
        for column in columns:
            column *= total
    return total_log


# -------------------------------------------------------------------- EM: statistics and maximise


def statistics(table: LabelTable, posterior: Floats) -> Floats:
    """Expected counts N[cell, k]: how often the cell's label was given where k is true. (items, K) -> (cells, K)

    A sum over items: shards of items that share their numbering of cells add up to the whole.
    """
    return np.asarray(table.matrix.T @ posterior)


@dataclass(frozen=True, eq=False)
class Pool:
    """What annotators are drawn to, fixed before EM.

    | field | shape | meaning |
    |---|---|---|
    | shares | (options,) | the label shares that habits are drawn to |
    | kappa | | labels that these are worth |
    | own_weight, own_mean | (annotators,) | the prior on b of annotators with an earlier estimate; NaN: the pool's |
    | experts | (annotators,) bool | who is held at b = .999 |
    """

    shares: Floats
    kappa: float
    own_weight: Floats
    own_mean: Floats
    experts: Bools

    @classmethod
    def of(cls, table: LabelTable, priors: Priors) -> Pool:
        """The pool of a table without experts and earlier estimates."""
        none = np.full(table.n_annotators, np.nan)
        even = np.full(table.n_options, 1 / table.n_options)
        kappa = concentration(table) if priors.habit is None else priors.habit
        shares = even if priors.form in ("uniform", "coin", "none") else table.label_shares
        return cls(shares, kappa, none, none, np.zeros(table.n_annotators, dtype=bool))


def concentration(table: LabelTable) -> float:
    """kappa: how alike annotators' label shares are, by Dirichlet-multinomial maximum likelihood. 1 to 1000"""
    share, counts = table.label_shares, table.cell_weight
    total = table.annotator_weight
    logs = []
    for kappa in KAPPAS:
        prior = kappa * share[table.cell_label]
        logs.append((gammaln(kappa) - gammaln(total + kappa)).sum() + (gammaln(counts + prior) - gammaln(prior)).sum())
    return float(KAPPAS[int(np.argmax(logs))])


def prior_parameters(table: LabelTable, priors: Priors, pool: Pool) -> Parameters:
    """The parameters before any data: everybody is the pool's mean."""
    skill = np.full(table.n_annotators, POOL_START if priors.mean is None else priors.mean)
    skill = np.where(np.isfinite(pool.own_mean), np.nan_to_num(pool.own_mean), skill)
    skill = np.where(pool.experts, EXPERT, skill)
    options = table.n_options
    habit = np.tile(pool.shares, (table.n_annotators, 1))
    n_groups = 1 if table.group is None else int(table.group.max(initial=0)) + 1
    mean = np.full(n_groups, POOL_START if priors.mean is None else priors.mean)
    empty = np.zeros((table.n_annotators, options))
    parameters = Parameters(skill, habit, np.ones((options, options)), np.zeros((0, options)), empty, mean)
    rho = parameters.cell_probabilities(table.cell_annotator, table.cell_label, priors)
    return replace(parameters, evidence=np.log(np.maximum(rho, LEAST)))


def maximise(
    counts: Floats, table: LabelTable, priors: Priors, pool: Pool, before: Parameters | None = None
) -> Parameters:
    """The M-step: parameters from expected counts (cells, K)."""
    options, cell_annotator, label = table.n_options, table.cell_annotator, table.cell_label
    counts = np.maximum(counts, EMPTY) if priors.rows == 0 else counts
    row_mass = np.asarray(table.of_annotators @ counts)
    total = table.annotator_weight
    hits = counts[np.arange(len(label)), label]
    group = np.zeros(table.n_annotators, dtype=np.int64) if table.group is None else table.group
    n_groups = int(group.max(initial=0)) + 1
    start = np.full(n_groups, POOL_START if priors.mean is None else priors.mean)
    pool_mean = start if before is None or priors.mean is not None else before.pool_mean
    own = np.isfinite(pool.own_mean)
    skill_weight = np.where(own, np.nan_to_num(pool.own_weight), priors.skill)
    skill_mean = np.where(own, np.nan_to_num(pool.own_mean), pool_mean[group])
    skill = skill_mean.copy() if before is None else before.skill
    guess = pool.shares[label] if before is None else before.habit[cell_annotator, label]
    by_habit, learns_habit = np.zeros(len(label)), priors.form == "habit" and not np.isinf(pool.kappa)
    for _ in range(1 if priors.form == "none" else INNER_STEPS):
        own_skill = skill[cell_annotator]
        chance = 0.0 if priors.form == "coin" else (1 - own_skill) * guess
        read = hits * own_skill / np.maximum(own_skill + chance, LEAST)
        skill = (table.of_annotators @ read + skill_weight * skill_mean) / np.maximum(total + skill_weight, LEAST)
        skill = np.where(pool.experts, EXPERT, skill)
        if learns_habit:
            by_habit = table.cell_weight - read
            habits = np.asarray(table.of_annotators @ by_habit)
            guess = (by_habit + pool.kappa * pool.shares[label]) / (habits + pool.kappa)[cell_annotator]
    habit = np.tile(pool.shares, (table.n_annotators, 1))
    if learns_habit:
        habits = np.asarray(table.of_annotators @ by_habit)
        habit *= (pool.kappa / (habits + pool.kappa))[:, None]
        habit[cell_annotator, label] = guess
    if priors.mean is None:
        trust = np.where(own | pool.experts, 0.0, total / np.maximum(total + priors.skill, LEAST))
        weighted = np.bincount(group, trust * skill, minlength=n_groups) + POOL_START_WEIGHT * POOL_START
        pool_mean = weighted / (np.bincount(group, trust, minlength=n_groups) + POOL_START_WEIGHT)
    shared = np.ones((options, options))
    if not np.isinf(priors.shared):
        given = np.asarray(table.of_labels @ counts).T  # (truth, label)
        expected = (row_mass * (1 - skill)[:, None]).T @ habit
        expected[np.diag_indices(options)] += skill @ row_mass
        shared = (given + priors.shared) / (expected + priors.shared)
    parameters = Parameters(skill, habit, shared, np.zeros((0, options)), row_mass, pool_mean)
    rho = parameters.cell_probabilities(cell_annotator, label, priors)
    if not np.isinf(priors.rows):
        expert = np.flatnonzero(pool.experts[cell_annotator])
        held = rho[expert]
        rho *= priors.rows
        rho += counts
        rho /= np.maximum(row_mass + priors.rows, LEAST)[cell_annotator]
        rho[expert] = held
    np.maximum(rho, LEAST, out=rho)
    return replace(parameters, evidence=np.log(rho, out=rho))


# -------------------------------------------------------------------- EM: the loop


@dataclass(frozen=True, eq=False)
class Fit:
    """Where EM stands: parameters, class shares (options,), the posterior (items, options) and its log-likelihood.

    `offset` (options,) is what holds the class shares where they are held, added to every item's log prior.
    """

    parameters: Parameters
    class_shares: Floats
    posterior: Floats
    log_likelihood: float
    offset: Floats
    iterations: int = 0


def item_scores(
    table: LabelTable, parameters: Parameters, log_prior: Floats, *, exponent: float = 1.0, priors: Priors | None = None
) -> Floats:
    """log P_i(k) + exponent * sum of w E[a, k] over the item's annotations; -inf beyond its options. (items, K)"""
    scores = np.asarray(table.matrix @ parameters.evidence)
    if priors is None or priors.form != "none":  # free rows are estimated over all items, whatever options these have
        for count, matrix in table.narrow:  # a label of an item with fewer options is given that it is one of these
            scores -= matrix @ np.log(inside_mass(table, parameters, priors, count))
    scores = exponent * scores + log_prior if exponent != 1 else np.add(scores, log_prior, out=scores)
    if table.outside is not None:
        scores[table.outside] = -np.inf
    return scores


def inside_mass(table: LabelTable, parameters: Parameters, priors: Priors | None, count: int) -> Floats:
    """P(one of the first `count` labels | k); labels never given count where `priors` are. (annotators, options)"""
    inside = table.cell_label < count
    mass = np.asarray(table.of_annotators @ (np.exp(parameters.evidence) * inside[:, None]))
    if priors is not None:
        missing = np.ones((table.n_annotators, count), dtype=bool)
        missing[table.cell_annotator[inside], table.cell_label[inside]] = False
        annotator, label = np.nonzero(missing)
        np.add.at(mass, annotator, np.exp(parameters.any_evidence(annotator, label, priors)))
    return np.asarray(np.clip(mass, LEAST, 1.0))


def shares_of(posterior: Floats, labelled: Bools, pseudocount: float) -> Floats:
    """The mean posterior of the items with labels, with `pseudocount` imagined items of each class. (options,)"""
    total = posterior[labelled].sum(axis=0) if not labelled.all() else np.array([c.sum() for c in posterior.T])
    return np.asarray((total + pseudocount) / max(labelled.sum() + pseudocount * len(total), LEAST))


def fit(
    table: LabelTable,
    priors: Priors,
    pool: Pool,
    start: Floats | Fit,
    *,
    log_prior: Floats | None = None,
    known: Ints | None = None,
    held_shares: Floats | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """The EM loop, from a posterior (items, options) or from an earlier `Fit`.

    | argument | shape | meaning |
    |---|---|---|
    | log_prior | (items, options) | log P of a model; NaN rows, or None: the class shares, which are learned |
    | known | (items,) | the true label where it is given, -1 elsewhere |
    | held_shares | (options,) | class shares that the posterior is held at by an offset of log P; None: free |
    | tol | | EM stops when the log-likelihood per annotation rises by less; 0: never |
    """
    options, n = table.n_options, max(float(table.annotator_weight.sum()), LEAST)
    fixed = np.zeros(0, dtype=np.int64) if known is None else np.flatnonzero(known >= 0)
    free_rows = None if log_prior is None else np.isnan(log_prior[:, 0])
    if isinstance(start, Fit):
        parameters, shares, offset = start.parameters, start.class_shares, start.offset
    else:
        posterior = start.copy()
        posterior[fixed] = 0.0
        if known is not None:
            posterior[fixed, known[fixed]] = 1.0
        parameters = maximise(statistics(table, posterior), table, priors, pool)
        shares, offset = shares_of(posterior, table.labelled, priors.classes), np.zeros(options)
    last, iteration, log_likelihood, posterior = -np.inf, 0, -np.inf, np.zeros((0, options))
    while True:
        prior = item_log_prior(log_prior, free_rows, shares, offset)
        posterior = item_scores(table, parameters, prior, priors=priors)
        if known is not None and len(fixed):
            chosen = posterior[fixed, known[fixed]].copy()
            posterior[fixed] = -np.inf
            posterior[fixed, known[fixed]] = chosen
        log_likelihood = normalise(posterior)
        if progress is not None:
            progress(iteration, max_iter)
        change = log_likelihood - last if held_shares is None else abs(log_likelihood - last)  # an offset may lower it
        if iteration >= max_iter or (tol and change < tol * n and iteration > 1):
            break
        last, iteration = log_likelihood, iteration + 1
        parameters = maximise(statistics(table, posterior), table, priors, pool, parameters)
        shares = shares_of(posterior, table.labelled, priors.classes)
        if held_shares is not None:
            move = np.log((held_shares + 1e-4) / (shares + 1e-4))
            offset, shares = offset + move - move.mean(), held_shares
    return Fit(parameters, shares, posterior, log_likelihood, offset, iteration)


def item_log_prior(log_prior: Floats | None, free_rows: Bools | None, shares: Floats, offset: Floats) -> Floats:
    """log P of each item with the offset; the log class shares where there is no P. (items, options) or (options,)"""
    class_prior = np.log(np.maximum(shares, LEAST)) + offset
    if log_prior is None:
        return np.asarray(class_prior)
    prior = log_prior + offset
    if free_rows is not None and free_rows.any():
        prior[free_rows] = class_prior
    return np.asarray(prior)
