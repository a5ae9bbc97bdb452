"""`Channel`: how an annotator turns the true label into the label they give, as evidence for every option."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.data import Annotations
from realm.errors import RealmError

FIT_STEPS = 10
"""Closed-form updates before the first step, for a channel that brings an `update` and no `fit` of its own."""


@dataclass(frozen=True)
class ItemScores:
    """What the model says of some items."""

    log_probs: Tensor  # (items, K), log P(option given prompt), -inf beyond an item's own options
    option_counts: Tensor  # (items,), K of each item
    hidden: Tensor | None = None  # (items, width), the state that the answer is read from, where `needs_hidden`
    index: Tensor | None = None  # (items,), the items' rows in the channel's table; None for other items


@dataclass(frozen=True)
class Observed:
    """Annotations of these items, one entry each: (annotations,)."""

    item: Tensor  # a row of `ItemScores`
    annotator: Tensor
    task: Tensor
    label: Tensor  # an index into the item's own options
    weight: Tensor  # 1 unless the table says otherwise
    index: Tensor | None = None  # the annotation's row in the channel's table; None for other annotations

    @classmethod
    def of(cls, annotations: Annotations, indices: npt.NDArray[np.integer] | None = None) -> Observed:
        """Annotations of a table (all, or those at `indices`); `item` is then the row of the table's own items."""
        rows = np.arange(annotations.n_annotations) if indices is None else indices
        item = annotations.item[rows]
        columns = (item, annotations.annotator[rows], annotations.item_tasks[item], annotations.label[rows])
        weight = np.ones(len(rows)) if annotations.weight is None else annotations.weight[rows]
        tensors = [torch.from_numpy(column.astype(np.int64)) for column in columns]
        return cls(*tensors, weight=torch.from_numpy(weight).float())  # type: ignore[misc]


