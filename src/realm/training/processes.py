"""Several processes (DDP): what one does for all, what all hold, and scoring that is shared among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch.distributed as dist

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


def score_shared(args: Any, scorer: Scorer, encoded: EncodedItems, **settings: Any) -> Scores:
    """`realm.scorers.scoring.score`, each process a share of the items; all must call it, and all get the whole."""
    if args.world_size == 1:
        return score(scorer, encoded, **settings)
    own = score(scorer, encoded, items=np.arange(args.process_index, len(encoded), args.world_size), **settings)
    parts = gather(args, (own.log_probs, own.answer_mass))
    log_probs = np.empty((len(encoded), own.log_probs.shape[1]))
    answer_mass = None if any(mass is None for _, mass in parts) else np.empty(len(encoded))
    for rank, (part, mass) in enumerate(parts):
        log_probs[rank :: args.world_size] = part
        if answer_mass is not None:
            answer_mass[rank :: args.world_size] = mass
    return Scores(log_probs, answer_mass)
