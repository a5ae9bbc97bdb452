"""Where the frozen part of a backbone ends, and how it is skipped where its output is known already.

With `train_layers=n` only the top n layers train: the frozen layers' output of an item, a state per token, can be kept
and put back in later. With `train_layers=head` what lies below a classifier's head never changes, and an item is one
state, at the token that the head reads. The model's own forward still does everything else (masks, positions, norms),
so both work for any backbone whose layers stand in a list, or whose base model is a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from realm.errors import RealmError

HEAD = "head"
"""The value of `train_layers` that trains no layer, only what reads the answer from the last one."""
CANNOT = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""What a backbone raises that takes no states in place of its own."""


class _LeftError(Exception):
    """Leaves a forward whose rest is not needed, with what the layer returned."""


def output_of(layer: nn.Module, run: Callable[[], Any]) -> Tensor:
    """The states that the layer returns during `run()`, which is left at that point. (rows, tokens, width)"""

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        raise _LeftError(output)

    handle = layer.register_forward_hook(leave)
    try:
        run()
    except _LeftError as left:
        (output,) = left.args
        states: Tensor = output if isinstance(output, Tensor) else output[0]
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


def freeze_layers(backbone: Any, train_layers: int, run: Callable[[], Any]) -> tuple[FrozenLayers, list[nn.Module]]:
    """Freeze all but the top `train_layers` layers and what follows them; the layers, and all modules in eval mode.

    Embeddings and the vocabulary's output layer are frozen; final norms, a pooler and a classifier's head train.
    In an encoder-decoder the decoder's layers are the upper ones: the whole encoder is frozen unless `train_layers`
    reaches below the decoder, and frozen decoder layers are run each time (a decoder reads one or two tokens).
    `run` is a forward, from which it is seen what else the frozen layers read.
    """
    encoder_decoder = bool(getattr(backbone.config, "is_encoder_decoder", False))
    if encoder_decoder:
        lower, upper = (_layer_stack(part, backbone) for part in (backbone.get_encoder(), backbone.get_decoder()))
    else:
        lower, upper = _layer_stack(backbone.get_decoder(), backbone), nn.ModuleList()
        count = backbone.config.get_text_config().num_hidden_layers
        if len(lower) != count:
            raise refusal(backbone, f"keeps its {count} layers in a list of {len(lower)} (they share their weights)")
    total = len(lower) + len(upper)
    if not 0 < train_layers < total:
        raise RealmError(
            f"`train_layers={train_layers}`: the model has {total} layers, so it must lie between 1 and {total - 1}. "
            "Leave it out to train all of them."
        )
    depth, upper_depth = min(len(lower), total - train_layers), max(len(upper) - train_layers, 0)
    modules: list[nn.Module] = [*lower[:depth], *upper[:upper_depth]]
    modules += [module for name, module in backbone.named_modules() if _is_embedding(name, module)]
    if encoder_decoder and depth == len(lower):
        modules.append(backbone.get_encoder())
    if hasattr(backbone, "get_output_embeddings") and (output := backbone.get_output_embeddings()) is not None:
        modules.append(output)
    for module in modules:
        module.requires_grad_(False)
    frozen = FrozenLayers(lower, depth)
    for layer in (lower[depth - 1], *upper[:upper_depth][-1:]):
        with torch.enable_grad():
            _freeze_what_is_read(output_of(layer, run), backbone.parameters())
    return frozen, modules


