"""What a machine file must hold, as a dataclass, `dict[str, int]` or `list[str]`; an error names the file and place."""

from __future__ import annotations

import dataclasses
import math
import reprlib
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from realm.errors import RealmError

T = TypeVar("T")
_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "null",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}


def parse(path: Path, content: Any, kind: type[T]) -> T:
    """The content of a file, if it is a `kind`; keys that a dataclass does not have are ignored."""
    if problem := _mismatch(content, kind, ""):
        raise damaged(path, problem)
    return content  # type: ignore[no-any-return]


def damaged(path: Path, problem: str) -> RealmError:
    return RealmError(f"{path}: {problem}. {path.name} is damaged, or was not written by this version of realm.")


def _mismatch(value: Any, kind: Any, place: str) -> str:
    """What is wrong with a value; empty where nothing is."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Any:
        return ""
    if origin in (Union, UnionType):
        problems = [_mismatch(value, each, place) for each in arguments]
        return "" if "" in problems else problems[0]
    shown = f"`{reprlib.repr(place)[1:-1]}`" if place else "it"
    if origin is Literal:
        return "" if value in arguments else f"{shown} is {value!r}, not one of {', '.join(arguments)}"
    json_kind = dict if dataclasses.is_dataclass(origin) else list if origin is tuple else origin
    allowed: Any = (int, float) if json_kind is float else json_kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and json_kind is not bool):
        actual = _NAMES[type(value)] if value is None or isinstance(value, list | dict) else reprlib.repr(value)
        return f"{shown} is {actual}, not {_NAMES[json_kind]}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{shown} is {value}, not a finite number"
    inner: list[tuple[Any, Any, Any]] = []
    if dataclasses.is_dataclass(origin):
        hints = get_type_hints(origin)
        for field in dataclasses.fields(origin):
            if field.name in value:
                inner.append((field.name, value[field.name], hints[field.name]))
            elif field.default is field.default_factory is dataclasses.MISSING:
                return f"{shown} lacks `{field.name}`"
    elif json_kind is dict and arguments:
        if not all(isinstance(key, str) for key in value):
            return f"{shown} has a key that is not text"
        inner = [(key, entry, arguments[1]) for key, entry in value.items()]
    elif json_kind is list and arguments:
        inner = [(index, entry, arguments[0]) for index, entry in enumerate(value)]
    places = ((f"{place}.{name}" if place else str(name), entry, each) for name, entry, each in inner)
    return next((problem for where, entry, each in places if (problem := _mismatch(entry, each, where))), "")
