"""Decoder-only backbones: the answer is the next token behind the prompt, or a whole continuation (`cloze`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from realm.data import Items
from realm.scorers.answers import AnswerTokens, find_answer_tokens
from realm.scorers.base import Batch
from realm.scorers.encoding import EncodedItems, Ragged
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import encode_prompts, lead, render, tokenize

SHARED, SPARED = 4, 48
"""Tokens that all prompts of a batch must begin with for them to be computed once; and, in training, where each weight
then has two gradients to add up, those that it must spare over all rows (SmolLM2 on a processor breaks even at 45).
"""


class CausalScorer(LanguageScorer):
    """Rows are padded on the right and read at their own last token, so padding never shifts a position.

    `cloze` reads one row per option: the prompt with that option behind it.
    """

    kind = "causal"
    _hands_on = True

    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        chat = self.style.chat_template
        prompt = render(self.style, "text", None, options, self.tokenizer)
        before = tokenize(self.tokenizer, prompt, chat=chat)

        def encode(answer: str) -> list[int]:
            return tokenize(self.tokenizer, prompt + lead(self.style) + answer, chat=chat)

        return find_answer_tokens(encode, answers, before)

    def encode(self, items: Items) -> EncodedItems:
        self.check_options(items)
        cloze = self.style.answers == "cloze"
        rows: list[list[int]] = []
        starts = [0]
        tails: list[list[list[int]]] = []
        for index, task in enumerate(items.item_tasks):
            own = (
                [self._continuation(option) for option in items.options_of(index)]
                if cloze
                else [list(self.answers[task].prefix)]
            )
            tails.append(own)
        asked = (
            (text, context, options, max(len(ids) for ids in own))
            for own, (_, text, context, options) in zip(tails, items, strict=True)
        )
        for own, prompt in zip(tails, encode_prompts(self.tokenizer, self.style, asked), strict=True):
            rows.extend(prompt + ids for ids in own)
            starts.append(len(rows))
        row_starts = np.array(starts, dtype=np.int64)
        return EncodedItems(
            rows=Ragged.of(rows),
            row_starts=row_starts,
            tasks=items.item_tasks,
            option_counts=items.option_counts,
            targets=Ragged.of(ids for own in tails for ids in own) if cloze else None,
            target_starts=row_starts if cloze else None,
        )

    def _continuation(self, option: str) -> list[int]:
        ids = self.tokenizer(lead(self.style) + option, add_special_tokens=False)["input_ids"]
        return self.some_tokens(option, [int(token) for token in ids])

    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        batch = self._common(encoded, items)
        if encoded.targets is not None:
            batch["target_lengths"] = torch.from_numpy(encoded.targets.lengths[encoded.rows_of(items)])
        return batch

    def run_backbone(self, batch: Batch) -> Tensor:
        decoder = self.backbone.get_decoder() if hasattr(self.backbone, "get_decoder") else self.backbone.base_model
        ids, mask = batch["input_ids"], batch["attention_mask"]
        if self._hands_on and (shared := self._shared(ids, mask)):
            begun = decoder(input_ids=ids[:1, :shared], use_cache=True)
            past = begun.past_key_values
            # A layer that keeps more than keys and values of every token cannot be handed on to other rows like this.
            self._hands_on = past is not None and all(type(layer) is DynamicLayer for layer in past.layers)
            if self._hands_on:
                past.batch_repeat_interleave(len(ids))
                rest = decoder(input_ids=ids[:, shared:], attention_mask=mask, past_key_values=past, use_cache=True)
                before = begun.last_hidden_state.expand(len(ids), -1, -1)
                return torch.cat([before, rest.last_hidden_state], dim=1)
        hidden: Tensor = decoder(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return hidden

    def _shared(self, ids: Tensor, mask: Tensor) -> int:
        """How many tokens every row begins with, where computing them once is worth it; 0 where it is not."""
        learning = torch.is_grad_enabled()
        # Checkpointing drops what the second pass would read. On a GPU one more pass may cost more than it spares.
        whole = learning and (self.backbone.is_gradient_checkpointing or ids.device.type != "cpu")
        if whole or self.trunk is not None or len(ids) < 2:
            return 0
        least = int(mask.sum(1).min()) - 1
        same = (ids[:, :least] == ids[:1, :least]).all(dim=0)
        shared = int(same.long().cumprod(0).sum())
        enough = not learning or shared * (len(ids) - 1) >= SPARED
        return shared if shared >= SHARED and enough else 0

    def answer_states(self, batch: Batch) -> Tensor:
        last = batch["attention_mask"].sum(1) - 1
        return self.run_backbone(batch)[torch.arange(len(last), device=last.device), last]

    def option_states(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden, ids = self.run_backbone(batch), batch["input_ids"]
        ends = batch["attention_mask"].sum(1)
        place = torch.arange(ids.shape[1], device=ids.device)[None, :]
        said = (place < ends[:, None]) & (place >= (ends - batch["target_lengths"])[:, None])
        row, column = said.nonzero(as_tuple=True)
        return hidden[row, column - 1], ids[row, column], row
