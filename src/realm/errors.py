"""The one exception for mistakes that a person can mend, and what it says of names that are not there."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
FEW = 20
"""So many names are listed where none is near."""


class RealmError(Exception):
    """Something in the input, the flags or the surroundings is wrong and the message says what to do about it.

    Commands print the message alone and end with exit code 2; a traceback is for our own mistakes.
    """


def other_name(name: str, names: Iterable[str], hints: Mapping[str, str]) -> str:
    """A sentence about a name that is not there: what it is called here, or the nearest name; else empty.

    Examples:
        >>> other_name("lerning_rate", ["learning_rate", "seed"], {})
        'Did you mean `learning_rate`?'
        >>> other_name("args", ["config"], {"args": "It is called `config` here."})
        'It is called `config` here.'
    """
    if name in hints:
        return hints[name]
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f"Did you mean `{near[0]}`?" if near else ""


def no_attribute(owner: str, name: str, names: Iterable[str], hints: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that is not there, with `other_name`."""
    hint = "" if name.startswith("__") else other_name(name, (each for each in names if each[0] != "_"), hints)
    return AttributeError(f"{owner} has no attribute {name!r}{'. ' * bool(hint)}{hint}")


def refuses_other_names(hints: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """A class whose constructor refuses arguments that it does not have, with `other_name`."""

    def decorate(cls: type[T]) -> type[T]:
        construct = cls.__init__
        names = list(inspect.signature(construct).parameters)[1:]

        @functools.wraps(construct)
        def __init__(self: T, *arguments: Any, **named: Any) -> None:
            for name in named:
                if name not in names:
                    listed = f"It has: {', '.join(names)}." if len(names) <= FEW else f"See help({cls.__name__})."
                    hint = other_name(name, names, hints) or listed
                    raise RealmError(f"{cls.__name__}: there is no argument `{name}`. {hint}")
            construct(self, *arguments, **named)

        cls.__init__ = __init__  # type: ignore[assignment]
        return cls

    return decorate