class Channel(nn.Module, ABC):
    """Evidence for every option of an annotation's item: E[a, k] = log P(label of a | option k is true).

    A channel is one file: a subclass with `evidence`, and whatever of the rest it needs. Its parameters are trained,
    saved and resumed with the model's. A parameter of shape (annotators, tasks, ...) belongs to annotators: the masked
    optimiser leaves the entries of annotators alone who are not in the effective batch, and `pin` holds them. A channel
    with an `update` is fitted in closed form, one without learns by gradient.

    `annotators` and `tasks` are the size of what is learned per annotator, 0 for a channel that learns nothing of them;
    `shared_tasks`: one value per annotator for all tasks.
    """

    needs_hidden = False  # whether `scores.hidden` is wanted
    options: int | None = None  # the most options of an item that the channel was made for; None for any number

    def __init__(self, annotators: int = 0, tasks: int = 1, shared_tasks: bool = False) -> None:
        super().__init__()
        self.tasks, self.shared_tasks = tasks, shared_tasks
        self.touched = torch.zeros(annotators, 1 if shared_tasks else tasks, dtype=torch.bool)
        self.pinned = torch.zeros(annotators, dtype=torch.bool)

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        """The channel for a table: as many annotators and tasks as it has."""
        return cls(annotations.n_annotators, len(annotations.tasks), **settings)

    @abstractmethod
    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        """log P(label | option k is true), (annotations, K); beyond an item's options anything but NaN."""

    def forward(self, scores: ItemScores, observed: Observed) -> Tensor:
        """`evidence`, noting during training whose parameters it used."""
        if self.training and self.touched.numel():
            self.touched = self.touched.to(observed.annotator.device)
            self.touched[observed.annotator, self.column(observed.task)] = True
        return self.evidence(scores, observed)

    def column(self, task: Tensor) -> Tensor:
        """The column that holds a task's parameters."""
        return torch.zeros_like(task) if self.shared_tasks else task

    def log_prior(self, observed: Observed) -> Tensor | None:
        """Each annotation's share of the log prior on the parameters, 1/n of its annotator's. (annotations,)"""
        return None

    def item_offset(self, scores: ItemScores) -> Tensor | None:
        """Added to log P in the likelihood, never to P itself. (items, K)"""
        return None

    def evidence_exponent(self, observed: Observed) -> Tensor | None:
        """tau, by which the joint likelihood multiplies evidence: below 1 where annotators err alike. (annotations,)"""
        return None

    def annotation_weights(self, observed: Observed) -> Tensor:
        """How much each annotation counts. (annotations,)"""
        return observed.weight

    def update(self, scores: ItemScores, annotations: Annotations) -> None:
        """Set the parameters from all annotations of a table, gold in use, and P of its items: NaN where unknown."""
        raise RealmError(f"{type(self).__name__} has no closed-form update: it learns by gradient.")

    def fit(self, scores: ItemScores, annotations: Annotations) -> None:
        """`update` until it settles, before the first step; the arguments are those of `update`."""
        for _ in range(FIT_STEPS if bool(scores.log_probs[:, 0].isfinite().any()) else 0):
            self.update(scores, annotations)

    @classmethod
    def can(cls, ability: str) -> bool:
        """Whether the channel has a `start_from` or an `update` of its own."""
        return getattr(cls, ability) is not getattr(Channel, ability)

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Groups for the optimiser; `masked` ones move only where `touched` is true."""
        own, common = [id(each) for each in self._of_annotators()], {"lr": learning_rate, "weight_decay": 0.0}
        trained = [each for each in self.parameters() if each.requires_grad]
        groups = [
            {"params": [p for p in trained if (id(p) in own) is is_own], "masked": is_own} for is_own in (True, False)
        ]
        return [{**group, **common} for group in groups if group["params"]]

    def _of_annotators(self) -> list[nn.Parameter]:
        return [each for each in self.parameters() if self.touched.numel() and each.shape[:2] == self.touched.shape]

    def clear_touched(self) -> None:
        self.touched.zero_()

    def pin(self, rows: Sequence[int], expertise: float) -> None:
        """Hold these annotators at this expertise: none of their parameters moves again."""
        values = torch.full(self.touched.shape, float("nan"), dtype=torch.float64)
        values[list(rows)] = expertise
        self.start_from(values)
        self.pinned[list(rows)] = True
        self.hold_pinned()

    def hold_pinned(self) -> None:
        """Keep gradients from pinned annotators. A copy of a channel needs it anew: hooks are not copied."""

        def without_pinned(gradient: Tensor) -> Tensor:
            rows = self.pinned.to(gradient.device).view(-1, *[1] * (gradient.dim() - 1))
            return gradient.masked_fill(rows, 0.0)

        for parameter in self._of_annotators():
            if parameter.requires_grad and self.pinned.any():
                parameter.register_hook(without_pinned)  # type: ignore[no-untyped-call]

    def set_known(self, parameter: nn.Parameter, values: Tensor) -> None:
        """Set a parameter (annotators, columns) where values are no NaN and annotators not pinned."""
        moved = ~values.isnan() & ~self.pinned.to(values.device)[:, None]
        with torch.no_grad():
            parameter.copy_(torch.where(moved, values.to(parameter.dtype), parameter))

    def needs_anchor(self, annotations: Annotations) -> bool:
        """Whether the channel fits the flipped labelling of this table as well as the true one."""
        return False

    def start_from(self, expertise: Tensor) -> None:
        """Begin at these expertises, (annotators, tasks); entries that are NaN and pinned annotators stay."""
        raise RealmError(f"{type(self).__name__} cannot start from known expertise: it has no `start_from`.")

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What was learned, by name: what checkpoints and runs hold."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self.state_dict().items()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put a `state` back; another shape or name is an error (`RuntimeError`)."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})

    def settings(self) -> dict[str, Any]:
        """What distinguishes this channel from others of its class, as plain values."""
        return {"shared_tasks": self.shared_tasks}

    def summary(self) -> dict[str, npt.NDArray[np.float64]]:
        """What was learned of each annotator, as columns of the expertise table: name to (annotators, tasks)."""
        return {}

    def _per_task(self, values: Tensor) -> npt.NDArray[np.float64]:
        """(annotators, columns) as (annotators, tasks)."""
        return np.asarray(values.detach().double().cpu().expand(len(values), self.tasks).numpy().copy())
