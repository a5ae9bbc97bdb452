"""The frozen lower layers of a backbone: where they end, what trains above them, and how to skip them.

With `train_layers=n` only the top n layers train. What the frozen layers compute for an item never changes, so it can
be computed once (`FrozenLayers.capture`) and put back in later (`FrozenLayers.inject`): the frozen layers then pass
their input through and the last of them returns the stored states. This works for any backbone whose layers stand in
a list, because the model's own forward still does everything else (masks, positions, norms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from realm.errors import RealmError

HEAD = "head"
"""The value of `train_layers` that trains no layer, only what reads the answer from the last one."""


class _LastFrozenLayerError(Exception):
    """Raised after the last frozen layer to leave a forward whose rest is not needed."""


class FrozenLayers:
    """The frozen layers `layers[:depth]` of a stack.

    `shares_bias`: layers hand on a position bias, which the first one computes (T5): with states injected, the first
    layer still runs if a trained layer of the stack needs it.
    """

    def __init__(self, layers: nn.ModuleList, depth: int, shares_bias: bool = False) -> None:
        self.layers, self.depth, self.shares_bias = layers, depth, shares_bias
        self._further_outputs: int | None = None  # what a layer returns beside its states; -1 for a bare tensor
        self._states: Tensor | None = None
        self._captured: Tensor | None = None
        self._capturing = False
        for index in range(depth):
            layer = layers[index]
            layer.forward = self._gate(index, layer.forward)

    def _gate(self, index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        last = index == self.depth - 1

        def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._states is None:
                output = original(hidden_states, *args, **kwargs)
                if last and self._capturing:
                    self._captured = output if isinstance(output, Tensor) else output[0]
                    raise _LastFrozenLayerError
                return output
            states = self._states if last else hidden_states
            if self.shares_bias:
                if index == 0 and self.depth < len(self.layers):
                    with torch.no_grad():
                        return (states, *original(hidden_states, *args, **kwargs)[1:])
                return states, args[1] if len(args) > 1 else kwargs.get("position_bias"), None
            if self._further_outputs is None:  # one run of one layer tells how the model wants its output
                with torch.no_grad():
                    output = original(hidden_states, *args, **kwargs)
                self._further_outputs = -1 if isinstance(output, Tensor) else len(output) - 1
            return states if self._further_outputs < 0 else (states, *[None] * self._further_outputs)

        return forward

    def freeze_what_is_read(self, run: Callable[[], Any], parameters: Iterable[nn.Parameter]) -> None:
        """Freeze those of the parameters that the frozen layers read during `run()`.

        A position bias or norm that all layers share (MPNet, DeBERTa) lies in none of them: were it trained, what the
        frozen layers compute would change.
        """
        with torch.enable_grad():
            states = self._capture(run)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if states.requires_grad:
            gradients = torch.autograd.grad(states.sum(), trained, allow_unused=True)
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter.requires_grad_(gradient is None)

    def capture(self, run: Callable[[], Any]) -> Tensor:
        """The output of the last frozen layer during `run()`, which is left at that point. (rows, tokens, width)"""
        with torch.no_grad():
            return self._capture(run)

    def _capture(self, run: Callable[[], Any]) -> Tensor:
        self._states, self._capturing = None, True
        try:
            run()
        except _LastFrozenLayerError:
            pass
        finally:
            self._capturing = False
        if self._captured is None:
            raise RealmError("`train_layers`: this backbone did not run its own layers. Use `cache_gb=0`.")
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
    raise RealmError(f"`train_layers`: {type(backbone).__name__} has no list of {size} layers.")


def freeze_below(backbone: Any, train_layers: int) -> tuple[FrozenLayers, list[nn.Module]]:
    """Freeze all but the top `train_layers` layers and what follows them; return the layers and all frozen modules.

    Embeddings and the vocabulary's output layer are frozen; final norms, a pooler and a classifier's head train.
    In an encoder-decoder the decoder's layers are the upper ones: the whole encoder is frozen unless `train_layers`
    reaches below the decoder, and frozen decoder layers are run each time (a decoder reads one or two tokens).
    """
    config = backbone.config
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    if not encoder_decoder:
        lower, upper = layer_stack(backbone, config.num_hidden_layers), nn.ModuleList()
    elif hasattr(config, "num_decoder_layers"):
        lower = layer_stack(backbone.get_encoder(), config.num_layers)
        upper = layer_stack(backbone.get_decoder(), config.num_decoder_layers)
    else:
        raise RealmError(
            f"`train_layers`: of encoder-decoders only T5's kind is supported, not {type(backbone).__name__}."
        )
    total = len(lower) + len(upper)
    if not 0 < train_layers < total:
        raise RealmError(
            f"`train_layers={train_layers}`: the model has {total} layers, so it must lie between 1 and {total - 1}. "
            "Leave it out to train all of them."
        )
    depth = min(len(lower), total - train_layers)
    frozen: list[nn.Module] = [*lower[:depth], *upper[: max(len(upper) - train_layers, 0)]]
    frozen += [module for name, module in backbone.named_modules() if _is_embedding(name, module)]
    if encoder_decoder and depth == len(lower):
        frozen.append(backbone.get_encoder())
    output = backbone.get_output_embeddings() if hasattr(backbone, "get_output_embeddings") else None
    if output is not None:
        frozen.append(output)
    for module in frozen:
        module.requires_grad_(False)
    return FrozenLayers(lower, depth, shares_bias=encoder_decoder), frozen


def _is_embedding(name: str, module: nn.Module) -> bool:
    return (isinstance(module, nn.Embedding) and "attention" not in name.lower()) or name.split(".")[-1] == "embeddings"
