"""The habit: an annotator who answers from the item with one probability, and otherwise from a habit of their own.

    P(label = y | truth = k) = beta [y = k] + (1 - beta) xi(y)

D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013). Learning whom to trust with MACE. Proceedings of NAACL-HLT.

xi is a distribution over the task's labels (over positions, where items list their own options), renormalised over the
options that an item has. Where xi is even this is `realm.crowd.coin` exactly. beta is signed, as a coin's is: it may go
down to where the first probability would be negative, -min xi / (1 - min xi), so that somebody worse than chance can be
seen; at two options beta and xi are together the whole confusion matrix. This is written out here and nowhere else in
numpy (`realm.channels.habit` has it in torch).

Annotators with few labels are drawn to the pool: a Dirichlet prior on xi around the label shares of the task, and a
Beta prior on the skill of `realm.crowd.coin` (beta from 0 at -1/(K-1) to 1), both as strong as the annotators of the
task are alike (`Habit.pooled`). Without it thousands of annotators with a few labels each fall below a majority vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, gammaln

from realm.crowd.coin import EDGE, pairs_of, weights_of
from realm.crowd.evidence import Bools, Floats, Indices, JointLikelihood, LabelEvidence
from realm.crowd.intervals import Grid, pool_densities
from realm.data import Annotations

START = 0.5
"""The expertise that EM starts from, half-way from chance to always right: below it the flipped labelling is nearer."""
NEVER = 1e-9
"""The least share of an option of the task in a habit: its logarithm must be finite."""
FIRST_SKILL_COUNTS = (1.0, 1.0)
"""Before a pool is fitted its prior is one label right and one wrong: it keeps skills off 0 and 1."""
FIRST_HABIT_WEIGHT = 2.0
"""Before a pool is fitted habits are drawn to the label shares by as much as two labels."""
HABIT_WEIGHTS = 2.0 ** np.arange(-1, 11)
"""Strengths of the pool's habit that are considered: worth half a label to a thousand, by factors of two."""
POOL_STEPS = (1, 2, 4, 8, 16)
"""The iterations of EM after which the pool's prior is fitted anew: it moves with the posterior, less and less."""
POOL_GRID = 64
"""Points of the grid of skills on which a pool is fitted: a prior needs no tails."""
POOL_PAIRS = 2048
"""Annotators that a pool is fitted to at most, evenly chosen: ten numbers need no more."""
NEWTON_STEPS = 6
"""Newton steps for beta in an M-step: from the beta before, the sixth changes nothing that EM would notice."""
HALVINGS = 6
"""Halvings of a habit's step, where it would lower the objective, before it is given up."""


@dataclass(frozen=True, eq=False)
class HabitPrior:
    """What is known of each pair before its labels are counted, as labels seen.

    | field | shape | meaning |
    |---|---|---|
    | right, wrong | (pairs,) | labels right and wrong of a coin: Beta(1 + right, 1 + wrong) on the skill |
    | habit | (pairs, Kmax) | labels given by habit: Dirichlet(1 + habit) on xi; 0 beyond the task's labels |
    """

    right: Floats
    wrong: Floats
    habit: Floats


