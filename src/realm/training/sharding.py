"""A backbone that is sharded over the processes (PyTorch's FSDP), beside a channel that each of them holds whole.

The channel is small and its masked update needs every entry, so it is left out of the sharding: each process computes
the gradient of its own annotations, and these are averaged here as data parallelism would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from realm.errors import RealmError
from realm.methods import METHODS


def check_deepspeed(config: Any, stage: int) -> None:
    """Refuse what DeepSpeed's partitions of the parameters would break."""
    if stage == 3:
        raise RealmError("DeepSpeed ZeRO-3 is not supported: use stage 1 or 2, or FSDP.")
    if (
        METHODS[config.method].learns_expertise
        and config.expertise_optimizer == "masked"
        and config.method_update == "gradient"
    ):
        raise RealmError(
            "DeepSpeed lays parameters end to end, so absent annotators cannot be left alone. Use "
            "`expertise_optimizer=adamw` or `expertise_update=em`, or FSDP."
        )


def check(config: Any, plugin: Any) -> None:
    """Refuse what cannot be sharded."""
    if plugin.fsdp_version != 2:
        raise RealmError("FSDP version 1 is not supported; use version 2 (`fsdp_config: {version: 2}`, the default).")
    if config.train_layers:
        raise RealmError("`train_layers` cannot be combined with FSDP: little trains then, so run without FSDP.")


def whole_parameters(model: Any) -> list[nn.Parameter]:
    """What is not the backbone's: the channel's parameters and the scale of `cloze`."""
    sharded = {id(parameter) for parameter in model.scorer.backbone.parameters()}
    return [parameter for parameter in model.parameters() if id(parameter) not in sharded]


def leave_whole(model: Any, plugin: Any) -> None:
    plugin.ignored_modules = [nn.ParameterList(whole_parameters(model))]


def average_gradients(model: Any) -> None:
    """Average the gradients of what is not sharded over the processes."""
    for parameter in whole_parameters(model):
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def clip(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Clip the norm of sharded and whole gradients together; returns the norm before."""
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    parts = [[p for p in trained if hasattr(p.grad, "full_tensor") is sharded] for sharded in (True, False)]
    norms = [torch.nn.utils.get_total_norm([p.grad for p in part if p.grad is not None]) for part in parts if part]
    total: Tensor = torch.linalg.vector_norm(torch.stack([full(norm) for norm in norms]))
    for part in parts:
        torch.nn.utils.clip_grads_with_norm_(part, most, total)
    return total


def full(tensor: Any) -> Tensor:
    """The whole of a tensor that may be sharded; every process must ask."""
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def like(value: Tensor, parameter: Any) -> Tensor:
    """A whole tensor cut as the parameter is."""
    if not hasattr(parameter, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def optimizer_state(model: nn.Module, optimizer: Any) -> dict[str, Any]:
    """The optimiser's state by the names of parameters, whole, on the first process; every process must ask."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_optimizer_state_dict(model, optimizer.optimizer, options=options))


def load_optimizer_state(model: nn.Module, optimizer: Any, state: dict[str, Any]) -> None:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True)
    set_optimizer_state_dict(model, optimizer.optimizer, optim_state_dict=state, options=options)


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Let every process call parts of the model outside its own forward; its layers still gather what they need."""
    if not hasattr(model, "unshard"):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()


def make_whole(model: nn.Module) -> None:
    """Undo the sharding in place: every process holds the whole model again, as a plain module."""
    from torch.distributed.fsdp import FSDPModule

    whole: dict[int, nn.Parameter] = {}  # tied weights stay tied
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in sharded:
        module.reshard()
    for inner in list(model.modules()):
        for name, parameter in list(inner._parameters.items()):
            if parameter is not None and hasattr(parameter, "full_tensor"):
                if id(parameter) not in whole:
                    whole[id(parameter)] = nn.Parameter(full(parameter.detach()), parameter.requires_grad)
                inner._parameters[name] = whole[id(parameter)]
    for module in sharded:
        state: Any = module._get_fsdp_state()
        for hook in ("_pre_forward_hook_handle", "_post_forward_hook_handle"):
            getattr(state, hook).remove()
        module.__class__ = type(module).__bases__[1]
