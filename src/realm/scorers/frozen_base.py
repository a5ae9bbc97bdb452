"""A classifier below its head: frozen, and replaced by the one state per item that the head reads.

With `train_layers=head` the base model never changes, so an item is one vector: the base model's last hidden state at
the token from which the head answers. The base model's forward can be told to return such states as sequences of one
token; the classifier's own forward then does everything above them (pooler, dropout, dense layer), as it always does.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from realm.errors import RealmError

Position = Literal["first", "last"]


class FrozenBase:
    """The frozen base model of a classifier.

    | method | gives |
    |---|---|
    | `states(inputs)` | the state that the head reads of each item (items, width), without a gradient |
    | `logits(states)` | what the classifier makes of these states (items, labels), with a gradient for its head |

    A head reads the first token (most encoders) or the last one (decoders); `probe` is a batch of one row that tells
    which. A pooler of the base model belongs to the head. A model in which neither gives the classifier's own logits
    (one that averages over tokens, say) is refused.
    """

    def __init__(self, backbone: Any, probe: dict[str, Tensor]) -> None:
        self.backbone = backbone
        self.base: nn.Module = backbone.base_model
        self.pooler: nn.Module | None = getattr(self.base, "pooler", None)
        self.position: Position = "first"
        self._given: Tensor | None = None
        self._output: Any = None  # of the base model, as it last ran
        if self.base is backbone:
            raise self._refusal()
        self._run = self.base.forward
        self.base.forward = self._forward
        self.base.requires_grad_(False)
        if self.pooler is not None:
            self.pooler.requires_grad_(True)
        self._find_position(probe)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._given is None:
            self._output = self._run(*args, **kwargs)
            return self._output
        sequence = self._given[:, None]
        pooled = {} if self.pooler is None else {"pooler_output": self._pool(sequence)}
        return type(self._output)(last_hidden_state=sequence, **pooled)

    def _pool(self, sequence: Tensor) -> Tensor:
        assert self.pooler is not None
        activation: Any = getattr(self.base, "pooler_activation", None)  # ALBERT's pooler is a bare layer beside it
        pooled: Tensor = self.pooler(sequence) if activation is None else activation(self.pooler(sequence[:, 0]))
        return pooled

    def states(self, inputs: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            self.backbone(**inputs)  # which may hand more to the base model (Longformer: where attention is global)
        sequence: Tensor = self._output.last_hidden_state
        last = inputs["attention_mask"].sum(1) - 1
        token = torch.zeros_like(last) if self.position == "first" else last
        return sequence[torch.arange(len(token), device=token.device), token]

    def logits(self, states: Tensor) -> Tensor:
        one = torch.ones(len(states), 1, dtype=torch.long, device=states.device)  # the base model reads no token here
        self._given = states
        try:
            logits: Tensor = self.backbone(input_ids=one, attention_mask=one).logits
            return logits
        finally:
            self._given = None

    def _find_position(self, probe: dict[str, Tensor]) -> None:
        """Find the token that the head reads, and freeze what it does not use."""
        training = self.backbone.training
        self.backbone.eval()
        try:
            expected = self.backbone(**probe).logits.detach()
            if not self._reads("first", probe, expected) and not self._reads("last", probe, expected):
                raise self._refusal()
            trained = [parameter for parameter in self.backbone.parameters() if parameter.requires_grad]
            gradients = torch.autograd.grad(self.logits(self.states(probe)).sum(), trained, allow_unused=True)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            raise self._refusal() from None
        finally:
            self.backbone.train(training)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)

    def _reads(self, position: Position, probe: dict[str, Tensor], expected: Tensor) -> bool:
        self.position = position
        with torch.no_grad():
            logits = self.logits(self.states(probe))
        # far above the rounding of float32, far below what another token's state would change
        return logits.shape == expected.shape and torch.allclose(logits, expected, rtol=1e-4, atol=1e-6)

    def _refusal(self) -> RealmError:
        return RealmError(
            f"`train_layers=head`: the head of {type(self.backbone).__name__} does not answer from the state of one "
            "token. Use `train_layers=1`."
        )