class Habit:
    """The habits of all (annotator, task) pairs of a table; the parameters are beta and then xi (pairs, 1 + Kmax).

    | argument | shape | meaning |
    |---|---|---|
    | pair, label | (annotations,) | the pair that gave each annotation, and its label |
    | options | (annotations,) | K of its item |
    | task | (pairs,) | the task of each pair, by which they are pooled |
    | widest | (tasks,) | the most options of any item of the task |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    """

    def __init__(
        self,
        pair: Indices,
        label: npt.NDArray[np.integer],
        options: npt.NDArray[np.integer],
        task: Indices,
        widest: npt.NDArray[np.integer],
        *,
        weight: Floats | None = None,
    ) -> None:
        self.pair, self.task, self.weight, self.n_pairs = pair, task, weight, len(task)
        self.widest: Indices = np.maximum(np.asarray(widest, np.int64), 2)
        self.width = int(self.widest.max(initial=2))
        # A row for every pair, every number of options that occurs (usually one), and every label.
        self.sizes = np.flatnonzero(np.bincount(options)) if len(options) else np.array([self.width])
        size = 0 if len(self.sizes) == 1 else np.searchsorted(self.sizes, options)
        self.row: Indices = (pair * len(self.sizes) + size) * self.width + label
        self.rows = (self.n_pairs, len(self.sizes), self.width)
        self.totals: Floats = self._sums(weight)
        self.inside = np.arange(self.width) < self.widest[task][:, None]
        self.lowest: Floats = -1.0 / (self.widest[task] - 1)
        self.prior = self._first_prior()

    @classmethod
    def of(cls, annotations: Annotations) -> Habit:
        """The habits of a table, one for each annotator and task."""
        tasks = len(annotations.tasks)
        widest = np.full(tasks, 2)
        np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
        options = annotations.option_counts[annotations.item]
        task = np.tile(np.arange(tasks), annotations.n_annotators)
        return cls(pairs_of(annotations), annotations.label, options, task, widest, weight=weights_of(annotations))

    # ---------------------------------------------------------------- the formula

    def habits(self, xi: Floats) -> Floats:
        """xi (pairs, Kmax) over the options of items of each size, 0 beyond. Shape (pairs, sizes, Kmax)."""
        if len(self.sizes) == 1 and self.sizes[0] >= self.width:
            return xi[:, None, :]
        beyond = np.arange(self.width) >= self.sizes[:, None]
        cut = np.where(beyond, 0.0, xi[:, None, :])
        return np.asarray(cut / np.maximum(cut.sum(axis=2, keepdims=True), NEVER))

    def label_probabilities(self, parameters: Floats) -> tuple[Floats, Floats]:
        """P(label | it is true) and P(label | another option is). Shapes (pairs, sizes, Kmax), 0 < both."""
        beta, xi = parameters[:, 0, None, None], parameters[:, 1:]
        other = (1 - beta) * self.habits(xi)
        return np.maximum(beta + other, EDGE), np.maximum(other, EDGE)

    def evidence(self, parameters: Floats) -> LabelEvidence:
        """The evidence of all annotations, at a beta and a habit for each pair (pairs, 1 + Kmax)."""
        own, other = (np.log(share).reshape(-1) for share in self.label_probabilities(parameters))
        return LabelEvidence(own, other, self.row, self.weight, self.totals.reshape(-1))

    def even(self, beta: npt.ArrayLike = START) -> Floats:
        """Parameters with this beta (one, or (pairs,)) and the pool's habit. Shape (pairs, 1 + Kmax)."""
        beta = np.broadcast_to(np.asarray(beta, np.float64), (self.n_pairs,))
        return np.column_stack([beta, self.shares[self.task]])

    # ---------------------------------------------------------------- the M-step

    def update(self, parameters: Floats, posterior: Floats, position: Indices) -> Floats:
        """The M-step: see `AnnotatorModel`. First beta with xi as it is, then xi; neither lowers the objective.

        For a given posterior a pair's labels are two counts for each row: how often it was the truth, and how often
        not. Pairs without annotations keep their parameters.
        """
        right, wrong = self.label_counts(posterior, position)
        beta = self._update_beta(parameters[:, 0], parameters[:, 1:], right, wrong)
        xi = self._update_habits(beta, parameters[:, 1:], right, wrong)
        updated = np.column_stack([beta, xi])
        return np.where((self.weights > 0)[:, None], updated, parameters)

    def label_counts(self, posterior: Floats, position: Indices) -> tuple[Floats, Floats]:
        """How often each row's label was the truth, and how often not, given the posterior. (pairs, sizes, Kmax)"""
        truth = posterior.ravel()[position]
        right = self._sums(truth if self.weight is None else truth * self.weight)
        return right, np.maximum(self.totals - right, 0.0)

    def objective(self, parameters: Floats, right: Floats, wrong: Floats) -> Floats:
        """The expected log-likelihood of each pair's labels, with its prior. Shape (pairs,)."""
        own, other = self.label_probabilities(parameters)
        fit = (right * np.log(own) + wrong * np.log(other)).sum(axis=(1, 2))
        return np.asarray(fit + self._log_priors(parameters))

    def log_prior(self, parameters: Floats) -> float:
        """The log prior of all parameters of pairs with annotations."""
        prior, inside = self.prior, self.inside
        constant = -betaln(1 + prior.right, 1 + prior.wrong) - (prior.right + prior.wrong) * np.log(1 - self.lowest)
        constant += gammaln((prior.habit + inside).sum(axis=1)) - (gammaln(1 + prior.habit) * inside).sum(axis=1)
        return float((self._log_priors(parameters) + constant)[self.weights > 0].sum())

    def _log_priors(self, parameters: Floats) -> Floats:
        beta, xi = parameters[:, 0], parameters[:, 1:]
        low, prior = self.lowest, self.prior
        fit = prior.right * np.log(np.maximum(beta - low, EDGE)) + prior.wrong * np.log(np.maximum(1 - beta, EDGE))
        return np.asarray(fit + (prior.habit * np.log(np.maximum(xi, NEVER))).sum(axis=1))

    def _update_beta(self, beta: Floats, xi: Floats, right: Floats, wrong: Floats) -> Floats:
        """The most probable beta of each pair given its habit: the objective is concave in it. Shape (pairs,)."""
        habits, prior, lowest = self.habits(xi), self.prior, self.lowest
        others = wrong.sum(axis=(1, 2)) + prior.wrong
        low, high = np.maximum(self._least_beta(xi), lowest) + EDGE, np.full(self.n_pairs, 1 - EDGE)
        beta = np.clip(beta, low, high)
        for _ in range(NEWTON_STEPS):
            slope = (1 - habits) / np.maximum(beta[:, None, None] + (1 - beta[:, None, None]) * habits, EDGE)
            near, far = beta - lowest + EDGE, 1 - beta
            first = (right * slope).sum(axis=(1, 2)) - others / far + prior.right / near
            curvature = (right * slope**2).sum(axis=(1, 2)) + others / far**2 + prior.right / near**2
            low, high = np.where(first >= 0, beta, low), np.where(first <= 0, beta, high)
            step = beta + first / np.maximum(curvature, EDGE)
            beta = np.where((step >= low) & (step <= high), step, (low + high) / 2)
        return beta

    def _update_habits(self, beta: Floats, xi: Floats, right: Floats, wrong: Floats) -> Floats:
        """Each habit from the labels that were probably not read off the item. Shape (pairs, Kmax)."""
        proposal = self.prior.habit + self.habit_counts(beta, xi, right, wrong)
        total = proposal.sum(axis=1, keepdims=True)
        proposal = np.where(total > 0, proposal / np.maximum(total, EDGE), xi)
        proposal = np.where(self.inside, np.maximum(proposal, NEVER), 0.0)
        # Below 0 beta is no probability, and the step is not sure to raise the objective.
        rows = np.flatnonzero((beta < 0) & (self.weights > 0))
        if len(rows):
            part = self._part(rows)
            before = part.objective(np.column_stack([beta[rows], xi[rows]]), right[rows], wrong[rows])
            step = proposal[rows] - xi[rows]
            for _ in range(HALVINGS):
                trial = np.column_stack([beta[rows], xi[rows] + step])
                worse = (part.objective(trial, right[rows], wrong[rows]) < before) | (
                    part._least_beta(trial[:, 1:]) > beta[rows]
                )
                if not worse.any():
                    break
                step[worse] /= 2
            step[worse] = 0.0
            proposal[rows] = xi[rows] + step
        return proposal

    def habit_counts(self, beta: Floats, xi: Floats, right: Floats, wrong: Floats) -> Floats:
        """How many labels of each option were given by habit, in expectation. Shape (pairs, Kmax)

        On items with fewer options than the task has, a habit's answer that the item lacks is taken to be drawn again;
        those draws count, too.
        """
        habits = self.habits(xi)
        by_habit = (1 - beta[:, None, None]) * habits
        counts = wrong + right * by_habit / np.maximum(beta[:, None, None] + by_habit, EDGE)
        if len(self.sizes) > 1:
            possible = np.where(np.arange(self.width) < self.sizes[:, None], xi[:, None, :], 0.0)
            drawn = counts.sum(axis=2, keepdims=True) / np.maximum(possible.sum(axis=2, keepdims=True), NEVER)
            counts = counts + drawn * (xi[:, None, :] - possible)
        return np.asarray(counts.sum(axis=1))

    def _least_beta(self, xi: Floats) -> Floats:
        """The beta at which the first probability of each pair would be negative. Shape (pairs,)."""
        least = np.where(self.inside, xi, 1.0).min(axis=1)
        return np.asarray(-least / np.maximum(1 - least, EDGE))

    # ---------------------------------------------------------------- the pool

    @cached_property
    def shares(self) -> Floats:
        """The label shares of each task, one label of each kind added. Shape (tasks, Kmax)."""
        counts = np.zeros((len(self.widest), self.width))
        np.add.at(counts, self.task, self.totals.sum(axis=1))
        counts += np.arange(self.width) < self.widest[:, None]
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    @cached_property
    def weights(self) -> Floats:
        """The sum of the weights of each pair's annotations. Shape (pairs,)."""
        return np.asarray(self.totals.sum(axis=(1, 2)))

    def with_prior(self, prior: HabitPrior) -> Habit:
        """The same habits under another prior."""
        other = object.__new__(Habit)
        other.__dict__.update(self.__dict__)
        other.prior = prior
        return other

    def pooled(self, parameters: Floats, posterior: Floats, position: Indices) -> Habit:
        """The same habits under the prior of each task that best explains all its annotators.

        Skills: the Beta distribution (of those in `realm.crowd.intervals`) with the highest marginal likelihood, given
        the posterior of the items. Habits: the Dirichlet distribution around the label shares whose strength has the
        highest marginal likelihood of the labels given by habit.
        """
        right, wrong = self.label_counts(posterior, position)
        prior = replace(self.prior, right=self.prior.right.copy(), wrong=self.prior.wrong.copy())
        habit = self.prior.habit.copy()
        for task in range(len(self.widest)):
            rows = np.flatnonzero((self.task == task) & (self.weights > 0))
            if not len(rows):
                continue
            chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), POOL_PAIRS)).astype(np.int64)]
            part = self._part(chosen)
            counts = right[chosen], wrong[chosen]
            everybody = self.task == task
            a, b = part._skill_pool(parameters[chosen, 1:], *counts)
            prior.right[everybody], prior.wrong[everybody] = a, b
            given = part.habit_counts(parameters[chosen, 0], parameters[chosen, 1:], *counts)
            habit[everybody] = _habit_weight(given, self.shares[task]) * self.shares[task]
        return self.with_prior(replace(prior, habit=habit))

    def _skill_pool(self, xi: Floats, right: Floats, wrong: Floats) -> tuple[float, float]:
        """The a and b of the Beta distribution of skills that best explains these pairs of one task."""
        grid, lowest = Grid(POOL_GRID), float(self.lowest[0])
        beta = lowest + (1 - lowest) * grid.points
        logs = wrong.sum(axis=(1, 2))[:, None] * np.log1p(-beta)
        habits = self.habits(xi)
        for size in range(habits.shape[1]):
            for label in range(habits.shape[2]):
                own = beta + (1 - beta) * habits[:, size, label, None]
                logs += right[:, size, label, None] * np.log(np.maximum(own, EDGE))
        means, weights, densities = pool_densities(grid.size, -lowest / (1 - lowest))
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        best = np.log(np.maximum(likelihoods @ densities.T, EDGE)).sum(axis=0).argmax()
        return float(means[best] * weights[best]), float((1 - means[best]) * weights[best])

    # ---------------------------------------------------------------- inside

    def _sums(self, values: Floats | None) -> Floats:
        sums = np.bincount(self.row, values, minlength=int(np.prod(self.rows)))
        return np.asarray(sums.astype(np.float64, copy=False).reshape(self.rows))

    def _first_prior(self) -> HabitPrior:
        right, wrong = (np.full(self.n_pairs, count) for count in FIRST_SKILL_COUNTS)
        return HabitPrior(right, wrong, FIRST_HABIT_WEIGHT * self.shares[self.task])

    def _part(self, rows: Indices) -> Habit:
        """Some of the pairs, for what needs no annotations."""
        part, prior = object.__new__(Habit), self.prior
        part.__dict__.update(self.__dict__)
        part.task, part.inside, part.lowest = self.task[rows], self.inside[rows], self.lowest[rows]
        part.prior = HabitPrior(prior.right[rows], prior.wrong[rows], prior.habit[rows])
        return part


