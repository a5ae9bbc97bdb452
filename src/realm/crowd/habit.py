"""The habit: an annotator who answers from the item with one probability, and otherwise from a habit of their own.

    P(label = y | truth = k) = beta [y = k] + (1 - beta) xi(y)

D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013). Learning whom to trust with MACE. Proceedings of NAACL-HLT.

xi is a distribution over the task's labels (over positions, where items list their own options), renormalised over the
options that an item has. Where xi is even this is `realm.crowd.coin` exactly. beta is signed, as a coin's is: it may go
down to where the first probability would be negative, -min xi / (1 - min xi), so that somebody worse than chance can be
seen; at two options beta and xi are together the whole confusion matrix. This is written out here and nowhere else in
numpy (`realm.channels.habit` has it in torch).

Annotators with few labels are drawn to the pool: a Dirichlet prior on xi around the habit of all annotators of the
task (around its label shares, where annotators have few labels), and a Beta prior on the skill of `realm.crowd.coin`
(beta from 0 at -1/(K-1) to 1), both as strong as the annotators of the task are alike (`Habit.pooled`). Where
annotators have groups (people and models), each group of a task is a pool of its own. Without pooling thousands of
annotators with a few labels each fall below a majority vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, gammaln

from realm.crowd.coin import EDGE, bits, pairs_of, weights_of
from realm.crowd.evidence import Bools, Floats, Indices, LabelEvidence
from realm.crowd.intervals import Grid, pool_densities, scaled
from realm.crowd.pooling import STRENGTHS, dirichlet_fits
from realm.data import Annotations

START = 0.5
"""The expertise that EM starts from, half-way from chance to always right: below it the flipped labelling is nearer."""
NEVER = 1e-9
"""The least share of an option of the task in a habit: its logarithm must be finite."""
FIRST_SKILL_COUNTS = (1.0, 1.0)
"""Before a pool is fitted its prior is one label right and one wrong: it keeps skills off 0 and 1."""
FIRST_HABIT_WEIGHT = 2.0
"""Before a pool is fitted habits are drawn to the label shares by as much as two labels."""
CENTRE_WEIGHT = 5.0
"""Labels of each annotator that the label shares are worth against the habits of all, as the centre of the pool: with
few labels habits and class shares cannot be told apart."""
POOL_STEPS = (1, 2, 4, 8, 16)
"""The iterations of EM after which the pool's prior is fitted anew: it moves with the posterior, less and less."""
POOL_GRID = 64
"""Points of the grid of skills on which a pool is fitted: a prior needs no tails."""
POOL_PAIRS = 2048
"""Annotators that a pool is fitted to at most, evenly sample: ten numbers need no more."""
WIDEST = 100.0
"""The most that an unknown habit widens a variance: a tenth of the standard deviations say nothing more."""
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
    | own | (pairs,) or None | whose right and wrong are their own and not the pool's, such as an earlier estimate |
    """

    right: Floats
    wrong: Floats
    habit: Floats
    own: Bools | None = None

    def of(self, rows: Indices) -> HabitPrior:
        """The prior of some of the pairs."""
        return HabitPrior(self.right[rows], self.wrong[rows], self.habit[rows])


class Habit:
    """The habits of all (annotator, task) pairs of a table; the parameters are beta and then xi (pairs, 1 + Kmax).

    | argument | shape | meaning |
    |---|---|---|
    | pair, label | (annotations,) | the pair that gave each annotation, and its label |
    | options | (annotations,) | K of its item |
    | task | (pairs,) | the task of each pair |
    | pool | (pairs,) or None | the pool of each pair, whose pairs are all of one task; None: its task |
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
        pool: Indices | None = None,
        weight: Floats | None = None,
    ) -> None:
        self.pair, self.task, self.weight, self.n_pairs = pair, task, weight, len(task)
        self.pool = task if pool is None else pool
        self.widest: Indices = np.maximum(np.asarray(widest, np.int64), 2)
        self.width = int(self.widest.max(initial=2))
        # A row for every pair, every number of options that occurs (usually one), and every label.
        self.sizes = np.flatnonzero(np.bincount(options)) if len(options) else np.array([self.width])
        size = 0 if len(self.sizes) == 1 else np.searchsorted(self.sizes, options)
        self.row: Indices = (pair * len(self.sizes) + size) * self.width + label
        self.rows = (self.n_pairs, len(self.sizes), self.width)
        self.totals: Floats = self.row_sums(weight)
        self.inside = np.arange(self.width) < self.widest[task][:, None]
        self.lowest: Floats = -1.0 / (self.widest[task] - 1)
        self.prior = self._first_prior()

    @classmethod
    def of(cls, annotations: Annotations, widest: Indices | None = None) -> Habit:
        """The habits of a table, one for each annotator and task. `widest` (tasks,) is that of the table it is from."""
        tasks = len(annotations.tasks)
        if widest is None:
            widest = np.full(tasks, 2)
            np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
        options = annotations.option_counts[annotations.item]
        task = np.tile(np.arange(tasks), annotations.n_annotators)
        pool = np.repeat(annotations.annotator_groups * tasks, tasks) + task
        return cls(
            pairs_of(annotations), annotations.label, options, task, widest, pool=pool, weight=weights_of(annotations)
        )

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

    def probabilities_of(
        self, expertise: Floats, habits: Floats, label: npt.NDArray[np.integer]
    ) -> tuple[Floats, Floats]:
        """P(each annotation had been `label` | it is true), and if another option is. Shapes (annotations,).

        `expertise` is (annotators, tasks), `habits` (annotators, tasks, Kmax), `label` (annotations,).
        """
        parameters = np.column_stack([expertise.reshape(-1), habits.reshape(self.n_pairs, -1)])
        row = self.row // self.width * self.width + label
        own, other = (shares.reshape(-1)[row] for shares in self.label_probabilities(parameters))
        return own, other

    def evidence(self, parameters: Floats) -> LabelEvidence:
        """The evidence of all annotations, at a beta and a habit for each pair (pairs, 1 + Kmax)."""
        own, other = (np.log(share).reshape(-1) for share in self.label_probabilities(parameters))
        return LabelEvidence(own, other, self.row, self.weight, self.totals.reshape(-1))

    def even(self, beta: npt.ArrayLike = START) -> Floats:
        """Parameters with this beta (one, or (pairs,)) and the pool's habit. Shape (pairs, 1 + Kmax)."""
        beta = np.broadcast_to(np.asarray(beta, np.float64), (self.n_pairs,))
        return np.column_stack([beta, self.shares[self.pool]])

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
        right = self.row_sums(truth if self.weight is None else truth * self.weight)
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
        # Every annotator's rows side by side, and what no step changes beforehand: this is where EM spends its time.
        habits, right = (rows.reshape(self.n_pairs, -1) for rows in (self.habits(xi), right))
        prior, lowest, by_item = self.prior, self.lowest, 1 - habits
        others = wrong.sum(axis=(1, 2)) + prior.wrong
        low, high = np.maximum(self.least_beta(xi), lowest) + EDGE, np.full(self.n_pairs, 1 - EDGE)
        beta = np.clip(beta, low, high)
        for _ in range(NEWTON_STEPS):
            near, far = beta - lowest + EDGE, 1 - beta
            slope = by_item / np.maximum(beta[:, None] + far[:, None] * habits, EDGE)
            first = (right * slope).sum(axis=1) - others / far + prior.right / near
            curvature = (right * slope**2).sum(axis=1) + others / far**2 + prior.right / near**2
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
                    part.least_beta(trial[:, 1:]) > beta[rows]
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
        by_habit = (1 - beta[:, None, None]) * self.habits(xi)
        return self.with_redraws(xi, wrong + right * by_habit / np.maximum(beta[:, None, None] + by_habit, EDGE))

    def with_redraws(self, xi: Floats, counts: Floats) -> Floats:
        """Labels given by habit (pairs, sizes, Kmax), with the draws that their items did not have. (pairs, Kmax)"""
        if len(self.sizes) > 1:
            possible = np.where(np.arange(self.width) < self.sizes[:, None], xi[:, None, :], 0.0)
            drawn = counts.sum(axis=2, keepdims=True) / np.maximum(possible.sum(axis=2, keepdims=True), NEVER)
            counts = counts + drawn * (xi[:, None, :] - possible)
        return np.asarray(counts.sum(axis=1))

    def least_beta(self, xi: Floats) -> Floats:
        """The beta at which the first probability of each pair would be negative. Shape (pairs,)."""
        least = np.where(self.inside, xi, 1.0).min(axis=1)
        return np.asarray(-least / np.maximum(1 - least, EDGE))

    # ---------------------------------------------------------------- the pool

    @cached_property
    def shares(self) -> Floats:
        """The label shares of each pool, one label of each kind added. Shape (pools, Kmax)."""
        pools = int(self.pool.max(initial=-1)) + 1
        task = np.zeros(pools, dtype=np.int64)
        task[self.pool] = self.task
        counts = np.zeros((pools, self.width))
        np.add.at(counts, self.pool, self.totals.sum(axis=1))
        counts += np.arange(self.width) < self.widest[task][:, None]
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
        """The same habits under the prior of each pool that best explains all its annotators.

        Skills: the Beta distribution (of those in `realm.crowd.intervals`) with the highest marginal likelihood, given
        the posterior of the items. Habits: the Dirichlet distribution around the habit of all together whose strength
        has the highest marginal likelihood of the labels given by habit.
        """
        right, wrong = self.label_counts(posterior, position)
        prior = replace(self.prior, right=self.prior.right.copy(), wrong=self.prior.wrong.copy())
        habit = self.prior.habit.copy()
        for pool in np.unique(self.pool):
            everybody = self.pool == pool
            rows = np.flatnonzero(everybody & (self.weights > 0))
            if not len(rows):
                continue
            sample = rows[np.linspace(0, len(rows) - 1, min(len(rows), POOL_PAIRS)).astype(np.int64)]
            part = self._part(sample)
            counts = right[sample], wrong[sample]
            a, b = part._skill_pool(parameters[sample, 1:], *counts)
            drawn = everybody if self.prior.own is None else everybody & ~self.prior.own
            prior.right[drawn], prior.wrong[drawn] = a, b
            by_habit = part.habit_counts(parameters[sample, 0], parameters[sample, 1:], *counts)
            centre = by_habit.sum(axis=0) + CENTRE_WEIGHT * len(sample) * self.shares[pool]
            centre /= centre.sum()
            habit[everybody] = STRENGTHS[dirichlet_fits(by_habit, centre).argmax()] * centre
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
        best = np.log(np.maximum(scaled(logs) @ densities.T, EDGE)).sum(axis=0).argmax()
        return float(means[best] * weights[best]), float((1 - means[best]) * weights[best])

    # ---------------------------------------------------------------- what an accuracy is made of

    def truth_shares(self, posterior: Floats, item: npt.NDArray[np.integer], counted: Bools | None = None) -> Floats:
        """The mean posterior over the items of each pair, by their number of options. Shape (pairs, sizes, Kmax).

        The shares of a pair sum to 1 over both. `item` (annotations,) is the item of each annotation, and `counted`
        (annotations,) whether it is looked at.
        """
        rows = slice(None) if counted is None else np.flatnonzero(counted)
        group, item = self.row[rows] // self.width, item[rows]
        sums = [
            np.bincount(group, posterior[item, k], minlength=self.rows[0] * self.rows[1]) for k in range(self.width)
        ]
        shares = np.stack(sums, axis=1).reshape(self.rows)
        return np.asarray(shares / np.maximum(shares.sum(axis=(1, 2), keepdims=True), NEVER))

    def accuracy_of_habit(
        self, xi: Floats, posterior: Floats, item: npt.NDArray[np.integer], counted: Bools | None = None
    ) -> Floats:
        """How often each pair's habit alone would be right on its items. Shape (pairs,), NaN without annotations."""
        right = (self.truth_shares(posterior, item, counted) * self.habits(xi)).sum(axis=(1, 2))
        return np.where(self.weights > 0, right, np.nan)

    def spread_of_habits(
        self, beta: Floats, xi: Floats, truth: Floats, probability: Floats, weight: Floats, truths: Floats
    ) -> Floats:
        """How much wider the variance of each accuracy is than if the habit were known: 1 or more. Shape (pairs,).

        By the information that the labels have on beta and xi, `probability` (annotations,) being beta truth + (1 -
        beta) xi: beta is known from labels as the habit leaves it open, and accuracy = beta + (1 - beta) sum_k truths_k
        xi_k. The information on xi is diagonal, and its prior adds to it, so that no matrix is inverted.
        """
        place = self.pair * self.width + self.row % self.width
        guess = np.maximum(probability - beta[self.pair] * truth, 0.0) / np.maximum(1 - beta[self.pair], EDGE)
        by_beta, by_habit = (truth - guess) / probability, (1 - beta[self.pair]) / probability
        shape = (self.n_pairs, self.width)
        first = np.bincount(self.pair, weight * by_beta**2, minlength=self.n_pairs)
        cross = np.bincount(place, weight * by_beta * by_habit, minlength=self.n_pairs * self.width).reshape(shape)
        own = np.bincount(place, weight * by_habit**2, minlength=self.n_pairs * self.width).reshape(shape)
        own = own + np.where(self.inside, self.prior.habit / np.maximum(xi, NEVER) ** 2, 1.0)
        shares = truths.sum(axis=1)
        slope = np.stack([1 - (shares * xi).sum(axis=1), np.zeros(self.n_pairs)])  # of accuracy, and of the sum of xi
        slopes = np.stack([(1 - beta)[:, None] * shares, self.inside.astype(np.float64)])
        # Solve the information for both: first beta, then xi given it.
        left = np.maximum(first - (cross**2 / own).sum(axis=1), EDGE * np.maximum(first, 1.0))
        solved = (slope - (cross / own * slopes).sum(axis=2)) / left
        solutions = (slopes - cross * solved[..., None]) / own
        product = solved[:, None] * slope + (solutions[:, None] * slopes).sum(axis=3)  # (2, 2, pairs)
        variance = product[0, 0] - product[0, 1] * product[1, 0] / np.maximum(product[1, 1], EDGE)
        known = slope[0] ** 2 / np.maximum(first, EDGE)
        return np.where((first > EDGE) & (known > EDGE), np.clip(variance / np.maximum(known, EDGE), 1.0, WIDEST), 1.0)

    # ---------------------------------------------------------------- inside

    def row_sums(self, values: Floats | None) -> Floats:
        """The sum of values (annotations,) over the annotations of each row. Shape (pairs, sizes, Kmax)."""
        sums = np.bincount(self.row, values, minlength=int(np.prod(self.rows)))
        return np.asarray(sums.astype(np.float64, copy=False).reshape(self.rows))

    def _first_prior(self) -> HabitPrior:
        right, wrong = (np.full(self.n_pairs, count) for count in FIRST_SKILL_COUNTS)
        return HabitPrior(right, wrong, FIRST_HABIT_WEIGHT * self.shares[self.pool])

    def _part(self, rows: Indices) -> Habit:
        """Some of the pairs, for what needs no annotations."""
        part = self.with_prior(self.prior.of(rows))
        part.task, part.pool = self.task[rows], self.pool[rows]
        part.inside, part.lowest = self.inside[rows], self.lowest[rows]
        return part


