"""The one exception for mistakes that a person can mend, and what it says of names that are not there."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
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
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return hints.get(name) or (f"Did you mean `{near[0]}`?" if near else "")


def refuses_other_names(hints: Mapping[str, str]) -> Callable[[F], F]:
    """A function, or a class by its constructor, that refuses arguments it does not have, with `other_name`."""

    def decorate(function: Any) -> Any:
        if isinstance(function, type):
            setattr(function, "__init__", _refusing(function.__name__, vars(function)["__init__"], hints))  # noqa: B010
            return function
        return _refusing(function.__name__, function, hints)

    return decorate


def _refusing(title: str, function: Any, hints: Mapping[str, str]) -> Any:
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        for name in named:
            if name not in names:
                listed = f"It has: {', '.join(names)}." if len(names) <= FEW else f"See help({title})."
                raise RealmError(f"{title}: there is no argument `{name}`. {other_name(name, names, hints) or listed}")
        return function(*arguments, **named)

    return call
