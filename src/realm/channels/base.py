"""`Channel`: how an annotator turns the true label into the label they give, as evidence for every option."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.data import Annotations
from realm.errors import RealmError


@dataclass(frozen=True)
class ItemScores:
    """What the model says of the items of a batch.

    | field | shape | meaning |
    |---|---|---|
    | log_probs | (items, K) | log P(option given prompt), -inf beyond an item's own options |
    | option_counts | (items,) | K of each item |
    | hidden | (items, width) or None | the state that the answer is read from, for a channel that `needs_hidden` |
    """

    log_probs: Tensor
    option_counts: Tensor
    hidden: Tensor | None = None


@dataclass(frozen=True)
class Observed:
    """The annotations of a batch, one entry each: (annotations,).

    `item` is a row of `ItemScores`, `label` an index into the item's own options, `weight` 1 unless the table says
    otherwise.
    """

    item: Tensor
    annotator: Tensor
    task: Tensor
    label: Tensor
    weight: Tensor

    @classmethod
    def of(cls, annotations: Annotations, indices: npt.NDArray[np.integer] | None = None) -> Observed:
        """Annotations of a table (all, or those at `indices`); `item` is then the row of the table's own items."""
        rows = np.arange(annotations.n_annotations) if indices is None else indices
        item = annotations.item[rows]
        integers = (item, annotations.annotator[rows], annotations.item_tasks[item], annotations.label[rows])
        weight = np.ones(len(rows)) if annotations.weight is None else annotations.weight[rows]
        columns = [torch.from_numpy(values.astype(np.int64)) for values in integers]
        return cls(*columns, weight=torch.from_numpy(weight.astype(np.float32)))  # type: ignore[misc]

    def take(self, rows: Tensor) -> Observed:
        """The annotations at these places; `item` still counts the same rows."""
        columns = (self.item, self.annotator, self.task, self.label, self.weight)
        return Observed(*(column[rows] for column in columns))


