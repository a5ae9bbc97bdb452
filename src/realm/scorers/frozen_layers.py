"""The frozen part of a backbone: where it ends, what trains above it, and how to skip it.

With `--train-layers n` only the top n layers train. What the frozen layers compute for an item never changes, so it
can be computed once (`Trunk.capture`) and put back in later (`Trunk.inject`): the frozen layers then pass through and
the last of them returns the stored states. This works for any backbone whose layers stand in a list, because the
model's own forward still does everything else (masks, positions, norms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from realm.errors import RealmError


class _TrunkEndError(Exception):
    """Raised behind the last frozen layer to leave a forward whose rest is not wanted."""


class Trunk:
    """The frozen layers `layers[:depth]` of a stack.

    `shares_bias`: layers hand a position bias on, which the first one computes (T5): with states injected, the first
    layer still runs if a layer above the trunk needs it.
    """

    def __init__(self, layers: nn.ModuleList, depth: int, shares_bias: bool = False) -> None:
        self.layers, self.depth, self.shares_bias = layers, depth, shares_bias
        self._returns_tuple = False
        self._states: Tensor | None = None
        self._captured: Tensor | None = None
        self._capturing = False
        self.weights_hash: Any = None
        for index in range(depth):
            layer = layers[index]
            layer.forward = self._gate(index, layer.forward)

    def _gate(self, index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        last = index == self.depth - 1

        def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._states is None:
                output = original(hidden_states, *args, **kwargs)
                self._returns_tuple = not isinstance(output, Tensor)
                if last and self._capturing:
                    self._captured = output[0] if self._returns_tuple else output
                    raise _TrunkEndError
                return output
            states = self._states if last else hidden_states
            if self.shares_bias:
                if index == 0 and self.depth < len(self.layers):
                    with torch.no_grad():
                        return (states, *original(hidden_states, *args, **kwargs)[1:])
                return states, args[1] if len(args) > 1 else kwargs.get("position_bias"), None
            return (states,) if self._returns_tuple else states

        return forward

    def capture(self, run: Callable[[], Any]) -> Tensor:
        """What the last frozen layer puts out during `run()`, which is left at that point. (rows, tokens, width)"""
        self._states, self._capturing = None, True
        try:
            with torch.no_grad():
                run()
        except _TrunkEndError:
            pass
        finally:
            self._capturing = False
        if self._captured is None:
            raise RealmError("--train-layers: this backbone did not run its own layers. Use --cache-gb 0.")
        captured, self._captured = self._captured, None
        return captured

    def inject(self, states: Tensor | None) -> None:
        """Use these states in the forwards that follow; None runs the frozen layers again.

        They stay set until the next call, since gradient checkpointing runs layers again in the backward pass.
        """
        self._states = states


def layer_stack(backbone: Any, size: int) -> nn.ModuleList:
    """The list of the backbone's `size` layers."""
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == size and len({type(layer) for layer in module}) == 1:
            return module
    raise RealmError(f"--train-layers: no list of {size} layers found in {type(backbone).__name__}.")


def freeze_below(backbone: Any, train_layers: int) -> tuple[Trunk, list[nn.Module]]:
    """Freeze all but the top `train_layers` layers and what follows them; return the trunk and the frozen modules.

    Embeddings and the vocabulary's output layer are frozen; final norms, a pooler and a classifier's head train.
    In an encoder-decoder the decoder's layers are the upper ones: the whole encoder is frozen unless `train_layers`
    reaches below the decoder, and frozen decoder layers are run each time (a decoder reads one or two tokens).
    """
    config = backbone.config
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    if encoder_decoder:
        if not hasattr(config, "num_decoder_layers"):
            raise RealmError(f"--train-layers: of encoder-decoders it knows T5's kind, not {type(backbone).__name__}.")
        decoder_layers = layer_stack(backbone.get_decoder(), config.num_decoder_layers)
        lower = layer_stack(backbone.get_encoder(), config.num_layers)
        total = len(lower) + len(decoder_layers)
        frozen_upper = max(len(decoder_layers) - train_layers, 0)
        depth = min(len(lower), total - train_layers)
    else:
        lower = layer_stack(backbone, config.num_hidden_layers)
        decoder_layers, frozen_upper, total = nn.ModuleList(), 0, len(lower)
        depth = total - train_layers
    if not 0 < train_layers < total:
        raise RealmError(
            f"--train-layers {train_layers}: the model has {total} layers, so it must lie between 1 and {total - 1}. "
            "Leave it out to train all of them."
        )
    frozen: list[nn.Module] = [*lower[:depth], *decoder_layers[:frozen_upper]]
    frozen += [module for name, module in backbone.named_modules() if _is_embedding(name, module)]
    if encoder_decoder and depth == len(lower):
        frozen.append(backbone.get_encoder())
    output = backbone.get_output_embeddings() if hasattr(backbone, "get_output_embeddings") else None
    if output is not None:
        frozen.append(output)
    for module in frozen:
        module.requires_grad_(False)
    return Trunk(lower, depth, shares_bias=encoder_decoder), frozen


def _is_embedding(name: str, module: nn.Module) -> bool:
    return (isinstance(module, nn.Embedding) and "attention" not in name.lower()) or name.split(".")[-1] == "embeddings"
