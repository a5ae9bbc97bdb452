"""`RealmModel`: a scorer, a channel and an objective; everything that trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from realm.channels import Channel, ItemScores, Observed
from realm.data import Items
from realm.files import without_home
from realm.objectives import Objective
from realm.scorers import Scorer, load_scorer
from realm.scorers.lora import add_lora
from realm.training.config import RealmConfig


class RealmModel(nn.Module):
    """Scorer (the language model) and channel (the annotators), side by side; their parameters never mix.

    `forward` takes what `Collator` makes and returns the terms of the batch's log-likelihood: the objective's (one per
    annotation, or one per item), the channel's prior where it has one, and log P(gold) of the items whose gold label
    is used. The loss is minus their sum over the effective batch's count (`count`). For an item with gold the channel
    sees certainty in place of P.
    """

    def __init__(self, scorer: Scorer, channel: Channel, objective: Objective) -> None:
        super().__init__()
        self.scorer, self.channel, self.objective = scorer, channel, objective
        self.trained: list[nn.Parameter] = []
        """What the optimiser moves; none before there is one."""
        self.item_log_probs: Tensor | None = None
        """log P over the options of each item, as the last forward gave it. (items, K)"""

    def forward(self, **batch: Tensor) -> Tensor:
        if self.channel.needs_hidden:
            log_probs, hidden = self.scorer.forward_with_hidden(batch)
        else:
            log_probs, hidden = self.scorer(batch), None
        self.item_log_probs = log_probs.detach()
        terms = []
        if "gold" in batch:
            gold, has_gold = batch["gold"], batch["gold"] >= 0
            terms.append(log_probs[has_gold, gold[has_gold]])
            certain = torch.full_like(log_probs, float("-inf")).scatter(1, gold.clamp(min=0)[:, None], 0.0)
            log_probs = torch.where(has_gold[:, None], certain, log_probs)
        scores, observed = (
            ItemScores(log_probs, batch["option_counts"], hidden, batch["item_index"]),
            observed_of(batch),
        )
        if (prior := self.channel.log_prior(observed)) is not None:
            terms.insert(0, prior)
        return torch.cat([self.log_likelihood(scores, observed), *terms])

    def log_likelihood(self, scores: ItemScores, observed: Observed) -> Tensor:
        """The objective's terms, of evidence and P as the channel weighs them."""
        evidence = self.channel(scores, observed)
        if self.objective.takes_exponent and (exponent := self.channel.evidence_exponent(observed)) is not None:
            evidence = exponent[:, None] * evidence
        log_probs, offset = scores.log_probs, self.channel.item_offset(scores)
        log_probs = log_probs if offset is None else log_probs + offset
        observed = replace(observed, weight=self.channel.annotation_weights(observed))
        return self.objective.log_likelihood(log_probs, evidence, observed)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of the parameters that train: to visit the frozen ones costs as much as a step of a small head."""
        for parameter in self.trained or self.parameters():
            parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter.grad)

    def count(self, batch: dict[str, Tensor]) -> float:
        """What a batch adds to the divisor of the loss: what the objective counts, and the gold labels in use."""
        count = float(self.objective.count(batch["annotation_item"], batch["annotation_weight"]))
        return count + (int((batch["gold"] >= 0).sum()) if "gold" in batch else 0)

    @property
    def config(self) -> Any:
        """The backbone's config: what `Trainer` asks a model for."""
        return self.scorer.backbone.config

    def gradient_checkpointing_enable(self, **settings: Any) -> None:
        self.scorer.backbone.gradient_checkpointing_enable(**settings)


def prepare_scorer(model: str | Path | Scorer, items: Items, config: RealmConfig) -> tuple[Scorer, str, Any]:
    """The scorer to train, the name of the model it is made from, and its LoRA adapters (None without)."""
    if isinstance(model, Scorer):
        scorer, name = model, model.backbone.config._name_or_path
    else:
        style = ("scorer", "answers", "instruction", "max_length", "chat_template")
        scorer, name = load_scorer(str(model), items, **{each: getattr(config, each) for each in style}), str(model)
    scorer.temperature = 1.0
    adapted = add_lora(scorer, config.lora_rank) if config.lora_rank else None
    if config.train_layers:
        scorer.freeze_below(config.train_layers)
    return scorer, without_home(name), adapted


def observed_of(batch: dict[str, Tensor]) -> Observed:
    """The annotations of a batch."""
    fields = ("item", "annotator", "task", "labels", "weight", "index")
    return Observed(*(batch[f"annotation_{field}"] for field in fields))