class Channel(nn.Module, ABC):
    """Evidence for every option of an annotation's item: E[a, k] = log P(label of a | option k is true).

    A channel is one file: a subclass with `evidence`, and whatever of the rest it needs. Its parameters are trained,
    saved and resumed with the model's. A parameter of shape (annotators, tasks, ...) belongs to annotators: the masked
    optimiser leaves the entries of annotators alone who are not in the effective batch, and `pin` holds them.

    | member | what it is for | default |
    |---|---|---|
    | `evidence(scores, observed)` | the formula, (annotations, K) | to be written |
    | `needs_hidden` | whether `scores.hidden` is wanted | False |
    | `log_prior(observed)` | each annotation's share of a log prior on the parameters | none |
    | `start_from(expertise)` | begin at known expertise | refused |
    | `go_on_from(state)` | begin where the channel of an earlier run ended | its parameters, the rest as new |
    | `needs_anchor(annotations)` | whether something must say which labelling is the true one | False |
    | `update(scores, observed, prior)` | the closed-form update of `expertise_update="em"` | refused |
    | `fit_pool(scores, observed)` | how strongly the update draws annotators to the pool | nothing to fit |
    | `summary()` | columns (annotators, tasks) for the expertise table | none |
    | `parameter_groups(rate)` | groups for the optimiser; `masked` ones are per annotator | every parameter, no decay |
    | `settings()` | what a run records beside the class, so that it is not resumed with another | `shared_tasks` |

    | argument | meaning |
    |---|---|
    | annotators, tasks | the size of what is learned per annotator; 0 for a channel that learns nothing of them |
    | shared_tasks | one value per annotator for all tasks |
    | groups | (annotators,) numbers from 0: whose pool each annotator is drawn to; None for one pool of all |
    """

    needs_hidden = False
    options: int | None = None
    """The most options of an item that the channel was made for; None for any number."""

    pools: Tensor
    """The pool that each annotator is drawn to in each task, an index from 0. (annotators, columns)"""

    def __init__(
        self,
        annotators: int = 0,
        tasks: int = 1,
        shared_tasks: bool = False,
        *,
        groups: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__()
        self.tasks, self.shared_tasks = tasks, shared_tasks
        self.touched = torch.zeros(annotators, 1 if shared_tasks else tasks, dtype=torch.bool)
        self.pinned = torch.zeros(annotators, dtype=torch.bool)
        group = np.zeros(annotators, dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
        columns = self.touched.shape[1]
        self.n_groups = int(group.max(initial=0)) + 1
        pools = group.reshape(annotators, 1) * columns + np.arange(columns)
        self.register_buffer("pools", torch.from_numpy(pools), persistent=False)

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        """The channel for a table: as many annotators and tasks as it has."""
        return cls(annotations.n_annotators, len(annotations.tasks), **settings)

    @property
    def n_pools(self) -> int:
        """Pools of annotators: as many as there are groups, for each column of parameters."""
        return self.n_groups * self.touched.shape[1]

    def members(self, pool: int) -> Tensor:
        """The annotators of a pool who are not pinned, with their column: a mask (annotators, columns)."""
        return (self.pools.cpu() == pool) & ~self.pinned[:, None]

    # ---------------------------------------------------------------- the formula

    @abstractmethod
    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        """log P(label | option k is true) of every annotation and option. (annotations, K)

        K is the width of `scores.log_probs`. Values beyond an item's own options are of no account but must not be NaN.
        """

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
        """A share for each annotation of the log prior on the parameters, (annotations,).

        Shares that add up to the prior over an epoch (1/n of it for each of an annotator's n annotations) make the loss
        independent of how batches are cut.
        """
        return None

    # ---------------------------------------------------------------- parameters

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Groups for the optimiser; `masked` ones move only where `touched` is true."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        per_annotator = {id(parameter) for parameter in self._of_annotators()}
        groups = [
            {"params": [p for p in trained if (id(p) in per_annotator) is masked], "masked": masked}
            for masked in (True, False)
        ]
        return [{**group, "lr": learning_rate, "weight_decay": 0.0} for group in groups if group["params"]]

    def _of_annotators(self) -> Iterator[nn.Parameter]:
        for parameter in self.parameters():
            if self.touched.numel() and parameter.shape[:2] == self.touched.shape:
                yield parameter

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
        for parameter in self._of_annotators():
            if parameter.requires_grad and self.pinned.any():
                parameter.register_hook(self._without_pinned)  # type: ignore[no-untyped-call]

    def _without_pinned(self, gradient: Tensor) -> Tensor:
        rows = self.pinned.to(gradient.device).view(-1, *[1] * (gradient.dim() - 1))
        return gradient.masked_fill(rows, 0.0)

    # ---------------------------------------------------------------- estimates in and out

    def needs_anchor(self, annotations: Annotations) -> bool:
        """Whether the channel fits the flipped labelling of this table as well as the true one."""
        return False

    def start_from(self, expertise: Tensor) -> None:
        """Begin at these expertises, (annotators, tasks); entries that are NaN and pinned annotators stay."""
        raise RealmError(f"{type(self).__name__} cannot start from known expertise: it has no `start_from`.")

    @torch.no_grad()
    def go_on_from(self, state: Mapping[str, Tensor]) -> None:
        """Begin at the parameters of an earlier channel of this kind, by name.

        Its annotators, tasks and options are the first of this channel's, so that its parameters are the leading parts
        of these. Pinned annotators stay; priors are fitted to the pool anew.
        """
        own = {id(parameter) for parameter in self._of_annotators()}
        for name, parameter in self.named_parameters():
            earlier = state.get(name)
            if earlier is None or earlier.dim() != parameter.dim() or (np.array(earlier.shape) > parameter.shape).any():
                continue
            part = parameter[tuple(slice(size) for size in earlier.shape)]
            values = earlier.to(part)
            if id(parameter) in own:
                pinned = self.pinned[: len(values)].to(part.device).view(-1, *[1] * (part.dim() - 1))
                values = torch.where(pinned, part, values)
            part.copy_(values)

    def update(
        self, scores: ItemScores, observed: Observed, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    ) -> None:
        """Set the parameters to their most probable values, given what is known of the items from elsewhere.

        `scores` holds one row per annotation, and `observed.item` counts these rows: the distribution of its item's
        true label without the annotation itself, by the model and the item's other annotations (`ChannelFit`). `prior`
        is the Beta prior on expertise, numbers or (annotators * tasks,) each; None for the pool's (`fit_pool`).
        """
        raise RealmError(f"{type(self).__name__} has no closed-form update: it learns by gradient.")

    def fit_pool(self, scores: ItemScores, observed: Observed) -> None:
        """Fit the priors of `update` to all annotators together; the arguments are those of `update`."""

    def settings(self) -> dict[str, Any]:
        """What distinguishes this channel from others of its class, as plain values."""
        return {"shared_tasks": self.shared_tasks}

    @classmethod
    def can(cls, ability: str) -> bool:
        """Whether the channel has a `start_from` or an `update` of its own."""
        return getattr(cls, ability) is not getattr(Channel, ability)

    def summary(self) -> dict[str, npt.NDArray[np.float64]]:
        """What was learned of each annotator, as columns of the expertise table: name to (annotators, tasks)."""
        return {}

    def _per_task(self, values: Tensor) -> npt.NDArray[np.float64]:
        """(annotators, columns) as (annotators, tasks)."""
        full = values.detach().double().cpu().expand(len(values), self.tasks)
        return np.asarray(full.numpy().copy())
