"""The one model of annotators, and the EM engine that fits it.

    z_i ~ P_i                                      the truth of item i; P_i a model's probabilities, or the class shares
    y | z = k, annotator j ~ C_j[k]                the label that j gives
    C_j[k] ~ Dirichlet(s rho_jk)
    rho_jk(y) ~ (b_j [y = k] + (1 - b_j) xi_j(y)) D[k, y]
    b_j ~ Beta(pool),  xi_j ~ Dirichlet(kappa * label shares),  D[k, y] drawn to 1: mistakes that everybody shares

`statistics` are expected counts, additive over any split of the items; `maximise` turns them into parameters. Dawid and
Skene's model, MACE, one coin and the rest are the same engine with other `Priors`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

if TYPE_CHECKING:
    from realm.crowd.copies import PairAgreement

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=Any)

LEAST = 1e-12  # no label is taken to be impossible: the floor of probabilities before their logarithm
INNER_STEPS = 5  # fixed-point steps for b and xi within one M-step: they move by less than 1e-3 after these
EMPTY = 1e-10  # expected labels of a cell without a prior on rows: a truth never met leaves the labels equally likely
EXPERT = 0.999  # the b at which an annotator named an expert is held: a slip of theirs is not an impossible event
KAPPAS = np.geomspace(1.0, 1000.0, 25)  # 1000: label shares differ by chance alone
POOL_START, POOL_START_WEIGHT = 0.7, 2.0  # the mean b before there is data, worth two annotators: crowds have .5 to .9
ROWS = 50.0  # of 10, 50 and 200 the best on simulated worlds: one expert .41 and .52, permuted labels .98 and .93
SHARED = 50.0  # where everybody takes a class for another: labels right .70 without D, .80 with it; elsewhere as before
SKILL = 4.0  # labels that the pool is worth: at 0.1 up to 1.6 points are lost, and log loss rises
ONE_LABEL_MEAN = 0.8  # b where items have one label each: its scale is not identified, and a learned mean collapses
INFINITE = float("inf")


def mixture(skill: Number, same: Number, guess: Number) -> Number:
    """P(label | truth) of an annotator who reads the item with probability `skill` and guesses otherwise.

    `same` is 1 where the label is the truth, `guess` the probability that a guess falls on the label. The formula of
    the paper (guess = 1/K) and of every habit; numpy arrays and torch tensors alike.
    """
    probability: Number = skill * same + (1 - skill) * guess
    return probability


@dataclass(frozen=True)
class Priors:
    """What distinguishes one annotator model from another. Weights are in labels."""

    rows: float = ROWS  # s, of the mixture against a row of the confusion matrix; inf: no rows, 0: rows alone
    shared: float = SHARED  # of D = 1, "nobody shares a mistake"; inf: no D
    skill: float = SKILL  # of the pool's mean against an annotator's own b
    mean: float | None = None  # the pool's mean of b where it is held; None: learned
    habit: float | None = None  # kappa, of the pool's label shares against a habit; None: fitted, inf: no habits
    form: Literal["habit", "uniform", "coin", "none"] = "habit"  # guesses evenly, or evenly among wrong labels (coin)
    classes: float = 1.0  # of an even class share


PRIORS: dict[str, Priors] = {
    "confusion": Priors(),
    "habit": Priors(rows=INFINITE, shared=INFINITE),
    "uniform": Priors(rows=INFINITE, shared=INFINITE, habit=INFINITE, form="uniform"),
    "coin": Priors(rows=INFINITE, shared=INFINITE, habit=INFINITE, form="coin"),
    "raykar": Priors(rows=2.0, shared=INFINITE, habit=INFINITE, form="none"),  # rows are drawn to 1/K
}
"""The annotator model of each channel that has a closed form; `confusion` is the default."""


@dataclass(eq=False)
class LabelTable:
    """The annotations of one task. A cell is a distinct (annotator, label): its annotations share evidence."""

    item: Ints  # (annotations,), numbers from 0, as are the next two
    annotator: Ints
    label: Ints
    n_items: int
    n_annotators: int
    n_options: int
    weight: Floats | None = None  # (annotations,), how much each counts; None: 1
    option_counts: Ints | None = None  # (items,), where items have fewer options than `n_options`
    group: Ints | None = None  # (annotators,), the pool of each; None: one pool
    never_true: Bools | None = None  # (options,), labels that annotators may give and no item has: abstentions
    keys: Ints | None = None  # (cells,), annotator * n_options + label, sorted; None: those that occur

    def __post_init__(self) -> None:
        key = self.annotator.astype(np.int64) * self.n_options + self.label
        keys, cell = np.unique(key, return_inverse=True) if self.keys is None else (self.keys, None)
        self.cell = (np.searchsorted(keys, key) if cell is None else cell).astype(np.int32)  # of each annotation
        self.keys, n_cells = keys, len(keys)
        self.cell_annotator, self.cell_label = keys // self.n_options, keys % self.n_options
        self.weights = np.ones(len(self.item)) if self.weight is None else self.weight
        self.groups = np.zeros(self.n_annotators, dtype=np.int64) if self.group is None else self.group
        self.cell_weight = np.bincount(self.cell, self.weights, minlength=n_cells)
        self.annotator_weight = np.bincount(self.annotator, self.weights, minlength=self.n_annotators)
        self.labels_per_item = np.bincount(self.item, minlength=self.n_items)
        self.labelled = self.labels_per_item > 0
        self.one_label_each = bool(self.labels_per_item.max(initial=0) <= 1)
        counts = np.bincount(self.label, self.weights, minlength=self.n_options)
        self.label_shares: Floats = (counts + 1) / (counts.sum() + self.n_options)  # one imagined label each added
        # items x cells, the weight of the item's annotations in the cell; annotators x cells, 1 where it is theirs
        self.matrix = sparse.csr_array((self.weights, (self.item, self.cell)), shape=(self.n_items, n_cells))
        owners = (np.ones(n_cells), (self.cell_annotator, np.arange(n_cells)))
        self.of_annotators = sparse.csr_array(owners, shape=(self.n_annotators, n_cells))

    @cached_property
    def pairs(self) -> PairAgreement:
        """Who agrees with whom, pair by pair: starts, copies and warnings ask for it."""
        from realm.crowd.copies import PairAgreement  # which is made of a table

        return PairAgreement(self)

    @property
    def label_counts(self) -> Floats:
        """How often each annotator gave each label, whatever its weight. Shape (annotators, options)"""
        counts = np.zeros((self.n_annotators, self.n_options))
        counts[self.cell_annotator, self.cell_label] = np.bincount(self.cell, minlength=len(self.cell_label))
        return counts

    @property
    def vote_shares(self) -> Floats:
        """The share of each label among an item's annotations; even where it has none. Shape (items, options)"""
        key, size = self.item.astype(np.int64) * self.n_options + self.label, self.n_items * self.n_options
        votes = np.bincount(key, self.weights, minlength=size).reshape(self.n_items, -1)
        possible = np.ones(self.n_options, dtype=bool) if self.never_true is None else ~self.never_true
        votes[:, ~possible] = 0.0  # labels that are never true are no votes
        total = votes.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, votes / np.maximum(total, LEAST), possible / possible.sum()))

    @cached_property
    def outside(self) -> Bools | None:
        """The options that cannot be true of an item. Shape (items, options); None where every item has all."""
        outside = np.zeros((self.n_items, self.n_options), dtype=bool)
        if self.option_counts is not None:
            outside |= np.arange(self.n_options) >= self.option_counts[:, None]
        if self.never_true is not None:
            outside |= self.never_true & self.labelled[:, None]
        return outside if outside.any() else None

    @cached_property
    def narrow(self) -> list[tuple[int, sparse.csr_array]]:
        """Number of options and the matrix items x annotators, for each number below `n_options` that items have."""
        if self.option_counts is None:
            return []
        own, shape = self.option_counts[self.item], (self.n_items, self.n_annotators)
        rows = [(int(count), own == count) for count in np.unique(own[own < self.n_options])]
        return [(n, sparse.csr_array((self.weights[r], (self.item[r], self.annotator[r])), shape)) for n, r in rows]

    def take_items(self, items: Ints) -> LabelTable:
        """The annotations of these items (sorted indices), numbered anew; annotators, labels and cells stay."""
        rows = np.isin(self.item, items)
        return replace(
            self,
            item=np.searchsorted(items, self.item[rows]),
            annotator=self.annotator[rows],
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            option_counts=None if self.option_counts is None else self.option_counts[items],
            n_items=len(items),
        )