@dataclass(frozen=True, eq=False)
class HabitLines:
    """Every annotation's evidence and P(label) by the skill of its annotator, its habit being given.

    The skill is that of `realm.crowd.coin`: 0 at the lowest beta that any habit allows, -1/(K-1), and 1 at beta 1.

    | field | shape | meaning |
    |---|---|---|
    | guess | (annotations,) | xi of the label, over the options of its item |
    | lowest | (annotations,) | the beta of skill 0 |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    """

    guess: Floats
    lowest: Floats
    weight: Floats | None = None

    def expertise(self, skill: Floats) -> Floats:
        """Skill as expertise beta, (annotations,) each."""
        return self.lowest + (1 - self.lowest) * skill

    def evidence_each(self, skill: Floats) -> LabelEvidence:
        """The evidence of all annotations, at a skill for each annotation (annotations,)."""
        beta = self.expertise(np.clip(skill, EDGE, 1 - EDGE))
        other = (1 - beta) * self.guess
        own = np.log(np.maximum(beta + other, EDGE))
        return LabelEvidence(own, np.log(np.maximum(other, EDGE)), weight=self.weight)

    def label_line(self, truth: Floats) -> tuple[Floats, Floats]:
        """P(label) at skill 0 and at skill 1, its label being true with probability `truth`. (annotations,) each

        In between P(label) is the straight line from the one to the other. At skill 0 it is negative where the habit
        does not allow so low a beta.
        """
        return self.lowest * truth + (1 - self.lowest) * self.guess, truth