def _habit_weight(counts: Floats, shares: Floats) -> float:
    """The strength of a Dirichlet around `shares` (Kmax,) with the highest marginal likelihood of counts (n, Kmax)."""
    inside = shares > 0
    counts, total = counts[:, inside], counts.sum(axis=1)
    fits = [
        float((gammaln(weight) - gammaln(total + weight)).sum())
        + float((gammaln(counts + weight * shares[inside]) - gammaln(weight * shares[inside])).sum())
        for weight in HABIT_WEIGHTS
    ]
    return float(HABIT_WEIGHTS[int(np.argmax(fits))])


def fit_habits(
    joint: JointLikelihood,
    habit: Habit,
    start: Floats | None = None,
    *,
    fixed: Bools | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> tuple[Habit, Floats]:
    """Habits under their pool's prior, and the parameters (pairs, 1 + Kmax) that EM ends at. See `JointLikelihood.fit`.

    The pool's prior is fitted after the first, second, fourth, eighth and sixteenth iteration and then held.
    """
    parameters = habit.even() if start is None else start
    for steps in (*np.diff((0, *POOL_STEPS)).tolist(), 0):
        joint = replace(joint, model=habit)
        parameters = joint.fit(parameters, fixed=fixed, max_iter=steps or max_iter, tol=tol if not steps else 0.0)
        if steps:
            posterior, _ = joint.e_step(habit.evidence(parameters))
            habit = habit.pooled(parameters, posterior, joint.position)
    return habit, parameters
