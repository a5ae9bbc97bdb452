"""`RealmModel`: a scorer and a channel; everything that trains."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from realm.channels import Channel
from realm.scorers import Scorer


class RealmModel(nn.Module):
    """Scorer (the language model) and channel (the annotators), side by side; their parameters never mix.

    `forward` takes what `Collator` makes and returns the log-likelihood of each annotation, (annotations,). The loss
    of a batch is minus their sum over the number of annotations in the effective batch.
    """

    def __init__(self, scorer: Scorer, channel: Channel) -> None:
        super().__init__()
        self.scorer = scorer
        self.channel = channel

    def forward(self, **batch: Tensor) -> Tensor:
        likelihood: Tensor = self.channel(
            self.scorer(batch),
            batch["option_counts"],
            batch["annotation_item"],
            batch["annotation_annotator"],
            batch["annotation_task"],
            batch["annotation_labels"],
        )
        return likelihood

    @property
    def config(self) -> Any:
        """The backbone's config: what `Trainer` asks a model for."""
        return self.scorer.backbone.config

    def gradient_checkpointing_enable(self, **settings: Any) -> None:
        self.scorer.backbone.gradient_checkpointing_enable(**settings)
