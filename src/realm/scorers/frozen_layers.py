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


class _LeftError(Exception):
    """Leaves a forward whose rest is not needed, with what the layer returned."""

    def __init__(self, output: Any) -> None:
        self.output = output


def output_of(layer: nn.Module, run: Callable[[], Any]) -> Tensor:
    """The states that the layer returns during `run()`, which is left at that point. (rows, tokens, width)"""

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        raise _LeftError(output)

    handle = layer.register_forward_hook(leave)
    try:
        run()
    except _LeftError as left:
        states: Tensor = left.output if isinstance(left.output, Tensor) else left.output[0]
        return states
    finally:
        handle.remove()
    raise RuntimeError("the model did not run its own layer")


class FrozenLayers:
    """The frozen layers `layers[:depth]` of a stack.

    What a layer returns beside its states (the position bias that T5's first layer computes for all) is taken from the
    first layer: with states injected it still runs if there is such a thing and a trained layer of the stack needs it.
    """

    def __init__(self, layers: nn.ModuleList, depth: int) -> None:
        self.layers, self.depth = layers, depth
        self._states: Tensor | None = None
        self._further: tuple[Any, ...] | None = None  # what the first layer returned beside its states; () for nothing
        self._returns_tensor = False
        for index in range(depth):
            layer = layers[index]
            layer.forward = self._gate(index, layer.forward)

    def _gate(self, index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        last = index == self.depth - 1

        def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._states is None:
                return original(hidden_states, *args, **kwargs)
            if index == 0 and self._first_layer_is_needed():
                with torch.no_grad():
                    output = original(hidden_states, *args, **kwargs)
                self._returns_tensor = isinstance(output, Tensor)
                self._further = () if self._returns_tensor else tuple(output[1:])
            further = hidden_states.shape[1] - self._states.shape[1]  # Longformer pads its rows to whole windows
            states = nn.functional.pad(self._states, (0, 0, 0, further)) if last else hidden_states
            return states if self._returns_tensor else (states, *(self._further or ()))

        return forward

    def _first_layer_is_needed(self) -> bool:
        """Whether it is not known yet what the layers return, or it depends on the batch and trained layers read it."""
        if self._further is None:
            return True
        return self.depth < len(self.layers) and any(isinstance(each, Tensor) for each in self._further)

    def capture(self, run: Callable[[], Any]) -> Tensor:
        """The output of the last frozen layer during `run()`, which is left at that point.

        (rows, tokens, width): the model may have padded the tokens further.
        """
        self._states = None
        return output_of(self.layers[self.depth - 1], run)

    def inject(self, states: Tensor | None) -> None:
        """Use these states in the forwards that follow; None runs the frozen layers again.

        They stay set until the next call, since gradient checkpointing runs layers again in the backward pass.
        """
        self._states = states


def freeze_what_is_read(states: Tensor, parameters: Iterable[nn.Parameter]) -> None:
    """Freeze those of the parameters that frozen layers read to compute these states.

    A position bias or norm that all layers share (MPNet, DeBERTa), or one between the embedding and the layers (BART),
    lies in none of them: were it trained, what the frozen layers compute would change.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if states.requires_grad:
        gradients = torch.autograd.grad(states.sum(), trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.requires_grad_(gradient is None)


def layer_stack(module: nn.Module, backbone: Any) -> nn.ModuleList:
    """The list of the layers of a module of the backbone: the longest list that lies in no other."""
    lists = {name: each for name, each in module.named_modules() if isinstance(each, nn.ModuleList)}
    outer = [each for name, each in lists.items() if not any(name.startswith(f"{other}.") for other in lists)]
    longest = [each for each in outer if len(each) == max(map(len, outer))]
    if len(longest) != 1:
        raise refusal(backbone, "keeps its layers in no list of their own")
    return longest[0]


def refusal(backbone: Any, reason: str) -> RealmError:
    """The error for a backbone whose lower layers cannot be frozen."""
    return RealmError(
        f"`train_layers`: {type(backbone).__name__} {reason}, so that its lower layers cannot be frozen. Use "
        "`train_layers=head` or `lora_rank`, or leave `train_layers` out to train all of it."
    )


def freeze_below(backbone: Any, train_layers: int) -> tuple[FrozenLayers, list[nn.Module], nn.Module | None]:
    """Freeze all but the top `train_layers` layers and what follows them.

    Returns the layers, all frozen modules, and the last frozen layer of a decoder above an encoder.

    Embeddings and the vocabulary's output layer are frozen; final norms, a pooler and a classifier's head train.
    In an encoder-decoder the decoder's layers are the upper ones: the whole encoder is frozen unless `train_layers`
    reaches below the decoder, and frozen decoder layers are run each time (a decoder reads one or two tokens).
    """
    config = backbone.config
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    if encoder_decoder:
        lower, upper = (layer_stack(part, backbone) for part in (backbone.get_encoder(), backbone.get_decoder()))
    else:
        lower, upper = layer_stack(backbone.get_decoder(), backbone), nn.ModuleList()
        count = config.get_text_config().num_hidden_layers
        if len(lower) != count:
            raise refusal(backbone, f"keeps its {count} layers in a list of {len(lower)} (they share their weights)")
    total = len(lower) + len(upper)
    if not 0 < train_layers < total:
        raise RealmError(
            f"`train_layers={train_layers}`: the model has {total} layers, so it must lie between 1 and {total - 1}. "
            "Leave it out to train all of them."
        )
    depth = min(len(lower), total - train_layers)
    upper_depth = max(len(upper) - train_layers, 0)
    frozen: list[nn.Module] = [*lower[:depth], *upper[:upper_depth]]
    frozen += [module for name, module in backbone.named_modules() if _is_embedding(name, module)]
    if encoder_decoder and depth == len(lower):
        frozen.append(backbone.get_encoder())
    output = backbone.get_output_embeddings() if hasattr(backbone, "get_output_embeddings") else None
    if output is not None:
        frozen.append(output)
    for module in frozen:
        module.requires_grad_(False)
    return FrozenLayers(lower, depth), frozen, upper[upper_depth - 1] if upper_depth else None


def _is_embedding(name: str, module: nn.Module) -> bool:
    return (isinstance(module, nn.Embedding) and "attention" not in name.lower()) or name.split(".")[-1] == "embeddings"