def habit_evidence(annotations: Annotations, expertise: npt.ArrayLike, habits: npt.ArrayLike) -> LabelEvidence:
    """The evidence of every annotation at an expertise beta (annotators, tasks) and habits (annotators, tasks, Kmax).

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> habit_evidence(table, [[0.8], [0.0]], [[[0.5, 0.5]], [[0.1, 0.9]]]).log_odds.round(2).tolist()
        [2.2, 0.0]
    """
    habit = Habit.of(annotations)
    beta, xi = np.nan_to_num(np.asarray(expertise, np.float64)), np.asarray(habits, np.float64)
    return habit.evidence(np.column_stack([beta.reshape(-1), xi.reshape(habit.n_pairs, -1)]))


def label_distribution(expertise: Floats, habits: Floats, posterior: Floats, options: Indices) -> tuple[Floats, Floats]:
    """What an annotator is expected to answer: P(label = k), and the entropy in bits of the label given the truth.

    `expertise` is (n, annotators), `habits` (n, annotators, Kmax) or what broadcasts to it, `posterior` (n, Kmax),
    `options` (n,); returns (n, annotators, Kmax) and (n, annotators). P(label = k) is a straight line in the expertise,
    so it is exact at the mean of an uncertain one.
    """
    inside, own, other = _answer_probabilities(expertise, habits, options, posterior.shape[1])
    noise = bits(other).sum(axis=2) + ((bits(own) - bits(other)) * posterior[:, None, :]).sum(axis=2)
    return np.where(inside, np.maximum(expertise[..., None] * posterior[:, None, :] + other, 0.0), 0.0), noise


