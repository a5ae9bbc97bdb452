"""One loaded model for all cells of a process that train its upper part alone.

Where little trains, a cell spends most of its time on what never changes: reading the weights, hashing the frozen
ones, and turning the same texts into tokens. Here they are done once. A cell gets the same scorer with its trained
weights as a fresh load under its seed would give them, so that its result is the same to the byte (a test says so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import set_seed

from realm.data import Items
from realm.models.store import model_fingerprint
from realm.scorers import Scorer, load_scorer
from realm.scorers.encoding import EncodedItems
from realm.training import RealmConfig

TABLES = 8
"""Tables whose tokens are kept: both halves of a few data sets."""
LOADING = ("scorer", "answers", "instruction", "max_length", "chat_template")
"""The settings that `load_scorer` reads."""


@dataclass
class SharedScorer:
    """A scorer, and its trained weights as they were at first, by seed: a new head is drawn with the seed."""

    scorer: Scorer
    new_head: bool
    initial: dict[int, list[Tensor]] = field(default_factory=dict)

    def trained(self) -> list[Tensor]:
        return [parameter for parameter in self.scorer.parameters() if parameter.requires_grad]


_LATEST: dict[tuple[Any, ...], SharedScorer] = {}


def shared_scorer(model: str, items: Items, config: RealmConfig) -> Scorer | None:
    """The scorer that a trainer would load for these items, its frozen part shared; None where it must load its own.

    Shared are models with a head, of which only it or the top layers train. Of several models the last one is kept.
    """
    if (
        not config.train_layers
        or config.lora_rank
        or config.gradient_checkpointing
        or config.cross_fit not in (0, "auto")
    ):
        return None
    loading = {name: getattr(config, name) for name in LOADING}
    key = (model, model_fingerprint(model), items.tasks, config.train_layers, *loading.values())
    shared = _LATEST.get(key)
    if shared is None or config.seed not in shared.initial:
        set_seed(config.seed)  # as the trainer does before it loads
        scorer = load_scorer(model, items, **loading)
        if not scorer.has_head:
            return scorer  # a language model's answers may be written into weights that others share
        scorer.freeze_below(config.train_layers)
        fresh = SharedScorer(scorer, scorer.new_head)
        if shared is None:
            # What a trainer does with each scorer is done with this one.
            scorer.encode = _once(scorer.encode)  # type: ignore[method-assign, assignment]
            scorer.freeze_below = _nothing  # type: ignore[method-assign]
            _LATEST.clear()
            shared = _LATEST[key] = fresh
        shared.initial[config.seed] = [weights.detach().clone() for weights in fresh.trained()]
    with torch.no_grad():
        for weights, first in zip(shared.trained(), shared.initial[config.seed], strict=True):
            weights.copy_(first)
            weights.grad = None
    shared.scorer.new_head = shared.new_head
    shared.scorer.eval()
    return shared.scorer


def _once(encode: Callable[[Items], EncodedItems]) -> Callable[[Items], EncodedItems]:
    """`encode`, which remembers the last tables."""
    tables: dict[str, EncodedItems] = {}

    def encode_once(items: Items) -> EncodedItems:
        key = items.fingerprint()
        if key not in tables:
            while len(tables) >= TABLES:
                del tables[next(iter(tables))]
            tables[key] = encode(items)
        return tables[key]

    return encode_once


def _nothing(train_layers: int | str) -> None:
    """The scorer is frozen already."""