@dataclass(frozen=True, eq=False)
class Pool:
    """What annotators are drawn to, fixed before EM."""

    shares: Floats  # (options,), the label shares that habits are drawn to
    kappa: float  # labels that these are worth
    own_mean: Floats  # (annotators,), the prior on b of annotators with an earlier estimate; NaN: the pool's
    own_weight: Floats
    experts: Bools  # (annotators,), who is held at b = .999

    @classmethod
    def of(cls, table: LabelTable, priors: Priors) -> Pool:
        """The pool of a table without experts and earlier estimates."""
        none = np.full(table.n_annotators, np.nan)
        shares = table.label_shares if priors.form == "habit" else np.full(table.n_options, 1 / table.n_options)
        kappa = concentration(table) if priors.habit is None else priors.habit
        return cls(shares, kappa, none, none, np.zeros(table.n_annotators, dtype=bool))


def concentration(table: LabelTable) -> float:
    """kappa: how alike annotators' label shares are, by Dirichlet-multinomial maximum likelihood. 1 to 1000"""
    share, counts, total, logs = table.label_shares[table.cell_label], table.cell_weight, table.annotator_weight, []
    for kappa in KAPPAS:
        of_cells = gammaln(counts + kappa * share) - gammaln(kappa * share)
        logs.append((gammaln(kappa) - gammaln(total + kappa)).sum() + of_cells.sum())
    return float(KAPPAS[int(np.argmax(logs))])


