"""What a machine file must hold, as plain data, and one check that names the file and the place that does not fit.

A schema is one of these:

| schema | fits |
|---|---|
| `str`, `bool` | text that can be written as UTF-8; true or false |
| `Whole(low, high)`, `Number(low, high)` | a whole number; a finite number. A boolean is neither |
| `OneOf("a", "b")` | one of these texts |
| `None` | null |
| a tuple | any of its schemas |
| `[schema]` | a list, each entry of which fits |
| `{"key": schema, "key?": schema}` | an object with `key`, or perhaps `key`; others are not looked at |
| `Only({...})` | the same, without others |
| `{"key": schema, str: schema}` | the same; the values under all other keys fit the last |

Arrays have a schema of their own (`Array`): the kind of number, the shape by names of sizes, and what values may be.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError

LARGEST = 2**53
"""The largest whole number that every reader of JSON holds exactly."""


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = LARGEST


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`; more than `low` where it is `above` it."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False


@dataclass(frozen=True)
class OneOf:
    """One of these texts."""

    texts: tuple[str, ...]

    def __init__(self, *texts: str) -> None:
        object.__setattr__(self, "texts", texts)


class Only(dict[str, Any]):
    """An object with these keys and no others."""


PLAIN = (str, bool, Number(), None)
"""A single value as YAML and JSON have it."""


def check(path: Path, value: Any, schema: Any, place: str = "") -> None:
    """Refuse a value that does not fit the schema: a `RealmError` that names the file and the place in it."""
    wrong = _mismatch(value, schema)
    if wrong is None:
        return
    inside, problem = wrong
    where = ".".join(part for part in (place, *inside) if part)
    raise RealmError(f"{path}: {f'`{_shown(where)}` ' if where else 'it '}{problem}. {_damaged(path)}")


def _damaged(path: Path) -> str:
    return f"{path.name} is damaged, or was not written by this version of realm."


def _shown(text: str) -> str:
    return text if len(text) <= 80 and text.isprintable() else reprlib.repr(text)


def _mismatch(value: Any, schema: Any) -> tuple[list[str], str] | None:
    """Where a value does not fit (keys and positions) and in what; None where it fits."""
    if isinstance(schema, dict):
        return _object_mismatch(value, schema)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [], f"is {_kind(value)}, not a list"
        for position, entry in enumerate(value):
            if wrong := _mismatch(entry, schema[0]):
                return [str(position), *wrong[0]], wrong[1]
        return None
    if isinstance(schema, tuple):
        wrongs = [_mismatch(value, each) for each in schema]
        if None in wrongs:
            return None
        # the one that went deepest has the most to say
        return max((wrong for wrong in wrongs if wrong is not None), key=lambda wrong: len(wrong[0]))
    problem = _plain_mismatch(value, schema)
    return None if problem is None else ([], problem)


def _object_mismatch(value: Any, schema: dict[Any, Any]) -> tuple[list[str], str] | None:
    if not isinstance(value, dict):
        return [], f"is {_kind(value)}, not an object with keys"
    for key in value:
        if not isinstance(key, str) or not _is_text(key):
            return [], f"has the key {reprlib.repr(key)}, which is not text"
    named = {key: entry_schema for key, entry_schema in schema.items() if isinstance(key, str)}
    for key, entry_schema in named.items():
        name = key.removesuffix("?")
        if name not in value:
            if key.endswith("?"):
                continue
            return [], f"lacks `{name}`"
        if wrong := _mismatch(value[name], entry_schema):
            return [name, *wrong[0]], wrong[1]
    others = [key for key in value if key not in named and f"{key}?" not in named]
    if others and isinstance(schema, Only):
        return [], f"has the unknown key {reprlib.repr(others[0])}"
    for key in others if str in schema else ():
        if wrong := _mismatch(value[key], schema[str]):
            return [key, *wrong[0]], wrong[1]
    return None


def _plain_mismatch(value: Any, schema: Any) -> str | None:
    if schema is None:
        return None if value is None else f"is {_kind(value)}, not null"
    if schema is bool:
        return None if isinstance(value, bool) else f"is {_kind(value)}, not true or false"
    if schema is str:
        if not isinstance(value, str):
            return f"is {_kind(value)}, not text"
        return None if _is_text(value) else "holds a character that is none (a lone surrogate)"
    if isinstance(schema, OneOf):
        if isinstance(value, str) and value in schema.texts:
            return None
        return f"is {_kind(value)}, not one of {', '.join(schema.texts)}"
    if isinstance(value, bool) or not isinstance(value, int if isinstance(schema, Whole) else int | float):
        return f"is {_kind(value)}, not a {'whole ' * isinstance(schema, Whole)}number"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, not a finite number"
    if abs(value) > LARGEST and isinstance(value, int):
        return f"is {reprlib.repr(value)}, which is too large"
    below = value <= schema.low if isinstance(schema, Number) and schema.above else value < schema.low
    if below or value > schema.high:
        return f"is {value}, which lies outside what it can be"
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    """A value for a message: short, whatever it is."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"{reprlib.repr(value)}"


# -------------------------------------------------------------------- arrays


@dataclass(frozen=True)
class Array:
    """An array of a file: numbers of this kind, of this shape, from `low` to `high`.

    `shape` names sizes: those that the caller knows must agree, and any other name is one size wherever it stands in
    the file. `nan` allows values that are not a number, which stand for nothing known.
    """

    kind: Literal["float", "int", "bool"]
    shape: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf
    nan: bool = False


def check_arrays(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], schema: Mapping[str, Array], sizes: Mapping[str, int]
) -> None:
    """Refuse arrays of a file that are missing, of another kind or shape, or hold what they cannot."""
    known = dict(sizes)
    for name, wanted in schema.items():
        if name not in arrays:
            raise RealmError(f"{path}: lacks the array `{name}`. {_damaged(path)}")
        problem = _array_mismatch(arrays[name], wanted, known)
        if problem is not None:
            raise RealmError(f"{path}: the array `{name}` {problem}. {_damaged(path)}")


def _array_mismatch(array: npt.NDArray[Any], wanted: Array, sizes: dict[str, int]) -> str | None:
    if not np.issubdtype(array.dtype, {"float": np.floating, "int": np.integer, "bool": np.bool_}[wanted.kind]):
        return f"holds {array.dtype}, not {wanted.kind}"
    expected = [sizes.get(name) for name in wanted.shape]
    if array.ndim != len(expected) or any(
        known is not None and known != size for known, size in zip(expected, array.shape, strict=True)
    ):
        form = ", ".join(f"{name} {sizes[name]:,}" if name in sizes else name for name in wanted.shape)
        return f"has the shape {array.shape}, not ({form})"
    sizes.update(zip(wanted.shape, array.shape, strict=True))
    if wanted.kind == "bool" or not array.size:
        return None
    if wanted.kind == "float" and not wanted.nan and np.isnan(array).any():
        return "holds a value that is not a number"
    low, high = (float(np.nanmin(array)), float(np.nanmax(array))) if not _all_nan(array) else (0.0, 0.0)
    if (wanted.low > -math.inf and low < wanted.low) or (wanted.high < math.inf and high > wanted.high):
        return f"holds values from {low:g} to {high:g}; they must lie between {wanted.low:g} and {wanted.high:g}"
    return None


def _all_nan(array: npt.NDArray[Any]) -> bool:
    return bool(np.issubdtype(array.dtype, np.floating) and np.isnan(array).all())