def right_after_answer(expertise: Floats, habits: Floats, posterior: Floats, options: Indices) -> Floats:
    """How probably the most probable label is right once the annotator has answered. Shape (n, annotators).

    The sum over answers y of the largest P(truth = k) P(y | k); shapes as in `label_distribution`.
    """
    _, own, other = _answer_probabilities(expertise, habits, options, posterior.shape[1])
    ranked = np.sort(posterior, axis=1)
    second = ranked[:, -2] if ranked.shape[1] > 1 else np.zeros(len(ranked))
    is_first = np.arange(posterior.shape[1]) == posterior.argmax(axis=1)[:, None]
    best_other = np.where(is_first, second[:, None], ranked[:, -1:])  # the largest P of another option than y
    return np.asarray(np.maximum(posterior[:, None, :] * own, best_other[:, None, :] * other).sum(axis=2))


def _answer_probabilities(
    expertise: Floats, habits: Floats, options: Indices, width: int
) -> tuple[Bools, Floats, Floats]:
    """Which options the item has, P(label = k | k is true) and P(label = k | another is true). (n, annotators, Kmax)"""
    inside = (np.arange(width) < options[:, None])[:, None, :]
    xi = np.where(inside, habits, 0.0)
    xi = xi / np.maximum(xi.sum(axis=2, keepdims=True), NEVER)
    other = np.maximum((1 - expertise[..., None]) * xi, 0.0)
    return inside, np.where(inside, np.maximum(expertise[..., None] + other, 0.0), 0.0), other