@dataclass(frozen=True, eq=False)
class Parameters:
    """What EM learns of the annotators of one task."""

    skill: Floats  # (annotators,), b: the share of labels that are read off the item
    habit: Floats  # (annotators, options), xi
    shared: Floats  # (options, options), D[k, y]
    evidence: Floats  # (cells, options), log C_j[k, y] of each cell (j, y) and truth k
    row_mass: Floats  # (annotators, options), expected number of items of each truth that j labelled
    pool_mean: Floats  # (groups,), the mean b that annotators are drawn to

    def cell_probabilities(self, annotator: Ints, label: Ints, priors: Priors) -> Floats:
        """rho_jk(y), what C_j[k, y] is drawn to, of any annotators j and labels y. (n,), (n,) -> (n, options)"""
        options, skill = self.habit.shape[1], self.skill[annotator]
        if priors.form == "none":
            return np.full((len(label), options), 1 / options)
        guess = 1 / max(options - 1, 1) if priors.form == "coin" else self.habit[annotator, label]
        rho = np.repeat(np.asarray(mixture(skill, 0.0, guess))[:, None], options, axis=1)
        rho[np.arange(len(label)), label] = mixture(skill, 1, 0 if priors.form == "coin" else guess)
        if not np.isinf(priors.shared):
            total = mixture(self.skill[:, None], np.diag(self.shared)[None, :], self.habit @ self.shared.T)
            rho *= self.shared.T[label]
            rho /= total[annotator]
        return rho

    def evidence_of(self, table: LabelTable, annotator: Ints, label: Ints, priors: Priors) -> Floats:
        """log C_j[k, y] of any labels, given in the table or never given before. Shapes (n,), (n,) -> (n, options)"""
        rho = self.cell_probabilities(annotator, label, priors)
        if not np.isinf(priors.rows):
            weight = priors.rows / np.maximum(self.row_mass[annotator] + priors.rows, LEAST)
            weight[self.skill[annotator] == EXPERT] = 1.0  # experts have no rows of their own
            rho *= weight
        evidence, wanted = np.log(np.maximum(rho, LEAST)), annotator.astype(np.int64) * table.n_options + label
        keys = np.append(np.asarray(table.keys), -1)
        cell = np.searchsorted(keys[:-1], wanted)
        given = keys[cell] == wanted
        evidence[given] = self.evidence[cell[given]]
        return evidence


def log_softmax(scores: Floats) -> Floats:
    """Each row less the log of the sum of its exponentials. (..., options)"""
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - top - np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)))


def standard_errors(values: npt.NDArray[Any]) -> float:
    """How many standard errors the sum of independent values lies above the 0 that is expected of it."""
    return float(values.sum() / max(np.sqrt((values**2).sum()), LEAST))


