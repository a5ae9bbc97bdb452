"""What a machine file must hold: a dataclass (or `dict[str, int]`, `list[str]`), checked with an error that names the
file and the place in it.

Supported are `str`, `bool`, `int`, `float`, `None`, `Any`, `Literal`, unions, `list[T]`, `tuple[T, ...]`,
`dict[str, T]` and dataclasses of these. A whole number is a float too, a boolean is no number, and a float is finite.
Keys that the dataclass does not have are ignored, so that a file of a later version can be read.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError

T = TypeVar("T")
_KINDS: dict[Any, str] = {
    str: "text", bool: "true or false", int: "a whole number", float: "a number", NoneType: "null",
    list: "a list", tuple: "a list", dict: "an object",
}  # fmt: skip


class _Mismatch(Exception):
    def __init__(self, place: tuple[str, ...], problem: str) -> None:
        super().__init__(problem)
        self.place, self.problem = place, problem


def parse(path: Path, content: Any, kind: type[T]) -> T:
    """The content of a file as a `kind`; a `RealmError` that names the file and the place which does not fit."""
    try:
        parsed: T = _parse(content, kind, ())
    except _Mismatch as wrong:
        place = f"`{reprlib.repr('.'.join(wrong.place))[1:-1]}`" if wrong.place else "it"
        raise damaged(path, f"{place} {wrong.problem}") from None
    return parsed


def damaged(path: Path, problem: str) -> RealmError:
    return RealmError(f"{path}: {problem}. {path.name} is damaged, or was not written by this version of realm.")


def _parse(value: Any, kind: Any, place: tuple[str, ...]) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _first_fit(value, arguments, place)
    if origin is Literal:
        if value not in arguments:
            raise _Mismatch(place, f"is {_shown(value)}, not one of {', '.join(map(str, arguments))}")
        return value
    if dataclasses.is_dataclass(kind):
        return _parse_dataclass(value, kind, place)
    json_kind = list if origin is tuple else origin or kind
    is_number = json_kind in (int, float) and isinstance(value, int | json_kind) and not isinstance(value, bool)
    if not (is_number or (json_kind not in (int, float) and isinstance(value, json_kind))):
        raise _Mismatch(place, f"is {_shown(value)}, not {_KINDS[origin or kind]}")
    if isinstance(value, float) and not math.isfinite(value):
        raise _Mismatch(place, f"is {value}, not a finite number")
    if origin in (list, tuple):
        return origin(_parse(entry, arguments[0], (*place, str(index))) for index, entry in enumerate(value))
    if origin is dict:
        keys = {key: _parse(key, arguments[0], place) for key in value}
        return {key: _parse(value[key], arguments[1], (*place, str(key))) for key in keys}
    return value


def _first_fit(value: Any, kinds: tuple[Any, ...], place: tuple[str, ...]) -> Any:
    problems = []
    for kind in kinds:
        try:
            return _parse(value, kind, place)
        except _Mismatch as problem:
            problems.append(problem)
    raise max(problems, key=lambda problem: len(problem.place))  # the deepest says most


def _parse_dataclass(value: Any, kind: Any, place: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        raise _Mismatch(place, f"is {_shown(value)}, not an object")
    kinds, values = get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            values[field.name] = _parse(value[field.name], kinds[field.name], (*place, field.name))
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise _Mismatch(place, f"lacks `{field.name}`")
    return kind(**values)


def _shown(value: Any) -> str:
    return _KINDS[type(value)] if value is None or isinstance(value, list | dict) else reprlib.repr(value)


def check_arrays(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], wanted: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]
) -> None:
    """Refuse arrays of a file that are missing, of another kind or of another shape.

    `wanted` gives the kind (`float`, `int` or `bool`) and the names of the sizes: `("float", "items", "options")`. A
    size that is not in `sizes` is the same wherever its name stands.
    """
    known = dict(sizes)
    for name, (kind, *shape) in wanted.items():
        if name not in arrays:
            raise damaged(path, f"lacks the array `{name}`")
        array = arrays[name]
        if not np.issubdtype(array.dtype, {"float": np.floating, "int": np.integer, "bool": np.bool_}[kind]):
            raise damaged(path, f"the array `{name}` holds {array.dtype}, not {kind}")
        expected = tuple(known.get(size, actual) for size, actual in zip(shape, array.shape, strict=False))
        if array.ndim != len(shape) or array.shape != expected:
            form = ", ".join(f"{size} {known[size]:,}" if size in known else size for size in shape)
            raise damaged(path, f"the array `{name}` has the shape {array.shape}, not ({form})")
        known |= dict(zip(shape, array.shape, strict=True))
