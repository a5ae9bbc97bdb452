"""How frequent each label is, beyond what the model says: an offset on log P for each label of a task.

A model at chance gives every label the same P, and one trained on annotators who miss the rare label gives it too
little. With several labels per item agreement shows how frequent each label is; without an offset the habits would have
to explain what the class shares should, and annotators would look worse than they are. As with a temperature
(`realm.crowd.calibration`), nothing can be said with one label per item; and items with options of their own have no
label in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Bools, Floats, JointLikelihood, label_positions, log_softmax_rows
from realm.crowd.habit import POOL_STEPS, Habit
from realm.crowd.priors import relative_tasks, with_gold
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

AS_THE_MODEL_SAYS = 1.0
"""Items that the model's own class shares are worth against those that annotators agree on: enough to keep every label
possible. With 10 a model at chance covered 86% where this covers 91% (200 items, labels 0.7 and 0.3)."""
ROUNDS, STEPS = 20, 10
"""Most rounds of so many EM steps and a new offset, after the pool's prior is held; most tables need five."""
SETTLED = 1e-3
"""A change of the offsets that alters no probability in its third decimal."""


@dataclass(frozen=True, eq=False)
class ClassBalance:
    """The prior of every item: the model's P, an offset for each label of its task, and gold where it is known.

    | field | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | log P(k|Q) of the model, normalised |
    | gold | (items,) or None | the true label where it is known, -1 elsewhere |
    | offset | (tasks, Kmax) | what is added to log P |
    """

    annotations: Annotations
    log_probs: Floats
    gold: npt.NDArray[np.integer] | None
    offset: Floats

    @classmethod
    def of(
        cls, annotations: Annotations, log_probs: Floats, gold: npt.NDArray[np.integer] | None = None
    ) -> ClassBalance:
        """With no offset yet."""
        with_gold(annotations, log_probs, gold)  # refuses gold that does not fit
        return cls(annotations, log_probs, gold, np.zeros((len(annotations.tasks), log_probs.shape[1])))

    def take_items(self, items: npt.NDArray[np.integer]) -> ClassBalance:
        """The same offset for some of the items."""
        gold = None if self.gold is None else np.asarray(self.gold)[items]
        return ClassBalance(self.annotations.take_items(items), self.log_probs[items], gold, self.offset)

    @property
    def prior(self) -> Floats:
        """The log-probabilities of every item. (items, Kmax)"""
        return with_gold(self.annotations, self._balanced, self.gold)

    def posterior(self, sums: Floats, exponent: float = 1.0) -> Floats:
        """P(true label = k) of every item, given the summed evidence of its annotations. Shapes (items, Kmax).

        What was learned from annotators, their evidence and the offset, counts to the power of `exponent`.
        """
        scores = self.log_probs + exponent * (self.offset[self.annotations.item_tasks] + sums)
        scores = with_gold(self.annotations, log_softmax_rows(scores), self.gold)
        return np.exp(scores, out=scores)

    @property
    def _balanced(self) -> Floats:
        return log_softmax_rows(self.log_probs + self.offset[self.annotations.item_tasks])

    @property
    def _tasks(self) -> list[int]:
        """The tasks that get an offset: those with labels in common whose scale agreement or gold fixes."""
        relative = relative_tasks(self.annotations, self.gold)
        return [index for index, task in enumerate(self.annotations.tasks) if task.labels and not relative[index]]

    def fitted(self, posterior: Floats) -> ClassBalance:
        """With the offset moved one step of iterative scaling to where the prior has the posterior's class shares.

        Items with one annotation and no gold are not counted.
        """
        counted = self.annotations.annotations_per_item > 1
        if self.gold is not None:
            counted |= np.asarray(self.gold) != UNKNOWN
        offset, balanced = self.offset.copy(), np.exp(self._balanced)
        for task in self._tasks:
            rows = counted & (self.annotations.item_tasks == task)
            if not rows.any():
                continue
            model = AS_THE_MODEL_SAYS * np.exp(self.log_probs[rows]).mean(axis=0)
            share = AS_THE_MODEL_SAYS * balanced[rows].mean(axis=0)
            wanted, present = posterior[rows].sum(axis=0) + model, balanced[rows].sum(axis=0) + share
            possible = present > 0
            offset[task, possible] += np.log(np.maximum(wanted[possible], SETTLED) / present[possible])
            offset[task, possible] -= offset[task, possible].mean()
        return replace(self, offset=offset)


def _label_shares(balance: ClassBalance) -> Floats:
    """The share of each item's annotations that gave each option, or its gold: what EM starts from. (items, Kmax)"""
    annotations, shape = balance.annotations, balance.log_probs.shape
    counts = np.bincount(label_positions(annotations, shape[1]), annotations.weight, minlength=shape[0] * shape[1])
    counts = counts.reshape(shape).astype(np.float64)
    if balance.gold is not None:
        known = np.flatnonzero(np.asarray(balance.gold) != UNKNOWN)
        counts[known] = np.arange(shape[1]) == np.asarray(balance.gold)[known, None]
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), SETTLED))


def fit_habits(
    balance: ClassBalance,
    habit: Habit,
    start: Floats | None = None,
    *,
    fixed: Bools | None = None,
    tol: float = 1e-6,
) -> tuple[ClassBalance, Habit, Floats]:
    """The class balance, habits under their pool's prior, and the parameters (pairs, 1 + Kmax) that EM ends at.

    Both are fitted after the first, second, fourth, eighth and sixteenth iteration; then the pool's prior is held.
    Pairs in `fixed` (pairs,) keep their `start`. See `JointLikelihood.fit`.
    """
    parameters = habit.even() if start is None else start
    balance = balance.fitted(_label_shares(balance))
    stages = [*np.diff((0, *POOL_STEPS)).tolist(), *[STEPS] * ROUNDS]
    for stage, steps in enumerate(stages):
        joint = JointLikelihood(balance.annotations, balance.prior, habit)
        before, parameters = parameters, joint.fit(parameters, fixed=fixed, max_iter=steps, tol=tol)
        posterior, _ = joint.e_step(habit.evidence(parameters))
        moved, balance = balance.offset, balance.fitted(posterior)
        habit = habit.pooled(parameters, posterior, joint.position)
        if stage >= len(POOL_STEPS) and (
            np.abs(parameters - before).max(initial=0.0) < SETTLED
            and np.abs(balance.offset - moved).max(initial=0.0) < SETTLED
        ):
            break
    return balance, habit, parameters