def normalise(scores: Floats) -> float:
    """Turn rows of log-scores into probabilities, in place; return the sum of the rows' log-sum-exps.

    Column by column: a reduction over a handful of options, row by row, costs numpy more than the exponentials.
    """
    peak = reduce(np.maximum, scores.T)
    for column in scores.T:
        column -= peak
    np.exp(scores, out=scores)
    total = sum(scores.T)
    for column in scores.T:
        column /= total
    return float(peak.sum() + np.log(total).sum())


def statistics(table: LabelTable, posterior: Floats) -> Floats:
    """Expected counts N[cell, k]: how often the cell's label was given where k is true. (items, K) -> (cells, K)

    A sum over items: shards of items that share their numbering of cells add up to the whole.
    """
    return np.asarray(table.matrix.T @ posterior)


def prior_parameters(table: LabelTable, priors: Priors, pool: Pool) -> Parameters:
    """The parameters before any data: everybody is the pool's mean."""
    options, start = table.n_options, POOL_START if priors.mean is None else priors.mean
    skill = np.where(np.isfinite(pool.own_mean), pool.own_mean, start)
    habit, empty = np.tile(pool.shares, (table.n_annotators, 1)), np.zeros((table.n_annotators, options))
    pool_mean = np.full(int(table.groups.max(initial=0)) + 1, start)
    parameters = Parameters(skill, habit, np.ones((options, options)), np.zeros((0, options)), empty, pool_mean)
    rho = parameters.cell_probabilities(table.cell_annotator, table.cell_label, priors)
    return replace(parameters, evidence=np.log(np.maximum(rho, LEAST)))


def maximise(
    counts: Floats, table: LabelTable, priors: Priors, pool: Pool, before: Parameters | None = None
) -> Parameters:
    """The M-step: parameters from expected counts (cells, K)."""
    before = prior_parameters(table, priors, pool) if before is None else before
    options, cell_annotator, label = table.n_options, table.cell_annotator, table.cell_label
    counts, total = np.maximum(counts, EMPTY) if priors.rows == 0 else counts, table.annotator_weight
    row_mass, hits = np.asarray(table.of_annotators @ counts), counts[np.arange(len(label)), label]
    skill, pool_mean, guess = before.skill, before.pool_mean, before.habit[cell_annotator, label]
    own = np.isfinite(pool.own_mean)
    skill_mean = np.where(own, pool.own_mean, pool_mean[table.groups])
    skill_weight = np.where(own, pool.own_weight, priors.skill)
    learns_habit = priors.form == "habit" and pool.kappa < INFINITE
    for _ in range(1 if priors.form == "none" else INNER_STEPS):
        own_skill = skill[cell_annotator]
        chance = 0.0 if priors.form == "coin" else (1 - own_skill) * guess
        read = hits * own_skill / np.maximum(own_skill + chance, LEAST)
        skill = (table.of_annotators @ read + skill_weight * skill_mean) / np.maximum(total + skill_weight, LEAST)
        skill = np.where(pool.experts, EXPERT, skill)
        if learns_habit:
            by_habit = table.cell_weight - read
            strength = np.asarray(table.of_annotators @ by_habit) + pool.kappa
            guess = (by_habit + pool.kappa * pool.shares[label]) / strength[cell_annotator]
    habit = np.tile(pool.shares, (table.n_annotators, 1))
    if learns_habit:
        habit *= (pool.kappa / strength)[:, None]
        habit[cell_annotator, label] = guess
    if priors.mean is None:
        trust = np.where(own | pool.experts, 0.0, total / np.maximum(total + priors.skill, LEAST))
        summed, trusted = (np.bincount(table.groups, each, len(pool_mean)) for each in (trust * skill, trust))
        pool_mean = (summed + POOL_START_WEIGHT * POOL_START) / (trusted + POOL_START_WEIGHT)
    shared = np.ones((options, options))
    if not np.isinf(priors.shared):
        given = np.stack([np.bincount(label, column, minlength=options) for column in counts.T])  # (truth, label)
        expected = (row_mass * (1 - skill)[:, None]).T @ habit
        expected[np.diag_indices(options)] += skill @ row_mass
        shared = (given + priors.shared) / (expected + priors.shared)
    parameters = Parameters(skill, habit, shared, before.evidence, row_mass, pool_mean)
    rho = parameters.cell_probabilities(cell_annotator, label, priors)
    if not np.isinf(priors.rows):
        drawn = (priors.rows * rho + counts) / np.maximum(row_mass + priors.rows, LEAST)[cell_annotator]
        rho = np.where(pool.experts[cell_annotator][:, None], rho, drawn)
    return replace(parameters, evidence=np.log(np.maximum(rho, LEAST)))


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


