"""What each column of a table is for, its role, and which column has which. Imports neither numpy nor pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from realm.errors import RealmError, other_name

if TYPE_CHECKING:
    from realm.data.read_options import ReadOptions
    from realm.data.source import Source

ITEM_ROLES = ("item", "task", "gold", "options", "context")
"""Roles that describe an item, besides its text."""
TIME_ROLES = ("created_at", "lead_time")
"""When an annotation was given, and how long that took."""
ANNOTATION_ROLES = ("annotator", "label", "weight", "group", *TIME_ROLES)
ROLES = ("text", *ITEM_ROLES, *ANNOTATION_ROLES)
"""All roles of columns. A column with the name of a role has that role, unless it is named for another."""
OWN_NAMES = {"group": "annotator_group"}
"""Roles whose column has another name where none is named for it: tables have a `group` of many kinds."""
ALSO_CALLED = {"annotator": "worker"}
"""Other names by which the columns of a role are known, in tables for crowd-kit."""
ANNOTATION_COLUMNS = tuple(OWN_NAMES.get(role, role) for role in ANNOTATION_ROLES)
"""What the columns of these roles are called where none is named for them."""
REMEMBERED = ("text", "context", "item", "options", "task")
"""Roles whose columns a run remembers: those that say what an item is. Gold is no part of a run."""
NAMES_SHOWN = 20
"""Names that a message lists: all of a usual table, and not the thousands of a broken one."""


@dataclass(frozen=True)
class Corrections:
    """What a user said of a table: annotators who are left out, and the name that each spelling stands for."""

    exclude: tuple[str, ...] = ()
    map_labels: Mapping[str, str] = field(default_factory=dict)
    map_annotators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedColumns:
    """The columns that a run was trained on, by which tables for it are read."""

    run: str  # what messages call the run
    columns: Mapping[str, str]  # of each role that the table trained on had; one that it had not is not read
    export: str | None = None  # the tool whose export it was; None for a plain table
    corrections: Corrections = field(default_factory=Corrections)  # as they are here unless others are named


def resolve_columns(
    options: ReadOptions, names: Sequence[str], source: Source, roles: Sequence[str] = ROLES
) -> dict[str, str]:
    """The column of each role that is read and there: the one named for it, or else the usual one.

    A column that is named for a role has no other but by name; that of the ids, though, may be called as that of the
    texts is. A table of annotations without texts has no `text` here: its items are told by `item`, or by `task`
    where there is no `item`, as in tables for crowd-kit.
    """
    columns = {}
    for role, column in options.columns(roles).items():
        absent = [name for name in _parts(role, column, names) if name not in names]
        if not absent:
            columns[role] = column
        elif role not in options.optional:
            hint = f"{_columns_are(names)} {other_name(absent[0], names, {})}".strip()
            raise source.error(f'`{role}="{absent[0]}"`: there is no such column. {hint}')
    taken = {part for role, column in columns.items() for part in _parts(role, column, names)}
    for role in roles:
        if role in columns or not options.reads(role):
            continue
        free = set(names) - taken | ({columns["item"]} if role == "text" and "item" in columns else set())
        for usual in (options.usual(role), ALSO_CALLED.get(role)):
            if usual is not None and free.issuperset(_parts(role, usual, names)):
                columns[role] = usual
                break
    ids_may_do = options.wants_annotations and options.trained is None and "text" not in columns
    if ids_may_do and "item" not in columns and "task" in columns and options.task is None:
        columns["item"] = columns.pop("task")
    ids_do = ids_may_do and "item" in columns
    needed = [role for role in roles if role in options.required and not (role == "text" and ids_do)]
    if missing := [role for role in needed if role not in columns]:
        raise source.error(_absent(missing, options, names))
    if "label" in columns and columns["label"] == columns.get("gold"):
        raise source.error(f"`label` and `gold` are both the column '{columns['gold']}': labels are not the truth.")
    for role, column in columns.items():
        for name in _parts(role, column, names):
            if (count := list(names).count(name)) > 1:
                raise source.error(f"the column '{name}' appears {count} times. Rename one.")
    return columns


def _absent(missing: Sequence[str], options: ReadOptions, names: Sequence[str]) -> str:
    """What to say where required roles have no column."""
    role, *others = missing
    what = f"'{options.usual(role)}'"
    if options.trained is not None and role in REMEMBERED:
        what += f" for the {role}, which the run {options.trained.run} was trained on"
    also = f", and likewise {' and '.join(f'`{other}`' for other in others)}" if others else ""
    wide = ' If it has a row for each item and a column for each annotator, give `wide="rest"`.'
    wide = wide if "annotator" in missing and options.label is None and "label" not in names and names[2:] else ""
    return f"there is no column {what}. {_columns_are(names)} Name the right one with `{role}`{also}.{wide}"


def split_columns(column: str, names: Collection[str]) -> list[str]:
    """The columns in one string: a column's name, or several (of options, one each), comma separated."""
    if column in names:
        return [column]
    return [part if part in names else part.strip() for part in column.split(",")]


def _parts(role: str, column: str, names: Collection[str]) -> list[str]:
    return split_columns(column, names) if role == "options" else [column]


def listed(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """Names as a message lists them."""
    return ", ".join(map(str, names[:most])) + ", ..." * (len(names) > most) if names else "none"


def _columns_are(names: Sequence[str]) -> str:
    return f"The columns are: {listed(names)}." if names else "It has no columns."


def check_word(argument: str, word: str | None, allowed: Sequence[str | None]) -> None:
    """Refuse a word that is none of those allowed."""
    if word not in allowed:
        raise RealmError(f'`{argument}="{word}"`: must be one of {", ".join(filter(None, allowed))}.')
