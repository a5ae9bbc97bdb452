"""Encoder backbones with a classification head of K rows per task: small and fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from realm.data import Items, Task
from realm.errors import RealmError
from realm.scorers.answers import at_least_float32, masked_log_softmax
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, Ragged, starts_of
from realm.scorers.freezing import FrozenBase


class ClassifierScorer(Scorer):
    """The head has one row for each label of each task; a task reads its own rows.

    The saved model is a plain `AutoModelForSequenceClassification`. The text is read as it is, with the context after
    it; an instruction, a prompt and letters mean nothing to an encoder.
    """

    kind = "classifier"
    auto_class = "AutoModelForSequenceClassification"
    has_head = True

    row_starts: Tensor

    def __init__(self, *parts: Any, **settings: Any) -> None:
        super().__init__(*parts, **settings)
        starts = starts_of([task.labels or () for task in self.tasks])[:-1]
        self.register_buffer("row_starts", torch.from_numpy(starts), persistent=False)

    @classmethod
    def matches(cls, config: Any) -> bool:
        return True

    @classmethod
    def load_options(cls, tasks: tuple[Task, ...]) -> dict[str, Any]:
        if missing := [task.name for task in tasks if task.labels is None]:
            raise RealmError(
                f"`scorer=classifier`: the items of task {missing[0]!r} list options of their own; a classifier needs "
                "one label set per task. Use a language model."
            )
        rows = [(task.name, label) for task in tasks for label in task.labels or ()]
        names = [label if len(tasks) == 1 else f"{task}: {label}" for task, label in rows]
        return {"id2label": dict(enumerate(names)), "label2id": {name: row for row, name in enumerate(names)}}

    def check(self, name: str) -> Tensor:
        """The head must have a row for every label."""
        logits, rows = self.run_backbone(self.probe()), sum(len(task.labels or ()) for task in self.tasks)
        if logits.shape != (1, rows):
            raise RealmError(f"`model={name}`: its head has {logits.shape[-1]} rows; the tasks have {rows} labels.")
        return logits

    def encode(self, items: Items) -> EncodedItems:
        if items.options is not None and items.options.null_count < len(items):
            raise RealmError("a classifier needs one label set per task; these items list options of their own.")
        texts = [f"{item.text}\n{item.context}" if item.context else item.text for item in items]
        limit = {"truncation": True, "max_length": self.style.max_length}
        return EncodedItems(
            rows=Ragged.of(self.tokenizer(texts, **limit)["input_ids"] if texts else []),
            row_starts=np.arange(len(items) + 1, dtype=np.int64),
            tasks=items.item_tasks,
            option_counts=items.option_counts,
        )

    def run_backbone(self, batch: Batch) -> Tensor:
        logits: Tensor = self.backbone(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return logits

    def _freeze_below_head(self) -> nn.Module:
        self._frozen_base = FrozenBase(self.backbone, self.probe())
        return self._frozen_base.base

    def head_states(self, batch: Batch) -> Tensor:
        return self._frozen_base.states({name: batch[name] for name in ("input_ids", "attention_mask")})

    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The hidden state is the mean of the last layer's over the item's tokens, or the state that the head reads."""
        if self.head_only:
            states = self.head_input(batch)
            return self._log_probs(self._frozen_base.logits(states), batch), states
        self._use_frozen_states(batch)
        mask = batch["attention_mask"]
        output = self.backbone(input_ids=batch["input_ids"], attention_mask=mask, output_hidden_states=True)
        states = output.hidden_states[-1] * mask[:, :, None]
        return self._log_probs(output.logits, batch), states.sum(dim=1) / mask.sum(dim=1, keepdim=True)

    def forward(self, batch: Batch) -> Tensor:
        if self.head_only:
            return self.forward_with_hidden(batch)[0]
        self._use_frozen_states(batch)
        return self._log_probs(self.run_backbone(batch), batch)

    @torch.no_grad()
    def merge_temperature(self) -> None:
        """Divide the weights of the head's last layer, where dividing them divides the logits and rounds nothing."""
        layers = [layer for _, layer in self._linear_layers(self.backbone.config.num_labels)]
        if self.temperature == 1 or not layers or layers[-1].weight.dtype not in (torch.float32, torch.float64):
            return
        training, probe = self.training, self.probe()
        self.eval()
        self._use_frozen_states(probe)
        parameters = [each for each in (layers[-1].weight, layers[-1].bias) if each is not None]
        logits, weights = self.run_backbone(probe), [each.clone() for each in parameters]
        for each in parameters:
            each.div_(self.temperature)
        # rounding alone may differ
        if torch.allclose(self.run_backbone(probe) * self.temperature, logits, rtol=1e-4, atol=1e-6):
            self.temperature = 1.0
        else:
            for each, before in zip(parameters, weights, strict=True):
                each.copy_(before)
        self.train(training)

    def _linear_layers(self, rows: int) -> list[tuple[str, nn.Linear]]:
        """The linear layers of so many rows by name: the last is the one that gives the logits."""
        layers = ((name, each) for name, each in self.backbone.named_modules() if isinstance(each, nn.Linear))
        return [(name, layer) for name, layer in layers if layer.out_features == rows]

    def _log_probs(self, logits: Tensor, batch: Batch) -> Tensor:
        counts = batch["option_counts"]
        rows = self.row_starts[batch["item_tasks"]][:, None] + torch.arange(int(counts.max()), device=counts.device)
        return masked_log_softmax(at_least_float32(logits).gather(1, rows.clamp(max=logits.shape[1] - 1)), counts)