def _freeze_what_is_read(states: Tensor, parameters: Iterable[nn.Parameter]) -> None:
    """Freeze those of the parameters that frozen layers read to compute these states.

    A position bias or norm that all layers share (MPNet, DeBERTa), or one between the embedding and the layers (BART),
    lies in none of them: were it trained, what the frozen layers compute would change.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if states.requires_grad:
        gradients = torch.autograd.grad(states.sum(), trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.requires_grad_(gradient is None)


def _layer_stack(module: nn.Module, backbone: Any) -> nn.ModuleList:
    """The list of the layers of a module of the backbone: the longest list that lies in no other."""
    lists = {name: each for name, each in module.named_modules() if isinstance(each, nn.ModuleList)}
    outer = [each for name, each in lists.items() if not any(name.startswith(f"{other}.") for other in lists)]
    longest = [each for each in outer if len(each) == max(map(len, outer))]
    if len(longest) != 1:
        raise refusal(backbone, "keeps its layers in no list of their own")
    return longest[0]


def _is_embedding(name: str, module: nn.Module) -> bool:
    return (isinstance(module, nn.Embedding) and "attention" not in name.lower()) or name.split(".")[-1] == "embeddings"


def refusal(backbone: Any, reason: str) -> RealmError:
    """The error for a backbone whose lower layers cannot be frozen."""
    return RealmError(
        f"`train_layers`: {type(backbone).__name__} {reason}, so that its lower layers cannot be frozen. Use "
        "`train_layers=head` or `lora_rank`, or leave `train_layers` out to train all of it."
    )


class FrozenBase:
    """The frozen base model of a classifier: `states` gives what the head reads of each item, `logits` goes on there.

    The base model can be told to return such states as sequences of one token; the classifier's own forward then does
    everything above them. A head reads the first token (most encoders) or the last one (decoders), as a batch of one
    row, `probe`, tells. A pooler of the base model belongs to the head. Where neither token gives the classifier's own
    logits (a head that averages over tokens) it is refused.
    """

    def __init__(self, backbone: Any, probe: dict[str, Tensor]) -> None:
        self.backbone = backbone
        self.base: nn.Module = backbone.base_model
        self.pooler: nn.Module | None = getattr(self.base, "pooler", None)
        self.reads_last = False
        self._given: Tensor | None = None
        self._output: Any = None  # of the base model, as it last ran
        refused = RealmError(
            f"`train_layers=head`: the head of {type(backbone).__name__} does not answer from the state of one token. "
            "Use `train_layers=1`."
        )
        if self.base is backbone:
            raise refused
        self._run = self.base.forward
        self.base.forward = self._forward
        self.base.requires_grad_(False)
        if self.pooler is not None:
            self.pooler.requires_grad_(True)
        training = backbone.training
        backbone.eval()
        try:
            if not self._finds_token(probe):
                raise refused
            trained = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
            gradients = torch.autograd.grad(self.logits(self.states(probe)).sum(), trained, allow_unused=True)
        except CANNOT:
            raise refused from None
        finally:
            backbone.train(training)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._given is None:
            self._output = self._run(*args, **kwargs)
            return self._output
        sequence, pooled = self._given[:, None], {}
        if self.pooler is not None:
            activation: Any = getattr(self.base, "pooler_activation", None)  # beside ALBERT's pooler, a bare layer
            output = self.pooler(sequence)
            pooled = {"pooler_output": output if activation is None else activation(output[:, 0])}
        return type(self._output)(last_hidden_state=sequence, **pooled)

    def states(self, inputs: dict[str, Tensor]) -> Tensor:
        """The state that the head reads of each item, without a gradient. (items, width)"""
        with torch.no_grad():
            self.backbone(**inputs)  # which may hand more to the base model (Longformer: where attention is global)
        last = inputs["attention_mask"].sum(1) - 1
        token = last if self.reads_last else torch.zeros_like(last)
        states: Tensor = self._output.last_hidden_state[torch.arange(len(token), device=token.device), token]
        return states

    def logits(self, states: Tensor) -> Tensor:
        """What the classifier makes of these states, with a gradient for its head. (items, labels)"""
        one = torch.ones(len(states), 1, dtype=torch.long, device=states.device)  # the base model reads no token here
        self._given = states
        try:
            logits: Tensor = self.backbone(input_ids=one, attention_mask=one).logits
            return logits
        finally:
            self._given = None

    @torch.no_grad()
    def _finds_token(self, probe: dict[str, Tensor]) -> bool:
        """Set which token gives the classifier's own logits; False where none does."""
        expected = self.backbone(**probe).logits
        for self.reads_last in (False, True):
            logits = self.logits(self.states(probe))
            # far above the rounding of float32, far below what another token's state would change
            if logits.shape == expected.shape and torch.allclose(logits, expected, rtol=1e-4, atol=1e-6):
                return True
        return False
