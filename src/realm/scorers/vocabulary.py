"""From hidden states to scores of tokens: only the rows of the vocabulary that are asked for."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK = 256


class VocabularyHead:
    """The output layer of a language model, read a few rows at a time.

    Keeps to what the model itself does after its last hidden state: the decoder scale of T5, a logit scale, a soft cap
    and a bias. Takes the rows from the output layer, which need not be the embedding (Flan-T5).
    """

    def __init__(self, backbone: Any) -> None:
        self.layer = cast(nn.Linear, backbone.get_output_embeddings())
        config = backbone.config
        self.before = 1.0
        if getattr(config, "scale_decoder_outputs", False):
            self.before = float(config.d_model) ** -0.5
        scale = getattr(config, "logit_scale", None)
        divide = getattr(config, "logits_scaling", None)
        self.after = float(scale) if scale is not None else 1.0 / float(divide) if divide is not None else 1.0
        self.cap: float | None = getattr(config, "final_logit_softcapping", None)
        self.extra_bias: Tensor | None = getattr(backbone, "final_logits_bias", None)

    def _finish(self, logits: Tensor) -> Tensor:
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        logits = logits * self.after
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def rows(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Logits of `tokens` (items, K) at `hidden` (items, width). Shape (items, K)."""
        weight = self.layer.weight[tokens]
        logits = torch.einsum("bd,bkd->bk", hidden * self.before, weight.to(hidden.dtype))
        if self.layer.bias is not None:
            logits = logits + self.layer.bias[tokens]
        if self.extra_bias is not None:
            logits = logits + self.extra_bias[0, tokens]
        return self._finish(logits)

    def full(self, hidden: Tensor) -> Tensor:
        """Logits of the whole vocabulary at `hidden` (positions, width)."""
        logits = self.layer(hidden * self.before)
        if self.extra_bias is not None:
            logits = logits + self.extra_bias[0]
        return self._finish(logits)

    def log_likelihood(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Full-softmax log-probability of `tokens` (positions,) at `hidden` (positions, width).

        Done in chunks that are computed again in the backward pass, so that no positions x vocabulary array is kept.
        """

        def chunk(states: Tensor, wanted: Tensor) -> Tensor:
            logits = self.full(states)
            return logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(1)

        parts = []
        for start in range(0, len(tokens), CHUNK):
            states, wanted = hidden[start : start + CHUNK], tokens[start : start + CHUNK]
            if torch.is_grad_enabled():
                parts.append(cast(Tensor, checkpoint(chunk, states, wanted, use_reentrant=False)))
            else:
                parts.append(chunk(states, wanted))
        return torch.cat(parts) if parts else hidden.new_zeros(0)


def masked_log_softmax(logits: Tensor, option_counts: Tensor) -> Tensor:
    """Log-softmax over each item's own options: (items, K) with -inf beyond `option_counts` (items,)."""
    beyond = torch.arange(logits.shape[1], device=logits.device)[None, :] >= option_counts[:, None]
    return torch.log_softmax(logits.masked_fill(beyond, float("-inf")), dim=1)
