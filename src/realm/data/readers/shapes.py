"""Fields of JSON records in the shape a format documents: anything else is an error that names the row, not a guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from realm.errors import RealmError


def value_in(record: Mapping[str, Any], name: str, row: int, source: str) -> Any:
    """One plain value, or None where the field is absent."""
    value = record.get(name)
    if isinstance(value, dict | list):
        raise RealmError(f"{source}, row {row}: the field '{name}' holds {_shape(value)}, not one value.")
    return value


def list_in(record: Mapping[str, Any], name: str, row: int, source: str) -> list[Any]:
    """A list; empty where the field is absent or null."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RealmError(f"{source}, row {row}: the field '{name}' should be a list and is {_shape(value)}.")
    return value


def object_in(record: Mapping[str, Any], name: str, row: int, source: str) -> dict[str, Any]:
    """An object; empty where the field is absent or null."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RealmError(f"{source}, row {row}: the field '{name}' should be an object and is {_shape(value)}.")
    return value


def objects_in(record: Mapping[str, Any], name: str, row: int, source: str) -> list[dict[str, Any]]:
    """A list of objects; empty where the field is absent or null."""
    values = list_in(record, name, row, source)
    for value in values:
        if not isinstance(value, dict):
            raise RealmError(f"{source}, row {row}: the field '{name}' should list objects and has {_shape(value)}.")
    return values


def _shape(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
