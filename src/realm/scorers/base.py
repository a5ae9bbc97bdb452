"""What every scorer offers: items in, log-probabilities over each item's own options out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.data import Items, Task
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_layers import Trunk, freeze_below
from realm.scorers.prompts import PromptStyle

Batch = dict[str, Tensor]


class Scorer(nn.Module, ABC):
    """A backbone and its tokenizer behind one interface. Knows nothing of annotators.

    `forward(batch)` takes what `collate` made and returns (items, K) log-probabilities, K the largest option count in
    the batch, -inf beyond an item's own options.
    """

    kind: str

    def __init__(self, backbone: Any, tokenizer: Any, style: PromptStyle, tasks: tuple[Task, ...]) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.style = style
        self.tasks = tasks
        self.trunk: Trunk | None = None
        self._frozen: list[nn.Module] = []

    # ---------------------------------------------------------------- items to batches

    @abstractmethod
    def encode(self, items: Items) -> EncodedItems:
        """Token ids of every item (whose tasks are the scorer's)."""

    @abstractmethod
    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        """Tensors for these items (by index), padded on the right."""

    def _common(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        ids, lengths = encoded.rows.pad(encoded.rows_of(items), self.tokenizer.pad_token_id)
        return {
            "input_ids": ids,
            "attention_mask": (torch.arange(ids.shape[1])[None, :] < lengths[:, None]).long(),
            "item_tasks": torch.from_numpy(encoded.tasks[items].astype(np.int64)),
            "option_counts": torch.from_numpy(encoded.option_counts[items].astype(np.int64)),
        }

    # ---------------------------------------------------------------- scoring

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities over each item's options. (items, K)"""

    @abstractmethod
    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`forward`, and the state that each item's answer is read from. (items, K), (items, width)"""

    @abstractmethod
    def run_backbone(self, batch: Batch) -> Tensor:
        """The hidden states that scores are read from. (rows, tokens, width)"""

    def answer_mass(self, batch: Batch) -> Tensor | None:
        """Full-softmax probability that the next token is one of the answer tokens (items,); None where undefined."""
        return None

    # ---------------------------------------------------------------- the frozen part

    def freeze_below(self, train_layers: int) -> None:
        """Train only the top layers; the rest is frozen, runs in eval mode and can be cached."""
        self.trunk, self._frozen = freeze_below(self.backbone, train_layers)
        self.train(self.training)

    def trunk_states(self, batch: Batch) -> Tensor:
        """What the frozen part computes, to be put back as `batch["trunk_states"]`. (rows, tokens, width)"""
        assert self.trunk is not None
        return self.trunk.capture(lambda: self.run_backbone({k: v for k, v in batch.items() if k != "trunk_states"}))

    def _use_trunk(self, batch: Batch) -> None:
        if self.trunk is not None:
            self.trunk.inject(batch.get("trunk_states"))

    def train(self, mode: bool = True) -> Scorer:
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    # ---------------------------------------------------------------- parameters

    def scale_parameters(self) -> Iterable[nn.Parameter]:
        """Parameters of the scorer that are not the backbone's (the scale of `cloze`)."""
        return ()

    def extra_state(self) -> dict[str, Any]:
        """What must be saved beside the backbone to answer the same way again."""
        return {}
