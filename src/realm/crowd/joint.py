"""EM on the joint likelihood of all annotations, with the model's P as each item's prior.

The joint likelihood of an item is sum_k P(k|Q) prod_i (beta_i [y_i=k] + (1-beta_i)/K_Q). Expertise is handled here as
`skill` t on [0, 1]: beta = low + (1 - low) t with low = -1/(K-1), K the most options of any item of the task. Where
all items of a task have K options t *is* the accuracy. Seen from one annotation, with every other annotator's skill
given, the likelihood is a straight line in t, `at_worst` (1 - t) + `at_best` t: all else follows from those two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from realm.crowd.posterior import SMALLEST, Floats, cells_of, log_normalise, log_scores
from realm.data import Annotations

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The likelihood of each annotation as a line in its annotator's skill, all others given. Shapes (annotations,)."""

    at_worst: Floats
    at_best: Floats

    def take(self, order: Indices) -> Evidence:
        return Evidence(self.at_worst[order], self.at_best[order])

    def where(self, counts: npt.NDArray[np.bool_]) -> Evidence:
        """The same with nothing said by annotations that do not count: a level line changes no posterior."""
        return Evidence(np.where(counts, self.at_worst, 1.0), np.where(counts, self.at_best, 1.0))

    def credit(self, skill: Floats) -> Floats:
        """The probability that the annotation came from skill and not from a guess, given everything."""
        known = self.at_best * skill
        return known / np.maximum(known + self.at_worst * (1 - skill), SMALLEST)


@dataclass(frozen=True, eq=False)
class Joint:
    """A table of annotations with the model's log-probabilities (items, Kmax), normalised: what EM works on.

    A cell is an (annotator, task) pair, numbered annotator by annotator.
    """

    annotations: Annotations
    log_probs: Floats

    @cached_property
    def cell(self) -> Indices:
        """The cell of each annotation. Shape (annotations,)."""
        return cells_of(self.annotations)

    @cached_property
    def counts(self) -> Indices:
        """Annotations of each cell. Shape (cells,)."""
        return np.bincount(self.cell, minlength=self.n_cells)

    @property
    def n_cells(self) -> int:
        return self.annotations.n_annotators * len(self.annotations.tasks)

    @cached_property
    def lowest(self) -> Floats:
        """The beta of an annotator who is never right, for each cell: -1/(K-1). Shape (cells,)."""
        widest = np.full(len(self.annotations.tasks), 2)
        np.maximum.at(widest, self.annotations.item_tasks, self.annotations.option_counts)
        return np.tile(-1.0 / (widest - 1), self.annotations.n_annotators)

    @cached_property
    def chance(self) -> Floats:
        """Mean 1/K over the items a cell annotated: the accuracy of a guesser. Shape (cells,), NaN where none."""
        share = np.bincount(self.cell, 1.0 / self._options, minlength=self.n_cells)
        with np.errstate(invalid="ignore"):
            mean: Floats = share / self.counts
        return mean

    @cached_property
    def _options(self) -> Indices:
        return self.annotations.option_counts[self.annotations.item].astype(np.int64)

    def skill(self, beta: Floats) -> Floats:
        """beta as skill. Shapes (cells,)."""
        return np.clip((beta - self.lowest) / (1 - self.lowest), 0.0, 1.0)

    def beta(self, skill: Floats) -> Floats:
        """Skill as beta. Shapes (cells,)."""
        return self.lowest + (1 - self.lowest) * skill

    def leave_one_out(self, skill: Floats) -> Evidence:
        """What each annotation says of its annotator, given the skill behind every annotation. Shape (annotations,).

        The true label's probability comes from the model and the item's other annotations; the annotation's own is left
        out, or an annotator would be praised for agreeing with themselves.
        """
        lowest = self.lowest[self.cell]
        beta = lowest + (1 - lowest) * skill
        guess = (1 - beta) / self._options
        own = np.log(np.maximum(beta + guess, SMALLEST)) - np.log(np.maximum(guess, SMALLEST))
        scores = log_normalise(log_scores(self.annotations, self.log_probs, own))
        shares = np.exp(scores)
        others = shares @ (1 - np.eye(shares.shape[1]))
        item, label = self.annotations.item, self.annotations.label
        with np.errstate(divide="ignore"):
            odds = scores[item, label] - own - np.log(others[item, label])
        agrees = 0.5 * (1 + np.tanh(0.5 * np.nan_to_num(odds, nan=0.0, posinf=800.0, neginf=-800.0)))
        floor = 1.0 / self._options
        return Evidence(at_worst=np.maximum(floor + lowest * (agrees - floor), 0.0), at_best=agrees)

    def log_likelihood(self, skill: Floats) -> float:
        """The joint log-likelihood of all annotations at a skill per cell."""
        beta = self.beta(skill)[self.cell]
        guess = np.maximum((1 - beta) / self._options, SMALLEST)
        right = np.maximum(beta + (1 - beta) / self._options, SMALLEST)
        scores = log_scores(self.annotations, self.log_probs, np.log(right) - np.log(guess))
        top = scores.max(axis=1)
        return float((top + np.log(np.exp(scores - top[:, None]).sum(axis=1))).sum() + np.log(guess).sum())

    def climb(
        self,
        start: Floats,
        *,
        prior: tuple[npt.ArrayLike, npt.ArrayLike] = (1.0, 1.0),
        fixed: npt.NDArray[np.bool_] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Floats:
        """EM from `start` (cells,) to a maximum of the joint likelihood times a Beta prior on each skill. (cells,)

        A step never lowers it. `prior` is the Beta's two numbers, for all cells or (cells,). Cells without annotations
        and those in `fixed` keep their start.
        """
        moving = self.counts > 0 if fixed is None else (self.counts > 0) & ~fixed
        right, wrong = (np.asarray(number, np.float64) - 1 for number in prior)
        skill = start.copy()
        for _ in range(max_iter):
            credit = self.leave_one_out(skill[self.cell]).credit(skill[self.cell])
            total = np.bincount(self.cell, credit, minlength=self.n_cells)
            step = np.where(moving, (total + right) / np.maximum(self.counts + right + wrong, SMALLEST), skill)
            moved = np.abs(step - skill).max(initial=0.0)
            skill = step
            if moved < tol:
                break
        return skill
