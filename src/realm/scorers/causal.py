"""Decoder-only backbones: the answer is the next token after the prompt, or a whole continuation (`cloze`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer
from transformers.models.auto import modeling_auto as auto

from realm.data import Items, Task
from realm.scorers.answers import AnswerTokens, find_answer_tokens
from realm.scorers.base import Batch
from realm.scorers.encoding import EncodedItems, Ragged, length_mask, starts_of
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import Answers, answer_separator, encode_prompts, render, tokenize

MIN_SHARED, MIN_SAVED = 4, 48
"""When a prefix that all rows of a batch share is computed once: it has at least `MIN_SHARED` tokens (fewer are not
worth a second pass) and, in training, where each weight then has two gradients to add up, saves at least `MIN_SAVED`
over all rows (SmolLM2 on a processor breaks even at 45).
"""


class CausalScorer(LanguageScorer):
    """Rows are padded on the right and read at their own last token, so padding never shifts a position.

    `cloze` reads one row per option: the prompt followed by that option.
    """

    kind = "causal"
    auto_class = "AutoModelForCausalLM"
    _shares_prefix = True

    @classmethod
    def matches(cls, config: Any) -> bool:
        names = " ".join(getattr(config, "architectures", None) or [])
        types = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys() - auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.keys()
        return config.model_type in types or "ForCausalLM" in names or "LMHead" in names

    @classmethod
    def answers_for(cls, answers: Answers | None, tasks: tuple[Task, ...]) -> Answers | None:
        """Names, or cloze where items have options of their own."""
        return answers or ("names" if all(task.labels is not None for task in tasks) else "cloze")

    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        prompt = render(self.style, "text", None, options, self.tokenizer)

        def encode(text: str) -> list[int]:
            return tokenize(self.tokenizer, text, chat=self.style.chat_template)

        separator = answer_separator(self.style)
        return find_answer_tokens(lambda answer: encode(prompt + separator + answer), answers, encode(prompt))

    def encode(self, items: Items) -> EncodedItems:
        self.check_options(items)
        cloze = self.style.answers == "cloze"
        # what follows each item's prompt: every option, or the prefix of the answers
        endings = [
            [self._option_ids(option) for option in items.options_of(index)]
            if cloze
            else [list(self.answers[task].prefix)]
            for index, task in enumerate(items.item_tasks)
        ]
        longest = [max(map(len, own)) for own in endings]
        prompts = encode_prompts(self.tokenizer, self.style, items, longest)
        row_starts = starts_of(endings)
        return EncodedItems(
            rows=Ragged.of(prompt + ids for prompt, own in zip(prompts, endings, strict=True) for ids in own),
            row_starts=row_starts,
            tasks=items.item_tasks,
            option_counts=items.option_counts,
            targets=Ragged.of(ids for own in endings for ids in own) if cloze else None,
            target_starts=row_starts if cloze else None,
        )

    def _option_ids(self, option: str) -> list[int]:
        ids = self.tokenizer(answer_separator(self.style) + option, add_special_tokens=False)["input_ids"]
        return self.check_option(option, [int(token) for token in ids])

    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        batch = super().collate(encoded, items)
        if encoded.targets is not None:
            batch["target_lengths"] = torch.from_numpy(encoded.targets.lengths[encoded.rows_of(items)])
        return batch

    def run_backbone(self, batch: Batch) -> Tensor:
        decoder = self.backbone.get_decoder() if hasattr(self.backbone, "get_decoder") else self.backbone.base_model
        ids, mask = batch["input_ids"], batch["attention_mask"]
        if self._shares_prefix and (shared := self._shared_prefix(ids, mask)):
            prefix = decoder(input_ids=ids[:1, :shared], use_cache=True)
            past: Any = getattr(prefix, "past_key_values", None)  # a recurrent model has none
            # A layer whose cache is not just the keys and values of every token cannot be repeated for other rows.
            self._shares_prefix = past is not None and all(type(layer) is DynamicLayer for layer in past.layers)
            if self._shares_prefix:
                past.batch_repeat_interleave(len(ids))
                rest = decoder(input_ids=ids[:, shared:], attention_mask=mask, past_key_values=past, use_cache=True)
                return torch.cat([prefix.last_hidden_state.expand(len(ids), -1, -1), rest.last_hidden_state], dim=1)
        hidden: Tensor = decoder(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return hidden

    def _shared_prefix(self, ids: Tensor, mask: Tensor) -> int:
        """How many tokens every row begins with, where computing them once is worth it; 0 where it is not."""
        with_gradient = torch.is_grad_enabled()
        # Checkpointing drops what the second pass would read. On a GPU one more pass may cost more than it saves.
        whole = with_gradient and (self.backbone.is_gradient_checkpointing or ids.device.type != "cpu")
        if whole or self.frozen_layers is not None or len(ids) < 2:
            return 0
        longest = int(mask.sum(1).min()) - 1
        same = (ids[:, :longest] == ids[:1, :longest]).all(dim=0)
        shared = int(same.long().cumprod(0).sum())
        enough = not with_gradient or shared * (len(ids) - 1) >= MIN_SAVED
        return shared if shared >= MIN_SHARED and enough else 0

    def answer_states(self, batch: Batch) -> Tensor:
        last = batch["attention_mask"].sum(1) - 1
        return self.run_backbone(batch)[torch.arange(len(last), device=last.device), last]

    def option_states(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden, ids = self.run_backbone(batch), batch["input_ids"]
        ends = batch["attention_mask"].sum(1)
        in_option = length_mask(ends, ids.shape[1]) & ~length_mask(ends - batch["target_lengths"], ids.shape[1])
        row, column = in_option.nonzero(as_tuple=True)
        return hidden[row, column - 1], ids[row, column], row
