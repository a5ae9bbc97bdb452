"""Fields of an export's records: which one has which role, and values in the shape that the format documents.

Anything else is an error that names the row or the field, not a guess.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from realm.data.request import ReadRequest
from realm.errors import RealmError

ITEM_ROLES = ("item", "context", "task", "gold", "options")
NAMES_SHOWN = 30
"""Field names that a message lists: all of a usual export, and not the thousands of a broken one."""


def pick(
    named: str | None, role: str, candidates: Sequence[str], source: str, *, prefix: str = "", usual: Sequence[str] = ()
) -> str:
    """The field for a role: the one named (with or without its prefix), the only one, or one of the usual names."""
    if named is not None:
        for name in (named, prefix + named):
            if name in candidates:
                return name
        raise RealmError(f'{source}: `{role}="{named}"`: there is no such field. There are: {listed(candidates)}.')
    if len(candidates) == 1:
        return candidates[0]
    for name in usual:
        if prefix + name in candidates:
            return prefix + name
    if not candidates:
        raise RealmError(f"{source}: there is no field for the {role}. Name one with `{role}`.")
    raise RealmError(f"{source}: which field is the {role}? Name one with `{role}`: {listed(candidates)}.")


def named_fields(request: ReadRequest, names: Collection[str], source: str) -> dict[str, str]:
    """The fields that were named for an item's own columns, by role; each must be there."""
    check_fields(request, ITEM_ROLES, names, source)
    return request.columns(ITEM_ROLES)


def check_fields(request: ReadRequest, roles: Collection[str], names: Collection[str], source: str) -> None:
    """Refuse a name for one of these roles that is no field, where the role is read."""
    for role, named in request.columns(roles).items():
        if named not in names:
            there = listed(sorted(names))
            raise RealmError(f'{source}: `{role}="{named}"`: there is no such field. There are: {there}.')


def refuse_column(request: ReadRequest, role: str, place: str, source: str) -> None:
    """Refuse a name for a role that an export has in one place only."""
    for named in request.columns([role]).values():
        raise RealmError(
            f'{source}: `{role}="{named}"`: not for this format: the {role} is {place}. '
            'If it is a table of your own, use `format="table"`.'
        )


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them."""
    return ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "") if names else "none"


# ------------------------------------------------------------------------------------------------ values


def value_in(record: Mapping[str, Any], name: str, row: int, source: str) -> Any:
    """One plain value, or None where the field is absent."""
    value = record.get(name)
    if isinstance(value, dict | list):
        raise RealmError(f"{source}, row {row}: the field '{name}' holds {_kind(value)}, not one value.")
    return value


def list_in(record: Mapping[str, Any], name: str, row: int, source: str) -> list[Any]:
    """A list; empty where the field is absent or null."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RealmError(f"{source}, row {row}: the field '{name}' should be a list and is {_kind(value)}.")
    return value


def object_in(record: Mapping[str, Any], name: str, row: int, source: str) -> dict[str, Any]:
    """An object; empty where the field is absent or null."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RealmError(f"{source}, row {row}: the field '{name}' should be an object and is {_kind(value)}.")
    return value


def objects_in(record: Mapping[str, Any], name: str, row: int, source: str) -> list[dict[str, Any]]:
    """A list of objects; empty where the field is absent or null."""
    values = list_in(record, name, row, source)
    for value in values:
        if not isinstance(value, dict):
            raise RealmError(f"{source}, row {row}: the field '{name}' should list objects and has {_kind(value)}.")
    return values


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
