"""The habit channel: an annotator who does not answer from the item answers by habit, not evenly."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.channels.base import ItemScores, Observed
from realm.channels.uniform import UniformChannel
from realm.data import Annotations

POOL_ANNOTATIONS = 1.0
"""The prior on a habit weighs as much as one annotation that follows the pool: it keeps logits finite, no more."""
LEAST_SHARE = 1e-6
"""The least share of an option in a habit: its logarithm must be finite."""


class HabitChannel(UniformChannel):
    """`P(label = y | truth = k) = beta [y = k] + (1 - beta) xi(y)`, xi the annotator's habit in the task, by gradient.

    MACE's spammer (Hovy et al. 2013) inside the paper's mixture. xi is a distribution over the task's labels, or over
    positions where items list their own options, renormalised over the options that an item has; it starts at the
    label shares of all annotators and is drawn to them by a Dirichlet prior. With xi = 1/K it is `UniformChannel`.
    Use `ConfusionChannel` instead where annotators mistake particular labels for each other.

    | argument | shape | meaning |
    |---|---|---|
    | options | | K, the most options of any item |
    | shares | (tasks, options) | the label shares of each task; None for even ones |
    | counts | (annotators, tasks) | annotations of each, over which the prior is spread; None for no prior |
    | learn_habits | | False holds every habit at `shares` |
    """

    shares: Tensor
    counts: Tensor | None

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
    ) -> None:
        super().__init__(annotators, tasks, start, shared_tasks)
        self.learn_habits, self.options = learn_habits, options
        of_tasks = np.full((tasks, options), 1 / options) if shares is None else np.asarray(shares, dtype=np.float64)
        own = None if counts is None else np.asarray(counts, dtype=np.float64).reshape(annotators, tasks)
        if shared_tasks:
            of_tasks = of_tasks.mean(axis=0, keepdims=True)
            own = None if own is None else own.sum(axis=1, keepdims=True)
        self.register_buffer("shares", torch.tensor(of_tasks, dtype=torch.float32), persistent=False)
        self.register_buffer("counts", None if own is None else torch.tensor(own).float(), persistent=False)
        # Even habits have logits of exactly 0, so that the channel is then `UniformChannel` to the last bit.
        logits = torch.zeros_like(self.shares) if shares is None else self.shares.clamp(min=LEAST_SHARE).log()
        self.habit_logits = nn.Parameter(logits.expand(annotators, -1, -1).clone(), learn_habits)

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        tasks, options = len(annotations.tasks), int(annotations.option_counts.max(initial=2))
        task = annotations.item_tasks[annotations.item].astype(np.int64)
        labels = np.bincount(task * options + annotations.label, minlength=tasks * options).reshape(tasks, options)
        widest = np.ones(tasks, dtype=np.int64)
        np.maximum.at(widest, annotations.item_tasks, annotations.option_counts)
        # One label of each kind is added, so that a label nobody gave yet is not impossible for a guesser.
        shares = np.where(np.arange(options) < widest[:, None], labels + 1.0, 0.0)
        counts = np.bincount(annotations.annotator * tasks + task, minlength=annotations.n_annotators * tasks)
        defaults = {"options": options, "shares": shares / shares.sum(axis=1, keepdims=True), "counts": counts}
        return super().from_annotations(annotations, **{**defaults, **settings})

    def log_guess(self, scores: ItemScores, observed: Observed) -> Tensor:
        width, pair = scores.log_probs.shape[1], (observed.annotator, self.column(observed.task))
        logits = self.habit_logits[*pair, :width]
        beyond = torch.arange(width, device=logits.device) >= scores.option_counts[observed.item][:, None]
        log_habits = logits.masked_fill(beyond, float("-inf")).log_softmax(dim=1)
        return log_habits.gather(1, observed.label[:, None])[:, 0]

    def log_prior(self, observed: Observed) -> Tensor | None:
        """Dirichlet around the label shares, in shares of 1 / n for each of an annotator's n annotations."""
        if self.counts is None or not self.habit_logits.requires_grad:
            return None
        pair = (observed.annotator, self.column(observed.task))
        fit = (self.shares[pair[1]] * self.habit_logits[pair].log_softmax(dim=1)).sum(dim=1)
        return POOL_ANNOTATIONS * fit / self.counts[pair].clamp(min=1)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "learn_habits": self.learn_habits}
