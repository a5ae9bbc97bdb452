"""Batches: which items and annotations go into each effective batch, and the tensors made of them."""

from __future__ import annotations

import math
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
from realm.training.config import RealmConfig

Index = npt.NDArray[np.int64]
GROUPED_BATCHES = 50
"""Items are sorted by length within stretches of so many batches: enough to save padding, few enough to stay random."""


class ItemGroup(NamedTuple):
    """An item and those of its annotations that the batch trains on; `idle` ones only keep a rank in step."""

    item: int
    annotations: Index
    idle: bool = False


class EffectiveBatchSampler(Sampler[list[ItemGroup]]):
    """Yields this rank's micro-batches, as many per optimiser step as the config accumulates.

    Which items and annotations a step sees depends on the seed, the epoch and the effective size alone.
    `batch_unit=item` draws items with all their annotations, `annotation` draws annotations and groups those of one
    item. All annotations of an item that fall into an effective batch share one micro-batch, so one forward. The last
    batch of an epoch may be short and then takes fewer micro-batches.
    """

    def __init__(self, annotations: Annotations, lengths: npt.NDArray[np.integer], config: RealmConfig) -> None:
        self.annotations, self.lengths, self.config, self.epoch = annotations, lengths, config, 0
        self.by_item, self.units = config.batch_unit == "item", units_of(annotations, config.batch_unit)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        """Micro-batches of this rank in an epoch."""
        full, rest = divmod(len(self.units), self.config.effective_batch_size)
        return full * self.config.gradient_accumulation_steps + self._micro_batches(rest)

    def _micro_batches(self, units: int) -> int:
        """How many micro-batches a rank takes for so many units."""
        return math.ceil(units / int(self.config.per_device_train_batch_size * self.config.world_size))

    def effective_batches(self) -> list[Index]:
        """The units (items or annotations) of each effective batch of this epoch."""
        generator = np.random.default_rng([self.config.seed, self.epoch])
        order, size = generator.permutation(self.units), self.config.effective_batch_size
        if not self.config.length_grouping:
            return np.split(order, range(size, len(order), size))
        lengths = self.lengths if self.by_item else self.lengths[self.annotations.item]
        stretches = np.split(order, range(size * GROUPED_BATCHES, len(order), size * GROUPED_BATCHES))
        order = np.concatenate([s[np.argsort(lengths[s], kind="stable")] for s in stretches])
        batches = np.split(order, range(size, len(order), size))
        # The short batch stays last, since fewer micro-batches can only end an epoch.
        short = [batches.pop()] if len(batches[-1]) < size else []
        return [batches[i] for i in generator.permutation(len(batches))] + short

    def __iter__(self) -> Iterator[list[ItemGroup]]:
        processes, rank = self.config.world_size, self.config.process_index
        for batch in self.effective_batches():
            groups, steps = self._groups(batch), self._micro_batches(len(batch))
            parts = np.array_split(np.arange(len(groups)), steps * processes)
            idle = [ItemGroup(groups[0].item, np.empty(0, dtype=np.int64), idle=True)]
            for part in parts[rank::processes]:
                yield [groups[i] for i in part] or idle

    def _groups(self, batch: Index) -> list[ItemGroup]:
        """The batch as items with annotations, longest first (so that memory runs out at once if it does)."""
        if self.by_item:
            offsets = self.annotations.offsets
            groups = [ItemGroup(int(item), np.arange(offsets[item], offsets[item + 1])) for item in batch]
        else:
            batch = np.sort(batch)
            items, starts = np.unique(self.annotations.item[batch], return_index=True)
            groups = [ItemGroup(int(i), part) for i, part in zip(items, np.split(batch, starts[1:]), strict=True)]
        return sorted(groups, key=lambda group: -int(self.lengths[group.item]))


def units_of(annotations: Annotations, unit: str) -> Index:
    """What an epoch passes over: the items with labels or gold, or all annotations."""
    if unit == "annotation":
        return np.arange(annotations.n_annotations)
    has_gold = False if annotations.gold is None else annotations.gold >= 0
    return np.flatnonzero((annotations.annotations_per_item > 0) | has_gold)


class Collator:
    """One row (or, for `cloze`, one row per option) per distinct item, however many annotations it has.

    Gold goes along only where the table has it, and the methods leave it in the table only under `use_gold`.
    """

    def __init__(
        self, scorer: Scorer, encoded: EncodedItems, annotations: Annotations, cache: FrozenLayersCache | None = None
    ) -> None:
        self.scorer, self.encoded, self.annotations, self.cache = scorer, encoded, annotations, cache

    def __call__(self, groups: Sequence[ItemGroup]) -> dict[str, Tensor]:
        items = np.array([group.item for group in groups], dtype=np.int64)
        batch = self.scorer.collate(self.encoded, items) if self.cache is None else self.cache.collate(items)
        index = np.concatenate([group.annotations for group in groups])
        rows = np.repeat(np.arange(len(groups)), [len(group.annotations) for group in groups])
        if self.annotations.gold is not None:
            gold = np.where([group.idle for group in groups], -1, self.annotations.gold[items])
            batch["gold"] = torch.from_numpy(gold.astype(np.int64))
        observed = Observed.of(self.annotations, index)
        return {
            **batch,
            "annotation_item": torch.from_numpy(rows),
            "annotation_annotator": observed.annotator,
            "annotation_task": observed.task,
            "annotation_labels": observed.label,
            "annotation_weight": observed.weight,
            "annotation_index": torch.from_numpy(index),
            "item_index": torch.from_numpy(items),
        }


class TrainingItems(Dataset[Any]):
    """What the data loader indexes: the sampler already names the groups, so they pass through."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, group: Any) -> Any:
        return group


class BatchLoader(DataLoader[Any]):
    """A data loader that hands the epoch to its sampler; the sampler has already cut the batches by rank."""

    def set_epoch(self, epoch: int) -> None:
        sampler: Any = self.batch_sampler
        sampler.set_epoch(epoch)
