"""Fields of an export's records: which one has which role, and values in the shape that the format documents.

Anything else is an error that names the row or the field, not a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from realm.data.columns import as_array
from realm.data.read_options import ReadOptions
from realm.data.roles import listed
from realm.data.source import Source
from realm.errors import RealmError


def pick(
    options: ReadOptions,
    role: str,
    candidates: Sequence[str],
    source: Source,
    *,
    prefix: str = "",
    usual: Sequence[str] = (),
) -> str:
    """The field for a role: the one named (with or without its prefix), the only one, or one of the usual names."""
    field: str | None = getattr(options, role)
    if field is not None:
        for name in (field, prefix + field):
            if name in candidates:
                return name
        raise _no_field(role, field, candidates, source)
    if len(candidates) == 1:
        return candidates[0]
    for name in usual:
        if prefix + name in candidates:
            return prefix + name
    if not candidates:
        raise source.error(f"there is no field for the {role}. Name one with `{role}`.")
    raise source.error(f"which field is the {role}? Name one with `{role}`: {listed(candidates)}.")


def pick_text(
    options: ReadOptions,
    records: Iterable[Mapping[str, Any]],
    source: Source,
    *,
    exclude: Collection[str] = (),
    usual: Sequence[str] = ("text",),
    is_text: Callable[[Any], bool] = lambda value: isinstance(value, str),
) -> str:
    """The field of the text, among those that hold text in some record and are not excluded."""
    fields = dict.fromkeys(name for record in records for name, value in record.items() if is_text(value))
    return pick(options, "text", [name for name in fields if name not in exclude], source, usual=usual)


def check_fields(options: ReadOptions, roles: Collection[str], names: Collection[str], source: Source) -> None:
    """Refuse a name for one of these roles that is no field, where the role is read."""
    for role, field in options.columns(roles).items():
        if field not in names:
            raise _no_field(role, field, sorted(names), source)


def _no_field(role: str, field: str, names: Sequence[str], source: Source) -> RealmError:
    return source.error(f'`{role}="{field}"`: there is no such field. There are: {listed(names)}.')


def refuse_column(options: ReadOptions, role: str, place: str, source: Source) -> None:
    """Refuse a name for a role that an export has in one place only."""
    for field in options.columns([role]).values():
        raise source.error(
            f'`{role}="{field}"`: not for this format: the {role} is {place}. '
            'If it is a table of your own, use `format="table"`.'
        )


def column_in(table: pa.Table, name: str, role: str, source: Source) -> pa.Array:
    """The column of a role in an export that is a table."""
    if name not in table.column_names:
        raise source.error(f'`{role}="{name}"`: there is no such column. There are: {listed(table.column_names)}.')
    return as_array(table.column(name))


# ---------------------------------------------------------------- values

T = TypeVar("T", list[Any], dict[str, Any])
KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}


def value_in(record: Mapping[str, Any], name: str, row: int, source: Source) -> Any:
    """One plain value, or None where the field is absent."""
    value = record.get(name)
    if isinstance(value, dict | list):
        raise source.error(f"the field '{name}' holds {KINDS[type(value)]}, not one value.", [row])
    return value


def list_in(record: Mapping[str, Any], name: str, row: int, source: Source) -> list[Any]:
    """A list; empty where the field is absent or null."""
    return _typed(record, name, list, row, source)


def object_in(record: Mapping[str, Any], name: str, row: int, source: Source) -> dict[str, Any]:
    """An object; empty where the field is absent or null."""
    return _typed(record, name, dict, row, source)


def objects_in(record: Mapping[str, Any], name: str, row: int, source: Source) -> list[dict[str, Any]]:
    """A list of objects; empty where the field is absent or null."""
    values = list_in(record, name, row, source)
    if wrong := [value for value in values if not isinstance(value, dict)]:
        kind = KINDS.get(type(wrong[0]), type(wrong[0]).__name__)
        raise source.error(f"the field '{name}' should list objects and has {kind}.", [row])
    return values


def _typed(record: Mapping[str, Any], name: str, kind: type[T], row: int, source: Source) -> T:
    value = record.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        is_a = KINDS.get(type(value), type(value).__name__)
        raise source.error(f"the field '{name}' should be {KINDS[kind]} and is {is_a}.", [row])
    return value
