"""The habit channel: an annotator who does not answer from the item answers by habit, not evenly."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.channels.base import ItemScores, Observed
from realm.channels.uniform import UniformChannel
from realm.crowd.pooling import dirichlet_strength
from realm.data import Annotations

POOL_ANNOTATIONS = 1.0
"""The prior on a habit weighs as much as one annotation that follows the pool, until a pool is fitted."""
NEVER = 1e-6
"""The least share of an option in a habit: its logarithm must be finite."""


class HabitChannel(UniformChannel):
    """`P(label = y | truth = k) = beta [y = k] + (1 - beta) xi(y)`, xi the annotator's habit in the task.

    MACE's spammer (Hovy et al. 2013) inside the paper's mixture. xi is a distribution over the task's labels, or over
    positions where items list their own options, renormalised over the options that an item has; it starts at the
    label shares of all annotators and is drawn to them by a Dirichlet prior. With xi = 1/K it is `UniformChannel`.
    Use `ConfusionChannel` instead where annotators mistake particular labels for each other.

    | argument | shape | meaning |
    |---|---|---|
    | annotators, tasks, start, shared_tasks, groups | | as for `UniformChannel` |
    | options | | K, the most options of any item |
    | shares | (groups * tasks, options) | the label shares of each pool; None for even ones |
    | counts | (annotators, tasks) | annotations of each, over which the prior is spread; None for no prior |
    | learn_habits | | False holds every habit at `shares` |
    """

    pool: Tensor
    counts: Tensor | None
    habit_strength: Tensor

    def __init__(
        self,
        annotators: int,
        tasks: int = 1,
        start: float = 0.0,
        shared_tasks: bool = False,
        *,
        options: int,
        shares: npt.ArrayLike | None = None,
        counts: npt.ArrayLike | None = None,
        learn_habits: bool = True,
        groups: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(annotators, tasks, start, shared_tasks, groups=groups)
        self.learn_habits, self.options = learn_habits, options
        even = np.full((self.n_groups * tasks, options), 1 / options)
        pool = even if shares is None else np.asarray(shares, dtype=np.float64)
        if pool.shape != even.shape:
            raise ValueError(f"`shares` must have shape {even.shape}, groups x tasks and options, not {pool.shape}.")
        own = None if counts is None else np.asarray(counts, dtype=np.float64).reshape(annotators, tasks)
        if shared_tasks:
            pool = pool.reshape(self.n_groups, tasks, options).mean(axis=1)
            own = None if own is None else own.sum(axis=1, keepdims=True)
        self.register_buffer("pool", torch.tensor(pool, dtype=torch.float32), persistent=False)
        self.register_buffer("counts", None if own is None else torch.tensor(own).float(), persistent=False)
        self.register_buffer("habit_strength", torch.full((self.n_pools,), POOL_ANNOTATIONS, dtype=torch.float64))
        # Even habits have logits of exactly 0, so that the channel is then `UniformChannel` to the last bit.
        logits = torch.zeros(self.n_pools, options) if shares is None else self.pool.clamp(min=NEVER).log()
        self.habit_logits = nn.Parameter(logits[self.pools].clone(), learn_habits)

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        tasks, options = len(annotations.tasks), int(annotations.option_counts.max(initial=2))
        task = annotations.item_tasks[annotations.item].astype(np.int64)
        groups = len(annotations.group_names)
        pool = annotations.annotator_groups[annotations.annotator] * tasks + task
        labels = np.bincount(pool * options + annotations.label, minlength=groups * tasks * options)
        labels = labels.reshape(groups * tasks, options)
        # One label of each kind is added, so that a label nobody gave yet is not impossible for a guesser.
        present = np.tile(np.arange(options) < _widest(annotations)[:, None], (groups, 1))
        shares = np.where(present, labels + 1.0, 0.0)
        pair = annotations.annotator.astype(np.int64) * tasks + task
        defaults = {
            "options": options,
            "shares": shares / shares.sum(axis=1, keepdims=True),
            "counts": np.bincount(pair, minlength=annotations.n_annotators * tasks),
        }
        return super().from_annotations(annotations, **{**defaults, **settings})

    def log_habits(self, scores: ItemScores, observed: Observed) -> Tensor:
        """log xi over the options of each annotation's item, -inf beyond them. (annotations, K)"""
        width, pair = scores.log_probs.shape[1], (observed.annotator, self.column(observed.task))
        if self.omega.numel() <= len(observed.label) and int(scores.option_counts.min()) == self.options:
            # Each annotator's habit once, instead of once per annotation.
            return self.habit_logits.log_softmax(dim=2)[pair]
        logits = self.habit_logits[*pair, :width]
        beyond = torch.arange(width, device=logits.device) >= scores.option_counts[observed.item][:, None]
        return logits.masked_fill(beyond, float("-inf")).log_softmax(dim=1)

    def log_guess(self, scores: ItemScores, observed: Observed) -> Tensor:
        return self.log_habits(scores, observed).gather(1, observed.label[:, None])[:, 0]

    def log_prior(self, observed: Observed) -> Tensor | None:
        """Dirichlet around the pool's label shares, in shares of 1 / n for each of an annotator's n annotations."""
        if self.counts is None or not self.habit_logits.requires_grad:
            return None
        pair = (observed.annotator, self.column(observed.task))
        fit = (self.pool[self.pools[pair]] * self.habit_logits[pair].log_softmax(dim=1)).sum(dim=1)
        return POOL_ANNOTATIONS * fit / self.counts[pair].clamp(min=1)

    @torch.no_grad()
    def update(
        self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    ) -> None:
        """Expertise with the habits given, then each habit from the labels that were probably not read off the item."""
        super().update(scores, observed, prior)
        if not self.learn_habits:
            return
        drawn = (self.habit_strength[:, None] * self.pool.double())[self.pools]
        totals = drawn + self._habit_counts(scores, observed)
        moved = (~self.pinned).view(-1, 1, 1)
        logits = totals.clamp(min=NEVER).log().to(self.habit_logits.dtype)
        self.habit_logits.copy_(torch.where(moved, logits, self.habit_logits))

    @torch.no_grad()
    def fit_pool(self, scores: ItemScores, observed: Observed) -> None:
        """Beside the prior on expertise: how much the habits of a pool differ from its label shares."""
        super().fit_pool(scores, observed)
        if self.learn_habits:
            counts = self._habit_counts(scores, observed)
            for pool, shares in enumerate(self.pool.double().numpy()):
                self.habit_strength[pool] = dirichlet_strength(counts[self.members(pool)].numpy(), shares)

    def _habit_counts(self, scores: ItemScores, observed: Observed) -> Tensor:
        """How many labels of each option were given by habit, in expectation. (annotators, columns, K)"""
        column = self.column(observed.task)
        beta = self.omega[observed.annotator, column].double().sigmoid()
        guess = (1 - beta) * self.log_guess(scores, observed).exp().double()
        by_habit = guess / (beta * scores.log_probs[observed.item, observed.label].exp().double() + guess)
        counts = torch.zeros(self.habit_logits.shape, dtype=torch.float64)
        place = (observed.annotator, column, observed.label)
        return counts.index_put_(place, by_habit * observed.weight.double(), accumulate=True)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "learn_habits": self.learn_habits}


def _widest(annotations: Annotations) -> npt.NDArray[np.int64]:
    """The most options of any item of each task. (tasks,)"""
    widest = np.zeros(len(annotations.tasks), dtype=np.int64)
    np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
    return np.maximum(widest, 1)