def item_log_prior(log_prior: Floats | None, shares: Floats, offset: Floats | float = 0.0) -> Floats:
    """log P of each item with the offset; the log class shares where there is no P. (items, options) or (options,)"""
    class_prior = np.log(np.maximum(shares, LEAST))
    if log_prior is None:
        return np.asarray(class_prior + offset)
    return np.where(np.isnan(log_prior[:, :1]), class_prior, log_prior) + offset


def item_scores(
    table: LabelTable, parameters: Parameters, log_prior: Floats, priors: Priors, exponent: float = 1.0
) -> Floats:
    """log P_i(k) + exponent * sum of w E[a, k] over the item's annotations; -inf beyond its options. (items, K)"""
    scores = np.asarray(table.matrix @ parameters.evidence)
    if priors.form != "none":  # free rows are estimated over all items, whatever options these have
        for count, matrix in table.narrow:  # a label of an item with fewer options is given that it is one of these
            scores -= matrix @ np.log(inside_mass(table, parameters, priors, count))
    scores *= exponent
    scores += log_prior
    if table.outside is not None:
        scores[table.outside] = -np.inf
    return scores


def inside_mass(table: LabelTable, parameters: Parameters, priors: Priors, count: int) -> Floats:
    """P(one of the first `count` labels | k), never given ones included. (annotators, options)"""
    everybody = np.arange(table.n_annotators)
    labels = (np.full(table.n_annotators, label) for label in range(count))
    mass = sum(np.exp(parameters.evidence_of(table, everybody, label, priors)) for label in labels)
    return np.asarray(np.clip(mass, LEAST, 1.0))


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
) -> Fit:
    """The EM loop, from a posterior (items, options) or from an earlier `Fit`.

    | argument | shape | meaning |
    |---|---|---|
    | log_prior | (items, options) | log P of a model; NaN rows, or None: the class shares, which are learned |
    | known | (items,) | the true label where it is given, -1 elsewhere |
    | held_shares | (options,) | class shares that the posterior is held at by an offset of log P; None: free |
    | tol | | EM stops when the log-likelihood per annotation rises by less; 0: never |
    """
    known, last = np.full(table.n_items, -1) if known is None else known, -np.inf
    least_gain, fixed = tol * max(float(table.annotator_weight.sum()), LEAST), np.flatnonzero(known >= 0)
    truth, from_fit = known[fixed], isinstance(start, Fit)
    if isinstance(start, Fit):
        parameters, shares, offset = start.parameters, start.class_shares, start.offset
    else:
        parameters, offset, posterior = prior_parameters(table, priors, pool), np.zeros(table.n_options), start.copy()
        posterior[fixed] = 0.0
        posterior[fixed, truth] = 1.0
    for iteration in range(max_iter + 1):
        if iteration or not from_fit:
            parameters = maximise(statistics(table, posterior), table, priors, pool, parameters)
            labelled = posterior[table.labelled]
            shares = labelled.sum(axis=0) + priors.classes
            shares /= max(len(labelled) + priors.classes * table.n_options, LEAST)
        if iteration and held_shares is not None:
            move = np.log((held_shares + 1e-4) / (shares + 1e-4))
            offset, shares = offset + move - move.mean(), held_shares
        posterior = item_scores(table, parameters, item_log_prior(log_prior, shares, offset), priors)
        chosen = posterior[fixed, truth]
        posterior[fixed] = -np.inf
        posterior[fixed, truth] = chosen
        log_likelihood = normalise(posterior)
        change = log_likelihood - last if held_shares is None else abs(log_likelihood - last)  # an offset may lower it
        if tol and change < least_gain and iteration > 1:
            break
        last = log_likelihood
    return Fit(parameters, shares, posterior, log_likelihood, offset, iteration)
