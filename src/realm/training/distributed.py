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
