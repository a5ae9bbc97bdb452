"""Batches: which items and annotations go into each effective batch, and the tensors made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from realm.channels import Observed
from realm.data import Annotations
from realm.scorers.base import Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_cache import FrozenLayersCache

Index = npt.NDArray[np.int64]
GROUPED_BATCHES = 50
"""Items are sorted by length within stretches of so many batches: enough to save padding, few enough to stay random."""


class ItemGroup(NamedTuple):
    """An item and those of its annotations that the batch trains on; `idle` ones only keep a rank in step."""

    item: int
    annotations: Index
    idle: bool = False


class EffectiveBatchSampler(Sampler[list[ItemGroup]]):
    """Yields this rank's micro-batches, `accumulation` of them per optimiser step.

    `unit="item"` draws items with all their annotations, `unit="annotation"` draws annotations and groups those of
    one item. All annotations of an item that fall into an effective batch share one micro-batch, so one forward.
    The last batch of an epoch may be short and then takes fewer micro-batches.

    With `length_grouping`, batches are cut from stretches of 50 batches sorted by length, in random order.
    """

    def __init__(
        self,
        annotations: Annotations,
        lengths: npt.NDArray[np.integer],
        *,
        unit: str = "item",
        micro_size: int,
        accumulation: int = 1,
        world_size: int = 1,
        rank: int = 0,
        seed: int = 0,
        length_grouping: bool = True,
    ) -> None:
        self.annotations, self.lengths, self.unit = annotations, lengths, unit
        self.micro_size, self.accumulation = micro_size, accumulation
        self.world_size, self.rank, self.seed, self.length_grouping = world_size, rank, seed, length_grouping
        self.epoch = 0
        has_gold = np.zeros(annotations.n_items, dtype=bool) if annotations.gold is None else annotations.gold >= 0
        labelled = np.flatnonzero((annotations.annotations_per_item > 0) | has_gold)
        self.units = labelled if unit == "item" else np.arange(annotations.n_annotations)

    @property
    def effective_size(self) -> int:
        return self.micro_size * self.accumulation * self.world_size

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        """Micro-batches of this rank in an epoch."""
        full, rest = divmod(len(self.units), self.effective_size)
        return full * self.accumulation + self._short_steps(rest)

    def _short_steps(self, units: int) -> int:
        return -(-units // (self.micro_size * self.world_size))

    def effective_batches(self) -> list[Index]:
        """The units (items or annotations) of each effective batch of this epoch."""
        generator = np.random.default_rng([self.seed, self.epoch])
        order, size = generator.permutation(self.units), self.effective_size
        if not self.length_grouping:
            return np.split(order, range(size, len(order), size))
        of_unit = self.lengths if self.unit == "item" else self.lengths[self.annotations.item]
        stretches = np.split(order, range(size * GROUPED_BATCHES, len(order), size * GROUPED_BATCHES))
        order = np.concatenate([s[np.argsort(of_unit[s], kind="stable")] for s in stretches])
        batches = np.split(order, range(size, len(order), size))
        # The short batch stays last, since fewer micro-batches can only end an epoch.
        short = [batches.pop()] if len(batches[-1]) < size else []
        return [batches[i] for i in generator.permutation(len(batches))] + short

    def __iter__(self) -> Iterator[list[ItemGroup]]:
        for batch in self.effective_batches():
            steps = self.accumulation if len(batch) == self.effective_size else self._short_steps(len(batch))
            groups = self._groups(batch)
            parts = np.array_split(np.arange(len(groups)), steps * self.world_size)
            for step in range(steps):
                part = parts[step * self.world_size + self.rank]
                idle = [ItemGroup(groups[0].item, np.empty(0, dtype=np.int64), idle=True)]
                yield [groups[i] for i in part] or idle

    def _groups(self, batch: Index) -> list[ItemGroup]:
        """The batch as items with annotations, longest first (so that memory runs out at once if it does)."""
        if self.unit == "item":
            offsets = self.annotations.offsets
            groups = [ItemGroup(int(item), np.arange(offsets[item], offsets[item + 1])) for item in batch]
        else:
            batch = np.sort(batch)
            items, starts = np.unique(self.annotations.item[batch], return_index=True)
            groups = [ItemGroup(int(i), part) for i, part in zip(items, np.split(batch, starts[1:]), strict=True)]
        return sorted(groups, key=lambda group: -int(self.lengths[group.item]))


class TrainingItems(Dataset[ItemGroup]):
    """What the data loader indexes: the sampler already names the groups, so they pass through."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, group: ItemGroup) -> ItemGroup:
        return group


class Collator:
    """One row (or, for `cloze`, one row per option) per distinct item, however many annotations it has.

    Gold goes along only where the table has it, and the methods leave it in the table only under `use_gold`. Where
    `annotations` are a part of the table that the channel is of, `item_rows` and `annotation_rows` say which.
    """

    def __init__(
        self,
        scorer: Scorer,
        encoded: EncodedItems,
        annotations: Annotations,
        cache: FrozenLayersCache | None = None,
        *,
        item_rows: Index | None = None,
        annotation_rows: Index | None = None,
    ) -> None:
        self.scorer, self.encoded, self.annotations, self.cache = scorer, encoded, annotations, cache
        self.item_rows, self.annotation_rows = item_rows, annotation_rows

    def __call__(self, groups: Sequence[ItemGroup]) -> dict[str, Tensor]:
        items = np.array([group.item for group in groups], dtype=np.int64)
        batch = self.scorer.collate(self.encoded, items) if self.cache is None else self.cache.collate(items)
        index = np.concatenate([group.annotations for group in groups])
        rows = np.repeat(np.arange(len(groups)), [len(group.annotations) for group in groups])
        if self.annotations.gold is not None:
            gold = np.where([group.idle for group in groups], -1, self.annotations.gold[items])
            batch["gold"] = torch.from_numpy(gold.astype(np.int64))
        observed = Observed.of(self.annotations, index)
        if self.annotation_rows is not None:
            index = self.annotation_rows[index]
        return {
            **batch,
            "annotation_item": torch.from_numpy(rows),
            "annotation_annotator": observed.annotator,
            "annotation_task": observed.task,
            "annotation_labels": observed.label,
            "annotation_weight": observed.weight,
            "annotation_index": torch.from_numpy(index),
            "item_index": torch.from_numpy(items if self.item_rows is None else self.item_rows[items]),
        }


class BatchLoader(DataLoader[Any]):
    """A data loader that hands the epoch to its sampler; the sampler has already cut the batches by rank."""

    def set_epoch(self, epoch: int) -> None:
        sampler: Any = self.batch_sampler
        sampler.set_epoch(epoch)
