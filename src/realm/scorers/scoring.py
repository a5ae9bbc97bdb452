"""Log-probabilities of every item's options, batched by length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from realm.data import Items
from realm.errors import RealmError
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, batches_by_tokens

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """What the model says of each item.

    `log_probs` is (items, K), -inf beyond an item's own options; `answer_mass` (items,) is the full-softmax
    probability of the answer tokens, None where it was not asked for or is undefined.
    """

    log_probs: Floats
    answer_mass: Floats | None = None

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The most probable option of each item. (items,)"""
        return np.asarray(self.log_probs.argmax(1))

    @property
    def confidence(self) -> Floats:
        return np.asarray(np.exp(self.log_probs.max(1)))


@torch.no_grad()
def score(
    scorer: Scorer,
    encoded: EncodedItems,
    *,
    answer_mass: bool = False,
    prepare: Callable[[Batch, npt.NDArray[np.int64]], None] | None = None,
    progress: str | None = None,
) -> Scores:
    """Score every item. `prepare(batch, rows)` may add cached states; `progress` names a progress bar."""
    from rich.progress import Progress

    width = int(encoded.option_counts.max(initial=1))
    log_probs = np.full((len(encoded), width), -np.inf)
    mass = np.full(len(encoded), np.nan)
    device: Any = next(scorer.parameters()).device
    training = scorer.training
    scorer.eval()
    order = np.argsort(-encoded.lengths, kind="stable")
    with Progress(disable=progress is None, transient=True) as bar:
        job = bar.add_task(progress or "", total=len(order))
        for items in batches_by_tokens(order, encoded.lengths, device):
            batch = scorer.collate(encoded, items)
            if prepare is not None:
                prepare(batch, encoded.rows_of(items))
            batch = {name: value.to(device) for name, value in batch.items()}
            found = scorer(batch).double().cpu().numpy()
            log_probs[items, : found.shape[1]] = found
            if answer_mass and (share := scorer.answer_mass(batch)) is not None:
                mass[items] = share.double().cpu().numpy()
            bar.advance(job, len(items))
    scorer.train(training)
    if np.isnan(log_probs).any():
        raise RealmError("the model's answers are not numbers: its training diverged. Lower --learning-rate.")
    known = answer_mass and len(encoded) > 0 and not np.isnan(mass).any()
    return Scores(log_probs, mass if known else None)


def predict_chunks(scorer: Scorer, chunks: Iterable[Items], progress: str | None = None) -> Iterator[pd.DataFrame]:
    """`predictions_table` of each chunk in turn, so that only one chunk is in memory at a time."""
    done = 0
    for items in chunks:
        title = None if progress is None else f"{progress} after {done:,} items"
        yield predictions_table(items, score(scorer, scorer.encode(items), progress=title))
        done += len(items)


def predictions_table(items: Items, scores: Scores) -> pd.DataFrame:
    """One row per item: item, task, label, confidence, and the probability of each option as JSON."""
    import json

    import pandas as pd

    labels, confidence = scores.labels, scores.confidence
    rows = []
    for index, (item, _, _, options) in enumerate(items):
        shares = np.exp(scores.log_probs[index, : len(options)]).round(6).tolist()
        rows.append(
            {
                "item": item,
                "task": items.tasks[items.item_tasks[index]].name,
                "label": options[labels[index]],
                "confidence": round(float(confidence[index]), 6),
                "probabilities": json.dumps(dict(zip(options, shares, strict=True)), ensure_ascii=False),
            }
        )
    return pd.DataFrame(rows)
