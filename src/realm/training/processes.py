"""Several processes, one writer: what only the first does, and how the others learn of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from realm.errors import RealmError

Result = TypeVar("Result")


def on_first(args: Any, act: Callable[[], Result]) -> Result:
    """Let the first process act, and give every process what it returned; if it failed, they all fail.

    Must be called by every process. The result travels as a pickle between processes of one run.
    """
    if args.world_size == 1:
        return act()
    from accelerate.utils import broadcast_object_list

    failure: Exception | None = None
    told: list[Any] = [None, None]
    if args.process_index == 0:
        try:
            told[0] = act()
        except Exception as error:
            failure, told[1] = error, str(error)
    broadcast_object_list(told, from_process=0)
    if failure is not None:
        raise failure
    if told[1] is not None:
        raise RealmError(told[1])
    result: Result = told[0]
    return result


def gather(args: Any, value: Any) -> list[Any]:
    """What every process holds, in the order of the processes."""
    if args.world_size == 1:
        return [value]
    from accelerate.utils import gather_object

    return list(gather_object([value]))
