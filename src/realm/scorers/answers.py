"""The tokens that answer, and their logits: only the rows of the vocabulary that are needed are computed.

A tokenizer may write `a` as a word mark followed by `a`, or ` a` as one token. Nothing is assumed: all K answers are
encoded, what they share is fed to the model, and the logits are read where they first differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from realm.scorers.encoding import length_mask

# Positions whose logits over the whole vocabulary are held at once: 50 MB in fp32 for 50,000 tokens.
CHUNK_SIZE = 256


@dataclass(frozen=True)
class AnswerTokens:
    """`prefix` is fed after the prompt; `tokens[k]` is then the token of answer k."""

    prefix: tuple[int, ...]
    tokens: tuple[int, ...]


def find_answer_tokens(
    encode: Callable[[str], Sequence[int]], answers: Sequence[str], prompt: Sequence[int] = ()
) -> AnswerTokens | None:
    """Find the answer tokens, or None where the answers do not separate at one token.

    `encode(answer)` gives the ids of the prompt followed by the answer, and `prompt` those of the prompt alone, which
    must be the same in front of every answer.
    """
    columns = list(zip(*(encode(answer) for answer in answers), strict=False))
    start = next((index for index, column in enumerate(columns) if len(set(column)) > 1), None)
    if start is None or len(set(columns[start])) < len(answers):
        return None
    shared = tuple(column[0] for column in columns[:start])
    if shared[: len(prompt)] != tuple(prompt):
        return None
    return AnswerTokens(prefix=shared[len(prompt) :], tokens=columns[start])


class VocabularyHead:
    """The output layer of a language model, a few rows at a time.

    Does what the model itself does after its last hidden state: the decoder scale of T5, a logit scale, a soft cap
    and a bias. Takes the rows from the output layer, which need not be the embedding (Flan-T5).

    With `learn_residual` a trained residual is added to the rows of some tokens, until `merge_residual` writes it into
    the layer.
    """

    def __init__(self, backbone: Any) -> None:
        self.layer = cast(nn.Linear, backbone.get_output_embeddings())
        config = backbone.config.get_text_config()
        self.hidden_scale = float(config.d_model) ** -0.5 if getattr(config, "scale_decoder_outputs", False) else 1.0
        scale, divisor = getattr(config, "logit_scale", None), getattr(config, "logits_scaling", None)
        self.logit_scale = float(scale) if scale is not None else 1.0 / float(1.0 if divisor is None else divisor)
        self.soft_cap: float | None = getattr(config, "final_logit_softcapping", None)
        self.extra_bias: Tensor | None = getattr(backbone, "final_logits_bias", None)

        self.residual: nn.Parameter | None = None
        self._residual_tokens = self._residual_row = torch.empty(0, dtype=torch.long)

    def learn_residual(self, tokens: Tensor) -> nn.Parameter:
        """Add a residual, 0 at first, to the rows of these distinct tokens (n,); returns it. (n, width)"""
        weight = self.layer.weight
        self.residual = nn.Parameter(weight.new_zeros(len(tokens), weight.shape[1]))
        self._residual_tokens = tokens
        self._residual_row = torch.zeros(len(weight), dtype=torch.long, device=tokens.device)
        self._residual_row[tokens] = torch.arange(len(tokens), device=tokens.device)
        return self.residual

    @torch.no_grad()
    def merge_residual(self, backbone: Any) -> None:
        """Add the residual to the layer's own rows and begin again at 0. An input embedding keeps what it had."""
        if self.residual is None:
            return
        if self.layer.weight is backbone.get_input_embeddings().weight:
            self.layer.weight = nn.Parameter(self.layer.weight.clone(), requires_grad=self.layer.weight.requires_grad)
            # in an encoder-decoder the flag also says that its embeddings are one (BART) and scales states (UMT5);
            # transformers keeps an output layer of its own there
            if not getattr(backbone.config, "is_encoder_decoder", False):
                backbone.config.tie_word_embeddings = False
        self.layer.weight[self._residual_tokens.to(self.layer.weight.device)] += self.residual
        self.residual.zero_()

    def _finish(self, logits: Tensor) -> Tensor:
        logits = at_least_float32(logits) * self.logit_scale
        return logits if self.soft_cap is None else self.soft_cap * torch.tanh(logits / self.soft_cap)

    def rows(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Logits of `tokens` (items, K) at `hidden` (items, width). Shape (items, K)."""
        weight = self.layer.weight[tokens]
        if self.residual is not None:
            weight = weight + self.residual[self._residual_row.to(tokens.device)[tokens]]
        logits = torch.einsum("bd,bkd->bk", hidden * self.hidden_scale, weight.to(hidden.dtype))
        if self.layer.bias is not None:
            logits = logits + self.layer.bias[tokens]
        if self.extra_bias is not None:
            logits = logits + self.extra_bias[0, tokens]
        return self._finish(logits)

    def full(self, hidden: Tensor) -> Tensor:
        """Logits of the whole vocabulary at `hidden` (positions, width)."""
        logits = self.layer(hidden * self.hidden_scale)
        if self.residual is not None:
            tokens = self._residual_tokens.to(hidden.device)
            logits = logits.index_add(1, tokens, hidden * self.hidden_scale @ self.residual.T)
        if self.extra_bias is not None:
            logits = logits + self.extra_bias[0]
        return self._finish(logits)

    def log_likelihood(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Full-softmax log-probability of `tokens` (positions,) at `hidden` (positions, width).

        In chunks that are computed again in the backward pass, so that no positions x vocabulary array is kept.
        """

        def chunk(states: Tensor, ids: Tensor) -> Tensor:
            logits = self.full(states)
            return logits.gather(1, ids[:, None])[:, 0] - logits.logsumexp(1)

        pairs = zip(torch.split(hidden, CHUNK_SIZE), torch.split(tokens, CHUNK_SIZE), strict=True)
        if torch.is_grad_enabled():
            return torch.cat([cast(Tensor, checkpoint(chunk, *pair, use_reentrant=False)) for pair in pairs])
        return torch.cat([chunk(*pair) for pair in pairs])


def at_least_float32(logits: Tensor) -> Tensor:
    """Half-precision logits in float32; others as they are."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def mask_options(logits: Tensor, option_counts: Tensor) -> Tensor:
    """The logits (items, K) with -inf beyond each item's own options, `option_counts` (items,)."""
    return logits.masked_fill(~length_mask(option_counts, logits.shape[1]), float("-inf"))


def masked_log_softmax(logits: Tensor, option_counts: Tensor) -> Tensor:
    """Log-softmax over each item's own options: (items, K) with -inf beyond `option_counts` (items,)."""
    return torch.log_softmax(mask_options(logits, option_counts), dim=1)
