"""Log-probabilities of every item's options, and the table of predictions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from realm.crowd.engine import log_softmax
from realm.data import Items
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_cache import FrozenLayersCache

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The model's probabilities for each item.

    `log_probs` is (items, K), -inf beyond an item's own options; `answer_mass` (items,) is the full-softmax
    probability of the answer tokens, None where it was not computed or is undefined.
    """

    log_probs: Floats
    answer_mass: Floats | None = None

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The most probable option of each item. (items,)"""
        return np.asarray(self.log_probs.argmax(1))

    @property
    def confidence(self) -> Floats:
        """The probability of the most probable option. (items,)"""
        return np.asarray(np.exp(self.log_probs.max(1)))


@torch.no_grad()
def score(
    scorer: Scorer,
    encoded: EncodedItems,
    *,
    items: npt.NDArray[np.integer] | None = None,
    answer_mass: bool = False,
    cache: FrozenLayersCache | None = None,
    progress: Progress = ignore_progress,
    what: str = "scoring",
) -> Scores:
    """Score every item, or those of `items`, at the scorer's temperature.

    `cache` spares the frozen layers, `progress` is told of `what`.
    """
    selected = np.arange(len(encoded)) if items is None else items
    log_probs = np.full((len(encoded), int(encoded.option_counts.max(initial=1))), -np.inf)
    mass = np.full(len(encoded), np.nan)
    for items, batch in _batches(scorer, encoded, cache, what, progress, selected):
        batch_log_probs = scorer(batch).double().cpu().numpy()
        log_probs[items, : batch_log_probs.shape[1]] = batch_log_probs
        if answer_mass and (share := scorer.answer_mass(batch)) is not None:
            mass[items] = share.double().cpu().numpy()
    log_probs, mass = log_probs[selected], mass[selected]
    if np.isnan(log_probs).any():
        raise RealmError("the model's answers are not numbers: its training diverged. Lower `learning_rate`.")
    if scorer.temperature != 1 and len(log_probs):
        log_probs = log_softmax(log_probs / scorer.temperature)
    return Scores(log_probs, None if np.isnan(mass).any() or not len(mass) else mass)


@torch.no_grad()
def hidden_states(
    scorer: Scorer,
    encoded: EncodedItems,
    *,
    dims: int | None = None,
    cache: FrozenLayersCache | None = None,
    progress: Progress = ignore_progress,
) -> torch.Tensor:
    """The state that the answer to each item is read from, on the processor. (items, width)

    `dims`: projected at random to so many dimensions, which keeps distances and saves memory. (items, dims)
    """
    states: torch.Tensor | None = None
    for items, batch in _batches(scorer, encoded, cache, "reading hidden states", progress):
        hidden = scorer.forward_with_hidden(batch)[1].float().cpu()
        if dims is not None:
            hidden = hidden @ torch.randn(hidden.shape[1], dims, generator=torch.Generator().manual_seed(0))
        if states is None:
            states = torch.zeros(len(encoded), hidden.shape[1])
        states[torch.from_numpy(items)] = hidden
    return torch.zeros(0, 0) if states is None else states


def _batches(
    scorer: Scorer,
    encoded: EncodedItems,
    cache: FrozenLayersCache | None,
    what: str,
    progress: Progress,
    items: npt.NDArray[np.integer] | None = None,
) -> Iterator[tuple[npt.NDArray[np.integer], Batch]]:
    """The items (all, unless given) in batches, with what the scorer reads of them."""
    lengths = None if cache is None else cache.computed_lengths
    for part in scorer.eval_batches(encoded, what, progress, items, lengths=lengths):
        batch = scorer.collate(encoded, part) if cache is None else cache.collate(part)
        yield part, {name: value.to(scorer.device) for name, value in batch.items()}


def predict_chunks(
    scorer: Scorer, chunks: Iterable[Items], progress: Progress = ignore_progress
) -> Iterator[pd.DataFrame]:
    """`predictions_table` of each chunk in turn, so that only one chunk is in memory at a time."""
    total = 0
    for items in chunks:
        what = f"scoring after {total:,} items" if total else "scoring"
        yield predictions_table(items, score(scorer, scorer.encode(items), progress=progress, what=what))
        total += len(items)


def predictions_table(items: Items, scores: Scores) -> pd.DataFrame:
    """One row per item: item, task, label, confidence, and the probability of each option as JSON."""
    shares = np.exp(scores.log_probs).round(6).tolist()
    by_option = [dict(zip(item.options, row, strict=False)) for item, row in zip(items, shares, strict=True)]
    return pd.DataFrame(
        {
            "item": items.ids.to_pylist(),
            "task": [items.tasks[task].name for task in items.item_tasks],
            "label": [item.options[label] for item, label in zip(items, scores.labels, strict=True)],
            "confidence": [round(float(confidence), 6) for confidence in scores.confidence],
            "probabilities": [json.dumps(row, ensure_ascii=False) for row in by_option],
        }
    )
