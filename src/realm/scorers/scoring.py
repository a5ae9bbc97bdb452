"""Log-probabilities of every item's options, the table of predictions, and what the model generates unconstrained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch.nn.utils.rnn import pad_sequence

from realm.crowd.engine import log_softmax
from realm.data import Item, Items
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import answer_strings

Floats = npt.NDArray[np.float64]
_Answer = tuple[str, float, str]
"""The most probable option, its probability, and that of each option as JSON."""
MOST_KEPT = 100_000
"""Answers to distinct items that are kept for later chunks of a file: some forty megabytes."""


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
    """`predictions_table` of each chunk in turn, so that only one chunk is in memory at a time.

    Items that show the same are scored once, in whichever chunks they are, unless too many others lie between.
    """
    answers: dict[bytes, _Answer] = {}
    total = 0
    for items in chunks:
        if len(answers) > MOST_KEPT:
            answers.clear()
        keys = [_digest(task, item) for task, item in zip(items.item_tasks.tolist(), items, strict=True)]
        new: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            if key not in answers:
                new.setdefault(key, index)
        if new:
            first = items.take(np.fromiter(new.values(), dtype=np.int64))
            what = f"scoring after {total:,} items" if total else "scoring"
            scores = score(scorer, scorer.encode(first), progress=progress, what=what)
            answers |= zip(new, _answers(first, scores), strict=True)
        yield _answers_table(items, [answers[key] for key in keys])
        total += len(items)


def predictions_table(items: Items, scores: Scores) -> pd.DataFrame:
    """One row per item: item, task, label, confidence, and the probability of each option as JSON."""
    return _answers_table(items, _answers(items, scores))


def _answers(items: Items, scores: Scores) -> list[_Answer]:
    answers = []
    shares = np.exp(scores.log_probs).round(6).tolist()
    for item, label, confidence, row in zip(items, scores.labels, scores.confidence, shares, strict=True):
        by_option = json.dumps(dict(zip(item.options, row, strict=False)), ensure_ascii=False)
        answers.append((item.options[label], round(float(confidence), 6), by_option))
    return answers


def _answers_table(items: Items, answers: Sequence[_Answer]) -> pd.DataFrame:
    """One row per item: item, task, and its answer."""
    tasks = [items.tasks[task].name for task in items.item_tasks]
    columns = {"item": items.ids.to_pylist(), "task": tasks}
    for position, name in enumerate(("label", "confidence", "probabilities")):
        columns[name] = [answer[position] for answer in answers]
    return pd.DataFrame(columns)


def _digest(task: int, item: Item) -> bytes:
    content = json.dumps([task, item.text, item.context, item.options])
    return hashlib.blake2b(content.encode(), digest_size=16).digest()  # 16 bytes: no two items collide


# -------------------------------------------------------------------- unconstrained generation


@torch.no_grad()
def generated_labels(
    scorer: Scorer, encoded: EncodedItems, items: Items, progress: Progress = ignore_progress
) -> npt.NDArray[np.int64] | None:
    """The option that each item's greedy, unconstrained generation names, -1 for none. (items,)

    The restricted softmax never trains the other tokens, so this may differ from the scores. None for a classifier,
    which generates nothing, and for `cloze`, whose prompt asks for no particular words.
    """
    if not isinstance(scorer, LanguageScorer) or scorer.style.answers == "cloze":
        return None
    labels = np.full(len(encoded), -1, dtype=np.int64)
    answers = [answer_strings(scorer.style, item.options) for item in items]
    tokenize = partial(scorer.tokenizer, add_special_tokens=False)
    longest = max(len(tokenize(answer)["input_ids"]) for row in answers for answer in row) if answers else 0
    if scorer.frozen_layers is not None:
        scorer.frozen_layers.inject(None)
    for batch in scorer.eval_batches(encoded, "generating", progress):
        # one token more than the longest answer tells whether the generation ends there
        texts = _generate(scorer, encoded, batch, longest + 1)
        labels[batch] = [_match(text, answers[item]) for item, text in zip(batch, texts, strict=True)]
    return labels


def _generate(
    scorer: LanguageScorer, encoded: EncodedItems, items: npt.NDArray[np.integer], new_tokens: int
) -> list[str]:
    batch = scorer.collate(encoded, items)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    padding = scorer.tokenizer.pad_token_id
    if scorer.continues_prompt:
        # Generation continues the last column, so the prompts (without the answers' prefix) are padded on the left.
        lengths = [int(encoded.rows.lengths[item]) - len(scorer.answers[encoded.tasks[item]].prefix) for item in items]
        prompts = [row[:length] for row, length in zip(ids, lengths, strict=True)]
        ids = pad_sequence(prompts, batch_first=True, padding_value=padding, padding_side="left")
        mask = pad_sequence([torch.ones_like(row) for row in prompts], batch_first=True, padding_side="left")
    output = scorer.backbone.generate(
        input_ids=ids.to(scorer.device),
        attention_mask=mask.to(scorer.device),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=padding,
    )
    generated = output[:, ids.shape[1] :] if scorer.continues_prompt else output
    return list(scorer.tokenizer.batch_decode(generated, skip_special_tokens=True))


def _match(text: str, answers: list[str]) -> int:
    """The answer a generated text names: the longest one that it begins with, at a word's end; -1 for none."""
    text = text.strip()
    for index in sorted(range(len(answers)), key=lambda index: -len(answers[index])):
        rest = text.removeprefix(answers[index])
        if text.startswith(answers[index]) and not rest[:1].isalnum():
            return index
    return -1
