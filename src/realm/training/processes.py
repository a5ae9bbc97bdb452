"""Several processes: one that writes, scoring shared among them, and a backbone that is sharded (PyTorch's FSDP).

A channel is small and its masked update needs every entry, so it is left out of the sharding: each process computes the
gradient of its own annotations, and these are averaged here as data parallelism would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from realm.errors import RealmError
from realm.scorers import Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.scoring import Scores, score

Result = TypeVar("Result")


def on_first(args: Any, act: Callable[[], Result]) -> Result:
    """Let the first process act, and give every process what it returned; if it failed, they all fail.

    Must be called by every process. The result travels as a pickle between processes of one run.
    """
    if args.world_size == 1:
        return act()
    from accelerate.utils import broadcast_object_list

    failure: Exception | None = None
    message: list[Any] = [None, None]  # what the first process returned, and why it failed
    if args.process_index == 0:
        try:
            message[0] = act()
        except Exception as error:
            failure, message[1] = error, str(error)
    broadcast_object_list(message, from_process=0)
    if failure is not None:
        raise failure
    if message[1] is not None:
        raise RealmError(message[1])
    result: Result = message[0]
    return result


def gather(args: Any, value: Any) -> list[Any]:
    """What every process holds, in the order of the processes."""
    if args.world_size == 1:
        return [value]
    from accelerate.utils import gather_object

    return list(gather_object([value]))


def part() -> None:
    """Leave the other processes when the work is shared no more: threads of gloo that outlive Python may abort it."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def score_shared(args: Any, scorer: Scorer, encoded: EncodedItems, *, alone: bool = False, **settings: Any) -> Scores:
    """`realm.scorers.scoring.score`, each process a share of the items; all must call it, and all get the whole.

    `alone`: every process scores all items, as a sharded model needs.
    """
    if args.world_size == 1 or alone:
        return score(scorer, encoded, **settings)
    own = score(scorer, encoded, items=np.arange(args.process_index, len(encoded), args.world_size), **settings)
    parts = gather(args, (own.log_probs, own.answer_mass))
    log_probs = np.full((len(encoded), own.log_probs.shape[1]), -np.inf)
    answer_mass = None if any(mass is None for _, mass in parts) else np.zeros(len(encoded))
    for rank, (part, mass) in enumerate(parts):
        log_probs[rank :: args.world_size] = part
        if answer_mass is not None:
            answer_mass[rank :: args.world_size] = mass
    return Scores(log_probs, answer_mass)


# -------------------------------------------------------------------- a sharded backbone


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


def sharded_state(model: nn.Module, optimizer: Any) -> dict[str, Any]:
    """The optimiser's state by the names of parameters, whole, on the first process; every process must ask."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_optimizer_state_dict(model, optimizer.optimizer, options=options))


def load_sharded_state(model: nn.Module, optimizer: Any, state: dict[str, Any]) -> None:
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
