"""`RealmModel`: a scorer and a channel; everything that trains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from realm.channels import Channel
from realm.scorers import Scorer


class RealmModel(nn.Module):
    """Scorer (the language model) and channel (the annotators), side by side; their parameters never mix.

    `forward` takes what `Collator` makes and returns the log-likelihood of each observation: every annotation and,
    where the batch says so, the gold label of an item. The loss of a batch is minus their sum over the number of
    observations in the effective batch. For an item with gold the model learns log P(gold given prompt), and the
    channel sees the gold in place of P.
    """

    def __init__(self, scorer: Scorer, channel: Channel) -> None:
        super().__init__()
        self.scorer = scorer
        self.channel = channel
        self.label_log_probs: Tensor | None = None

    def forward(self, **batch: Tensor) -> Tensor:
        log_probs = self.scorer(batch)
        item, label = batch["annotation_item"], batch["annotation_labels"]
        self.label_log_probs = log_probs[item, label].detach()
        truth, seen = self._with_gold(log_probs, batch["gold"]) if "gold" in batch else (None, log_probs)
        annotator, task = batch["annotation_annotator"], batch["annotation_task"]
        likelihood: Tensor = self.channel(seen, batch["option_counts"], item, annotator, task, label)
        return likelihood if truth is None else torch.cat([likelihood, truth])

    @staticmethod
    def _with_gold(log_probs: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """log P(gold) of the items that have it (known,), and the log-probabilities with certainty in their place."""
        known = gold >= 0
        certain = torch.full_like(log_probs, float("-inf")).scatter(1, gold.clamp(min=0)[:, None], 0.0)
        return log_probs[known, gold[known]], torch.where(known[:, None], certain, log_probs)

    @property
    def config(self) -> Any:
        """The backbone's config: what `Trainer` asks a model for."""
        return self.scorer.backbone.config

    @property
    def _no_split_modules(self) -> Any:
        """The layers that FSDP shards one by one."""
        return getattr(self.scorer.backbone, "_no_split_modules", None)

    def gradient_checkpointing_enable(self, **settings: Any) -> None:
        self.scorer.backbone.gradient_checkpointing_enable(**settings)
