"""Groups of items and annotations to the tensors `RealmModel` takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from realm.data import Annotations
from realm.scorers.base import Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_cache import TrunkCache
from realm.training.sampler import ItemGroup


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

    Gold goes along only where the table has it, and the methods leave it in the table only under `use_gold`.
    """

    def __init__(
        self, scorer: Scorer, encoded: EncodedItems, annotations: Annotations, cache: TrunkCache | None = None
    ) -> None:
        self.scorer, self.encoded, self.annotations, self.cache = scorer, encoded, annotations, cache

    def __call__(self, groups: Sequence[ItemGroup]) -> dict[str, Tensor]:
        items = np.array([group.item for group in groups], dtype=np.int64)
        batch = self.scorer.collate(self.encoded, items)
        if self.cache is not None:
            self.cache.add_to(batch, self.encoded.rows_of(items))
        picked = np.concatenate([group.annotations for group in groups])
        position = np.repeat(np.arange(len(groups)), [len(group.annotations) for group in groups])
        table = self.annotations
        if table.gold is not None:
            gold = np.where([group.idle for group in groups], -1, table.gold[items])
            batch["gold"] = torch.from_numpy(gold.astype(np.int64))
        return {
            **batch,
            "annotation_item": torch.from_numpy(position),
            "annotation_annotator": torch.from_numpy(table.annotator[picked].astype(np.int64)),
            "annotation_task": torch.from_numpy(table.item_tasks[table.item[picked]].astype(np.int64)),
            "annotation_labels": torch.from_numpy(table.label[picked].astype(np.int64)),
            "annotation_index": torch.from_numpy(picked),
        }
