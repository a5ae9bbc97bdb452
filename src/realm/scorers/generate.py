"""What the model says when nothing constrains it: the restricted softmax never trained the other tokens."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from realm.data import Items
from realm.scorers.base import Scorer
from realm.scorers.encoding import EncodedItems, batches_by_tokens
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import answer_strings


@torch.no_grad()
def generated_labels(
    scorer: Scorer, encoded: EncodedItems, items: Items, progress: str | None = None
) -> npt.NDArray[np.int64] | None:
    """The option each item's greedy, unconstrained generation names, -1 for none. (items,)

    None for a classifier, which generates nothing, and for `cloze`, which asks for no particular words.
    """
    if not isinstance(scorer, LanguageScorer) or scorer.style.answers == "cloze":
        return None
    from rich.progress import Progress

    said = np.full(len(encoded), -1, dtype=np.int64)
    options = [answer_strings(scorer.style, items.options_of(index)) for index in range(len(items))]
    longest = max(len(scorer.tokenizer(name, add_special_tokens=False)["input_ids"]) for row in options for name in row)
    device = next(scorer.parameters()).device
    training = scorer.training
    scorer.eval()
    if scorer.trunk is not None:
        scorer.trunk.inject(None)
    order = np.argsort(-encoded.lengths, kind="stable")
    with Progress(disable=progress is None, transient=True) as bar:
        job = bar.add_task(progress or "", total=len(order))
        for batch in batches_by_tokens(order, encoded.lengths, device):
            texts = _generate(scorer, encoded, batch, longest + 1, device)
            for item, text in zip(batch, texts, strict=True):
                said[item] = _match(text, options[item])
            bar.advance(job, len(batch))
    scorer.train(training)
    return said


def _generate(
    scorer: LanguageScorer, encoded: EncodedItems, items: npt.NDArray[np.integer], new_tokens: int, device: torch.device
) -> list[str]:
    batch = scorer.collate(encoded, items)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    prefix = [len(scorer.answers[task].prefix) for task in encoded.tasks[items]]
    if scorer.kind == "causal":
        # Generation continues the last column, so the prompt (without the answers' shared prefix) moves right.
        lengths = mask.sum(1) - torch.tensor(prefix)
        prompts = [row[:n] for row, n in zip(ids, lengths, strict=True)]
        width = int(lengths.max())
        ids = torch.full((len(prompts), width), scorer.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(prompts):
            ids[index, width - len(row) :] = row
            mask[index, width - len(row) :] = 1
    made = scorer.backbone.generate(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=scorer.tokenizer.pad_token_id,
    )
    made = made[:, ids.shape[1] :] if scorer.kind == "causal" else made
    return list(scorer.tokenizer.batch_decode(made, skip_special_tokens=True))


def _match(text: str, options: list[str]) -> int:
    """The option a generated text names: the longest one that it begins with, at a word's end."""
    said = text.strip()
    for index in sorted(range(len(options)), key=lambda i: -len(options[i])):
        name = options[index]
        if said.startswith(name) and not said[len(name) : len(name) + 1].isalnum():
            return index
    return -1
