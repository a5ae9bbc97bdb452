"""Encoder-decoder backbones (the T5 family): the encoder reads the prompt, the decoder answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.data import Items
from realm.errors import RealmError
from realm.scorers.answers import AnswerTokens, find_answer_tokens
from realm.scorers.base import Batch
from realm.scorers.encoding import EncodedItems, Ragged, length_mask, spans, starts_of
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import encode_prompts, tokenize


class Seq2SeqScorer(LanguageScorer):
    """The decoder is fed its start token and what the answers share, and read at its last token.

    `cloze` runs the encoder once per item and the decoder once per option.
    """

    kind = "seq2seq"
    auto_class = "AutoModelForSeq2SeqLM"

    @classmethod
    def matches(cls, config: Any) -> bool:
        return bool(getattr(config, "is_encoder_decoder", False))

    def check(self, name: str) -> Tensor:
        if not self._start_tokens():
            raise RealmError(f"`model={name}`: its config.json names no decoder_start_token_id and no pad_token_id.")
        return super().check(name)

    @property
    def start_token(self) -> int:
        return self._start_tokens()[0]

    def _start_tokens(self) -> list[int]:
        """What the configs name to start the decoder with, the first to be taken."""
        config, generation = self.backbone.config, self.backbone.generation_config
        places = (config, "decoder_start_token_id"), (generation, "decoder_start_token_id"), (config, "pad_token_id")
        return [int(token) for place in places if (token := getattr(*place, None)) is not None]

    def _answer_ids(self, answer: str) -> list[int]:
        ids = tokenize(self.tokenizer, answer)
        return ids[:-1] if ids and ids[-1] == self.tokenizer.eos_token_id else ids

    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        return find_answer_tokens(self._answer_ids, answers)

    def encode(self, items: Items) -> EncodedItems:
        self.check_options(items)
        targets: list[list[list[int]]] | None = None
        if self.style.answers == "cloze":
            targets = [
                [self.check_option(option, self._answer_ids(option)) for option in item.options] for item in items
            ]
        return EncodedItems(
            rows=Ragged.of(encode_prompts(self.tokenizer, self.style, items)),
            row_starts=np.arange(len(items) + 1, dtype=np.int64),
            tasks=items.item_tasks,
            option_counts=items.option_counts,
            targets=None if targets is None else Ragged.of(ids for own in targets for ids in own),
            target_starts=None if targets is None else starts_of(targets),
        )

    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        batch = super().collate(encoded, items)
        if encoded.targets is None or encoded.target_starts is None:
            prefixes = Ragged.of([self.start_token, *self.answers[task].prefix] for task in encoded.tasks[items])
            ids, lengths = prefixes.pad(np.arange(len(prefixes)), self.tokenizer.pad_token_id)
        else:
            ids, lengths = encoded.targets.pad(spans(encoded.target_starts, items), self.tokenizer.pad_token_id)
            batch["targets"] = ids
            ids = torch.cat([torch.full((len(ids), 1), self.start_token), ids[:, :-1]], dim=1)
        batch["decoder_input_ids"], batch["decoder_lengths"] = ids, lengths
        return batch

    def frozen_input(self, task: int) -> bytes:
        return json.dumps([self.start_token, *self.answers[task].prefix]).encode() if self.head_only else b""

    def probe(self) -> Batch:
        batch = super().probe()
        one = torch.ones(1, dtype=torch.long, device=self.device)
        return {**batch, "decoder_input_ids": batch["input_ids"][:, :1], "decoder_lengths": one}

    def run_backbone(self, batch: Batch) -> Tensor:
        mask = batch["attention_mask"]
        encoded = self.backbone.get_encoder()(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
        if "targets" in batch:
            per_item = batch["option_counts"]
            encoded, mask = encoded.repeat_interleave(per_item, 0), mask.repeat_interleave(per_item, 0)
        ids = batch["decoder_input_ids"]
        hidden: Tensor = self.backbone.get_decoder()(
            input_ids=ids,
            attention_mask=length_mask(batch["decoder_lengths"], ids.shape[1]).long(),
            encoder_hidden_states=encoded,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state
        return hidden

    def answer_states(self, batch: Batch) -> Tensor:
        last = batch["decoder_lengths"] - 1
        return self.run_backbone(batch)[torch.arange(len(last), device=last.device), last]

    def option_states(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden, targets = self.run_backbone(batch), batch["targets"]
        row, column = length_mask(batch["decoder_lengths"], targets.shape[1]).nonzero(as_tuple=True)
        return hidden[row, column], targets[row, column], row
