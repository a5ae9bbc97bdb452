"""Encoder-decoder backbones (the T5 family): the encoder reads the prompt, the decoder says the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.data import Items
from realm.scorers.answers import AnswerTokens, find_answer_tokens
from realm.scorers.base import Batch
from realm.scorers.encoding import EncodedItems, Ragged, spans
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import encode_prompts, tokenize


class Seq2SeqScorer(LanguageScorer):
    """The decoder is fed its start token and what the answers share, and read at its last token.

    `cloze` runs the encoder once per item and the decoder once per option.
    """

    kind = "seq2seq"

    @property
    def start_token(self) -> int:
        config = self.backbone.config
        start = getattr(config, "decoder_start_token_id", None)
        if start is None:
            start = getattr(self.backbone.generation_config, "decoder_start_token_id", None)
        return int(config.pad_token_id if start is None else start)

    def _answer_ids(self, answer: str) -> list[int]:
        ids = tokenize(self.tokenizer, answer)
        return ids[:-1] if ids and ids[-1] == self.tokenizer.eos_token_id else ids

    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        return find_answer_tokens(self._answer_ids, answers)

    def encode(self, items: Items) -> EncodedItems:
        self.check_options(items)
        cloze = self.style.answers == "cloze"
        asked = ((text, context, options, 0) for _, text, context, options in items)
        rows = list(encode_prompts(self.tokenizer, self.style, asked))
        targets: list[list[int]] = []
        target_starts = [0]
        for item in range(len(items) if cloze else 0):
            targets.extend(self.some_tokens(option, self._answer_ids(option)) for option in items.options_of(item))
            target_starts.append(len(targets))
        return EncodedItems(
            rows=Ragged.of(rows),
            row_starts=np.arange(len(rows) + 1, dtype=np.int64),
            tasks=items.item_tasks,
            option_counts=items.option_counts,
            targets=Ragged.of(targets) if cloze else None,
            target_starts=np.array(target_starts, dtype=np.int64) if cloze else None,
        )

    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        batch = self._common(encoded, items)
        if encoded.targets is None or encoded.target_starts is None:
            said = Ragged.of([[self.start_token, *self.answers[task].prefix] for task in encoded.tasks[items]])
            ids, lengths = said.pad(range(len(said)), self.tokenizer.pad_token_id)
        else:
            picked = spans(encoded.target_starts, items)
            ids, lengths = encoded.targets.pad(picked, self.tokenizer.pad_token_id)
            batch["targets"] = ids
            start = torch.full((len(ids), 1), self.start_token)
            ids = torch.cat([start, ids[:, :-1]], dim=1)
        batch["decoder_input_ids"], batch["decoder_lengths"] = ids, lengths
        return batch

    def run_backbone(self, batch: Batch) -> Tensor:
        encoder = self.backbone.get_encoder()
        encoded: Tensor = encoder(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
        mask = batch["attention_mask"]
        if "targets" in batch:
            per_item = batch["option_counts"]
            encoded, mask = encoded.repeat_interleave(per_item, 0), mask.repeat_interleave(per_item, 0)
        ids, lengths = batch["decoder_input_ids"], batch["decoder_lengths"]
        hidden: Tensor = self.backbone.get_decoder()(
            input_ids=ids,
            attention_mask=(torch.arange(ids.shape[1], device=ids.device)[None, :] < lengths[:, None]).long(),
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
        place = torch.arange(targets.shape[1], device=targets.device)[None, :]
        row, column = (place < batch["decoder_lengths"][:, None]).nonzero(as_tuple=True)
        return hidden[row, column], targets[row, column], row
