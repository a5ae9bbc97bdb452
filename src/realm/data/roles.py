"""What each column of a table is for, its role, and which roles a reader is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from realm.errors import RealmError, other_name

ITEM_ROLES = ("item", "task", "gold", "options", "context")
"""Roles that describe an item, besides its text."""
TIME_ROLES = ("created_at", "lead_time")
"""When an annotation was given, and how long that took."""
ANNOTATION_ROLES = ("annotator", "label", "weight", "group", *TIME_ROLES)
ROLES = ("text", *ITEM_ROLES, *ANNOTATION_ROLES)
"""All roles of columns. A column with the name of a role has that role, unless another column is named for it."""
OWN_NAMES = {"group": "annotator_group"}
"""Roles whose column has another name where none is named for it: tables have a `group` of many kinds."""
ANNOTATION_COLUMNS = tuple(OWN_NAMES.get(role, role) for role in ANNOTATION_ROLES)
"""What the columns of these roles are called where none is named for them."""
NAMES_SHOWN = 40
"""Columns or fields that a message lists: all of a usual table, and not the thousands of a broken one."""
MANY_COLUMNS = 3
"""Columns of the smallest table with a text and two annotators beside it."""
REMEMBERED = ("text", "context", "item", "options", "task")
"""Roles whose columns a run remembers: those that say what an item is. Gold is no part of a run."""
Multi = Literal["first", "drop"]


@dataclass(frozen=True)
class Corrections:
    """What a user said of a table: annotators who are left out, and the label that each spelling stands for."""

    exclude: tuple[str, ...] = ()
    map_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedColumns:
    """The columns that a run was trained on, by which tables for it are read.

    | field | meaning |
    |---|---|
    | run | what messages call the run |
    | columns | the column of each role that the table trained on had; one that it had not is not read |
    | export | the tool whose export it was; None for a plain table |
    | corrections | annotators left out and labels renamed there, as they are here unless others are named |
    """

    run: str
    columns: Mapping[str, str]
    export: str | None = None
    corrections: Corrections = field(default_factory=Corrections)


@dataclass(frozen=True)
class ReadRequest:
    """What a reader is asked for.

    | field | meaning |
    |---|---|
    | item, text, ..., context | the column of each role; None: the one with the role's own name, if there is one |
    | multi | several answers in one annotation: keep the first or drop them; None: an error |
    | rejected | whether assignments that the requester rejected are dropped |
    | wants_annotations | annotators and labels are read, and must be there |
    | wants_gold | gold is read; it must be there where annotations are not read |
    | trained | the columns of the run that the table is for, which take the place of the roles' own names |
    | optional | roles whose column was named for another table: where it is not here, it is as if none was named |
    | joins_answers | several answers may be joined in one cell; an export that lists them has no such cells |
    """

    item: str | None = None
    text: str | None = None
    annotator: str | None = None
    label: str | None = None
    weight: str | None = None
    group: str | None = None
    created_at: str | None = None
    lead_time: str | None = None
    task: str | None = None
    gold: str | None = None
    options: str | None = None
    context: str | None = None
    multi: Multi | None = None
    rejected: Literal["drop", "keep"] = "drop"
    wants_annotations: bool = True
    wants_gold: bool = True
    trained: TrainedColumns | None = None
    joins_answers: bool = True
    optional: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """The roles that must have a column."""
        if self.wants_annotations:
            return ("text", "annotator", "label")
        needed = ("text",) if self.trained is None or "context" not in self.trained.columns else ("text", "context")
        return (*needed, "gold") if self.wants_gold else needed

    def reads(self, role: str) -> bool:
        """Whether the column of this role is read; one that is not need not be there."""
        if role in ANNOTATION_ROLES:
            return self.wants_annotations
        return self.wants_gold or role != "gold"

    def columns(self, roles: Collection[str] = ROLES) -> dict[str, str]:
        """The columns that are named for these roles, as far as they are read."""
        return {role: name for role in roles if self.reads(role) and (name := getattr(self, role)) is not None}

    def usual(self, role: str) -> str | None:
        """The column that has a role unless another is named for it: the run's, or the one with the role's own name."""
        if self.trained is None or role not in REMEMBERED:
            return OWN_NAMES.get(role, role)
        # an id of its own helps to tell items apart whatever the run was trained on
        return self.trained.columns.get(role, role if role == "item" else None)

    def resolve(self, names: Sequence[str], source: str, roles: Sequence[str] = ROLES) -> dict[str, str]:
        """The column of each role that is read and there: the one named for it, or else the usual one."""
        columns = self.without_absent(names).columns(roles)
        named = set(columns.values()) if self.trained is not None else set()
        for role in roles:
            usual = self.usual(role)
            if role in columns:
                for name in split_columns(columns[role], names) if role == "options" else [columns[role]]:
                    if name not in names:
                        hint = other_name(name, names, {})
                        raise RealmError(
                            f'{source}: `{role}="{name}"`: there is no such column. {_columns_are(names)}'
                            f"{f' {hint}' if hint else ''}"
                        )
            elif usual is not None and self.reads(role) and _are_there(usual, role, set(names) - named):
                columns[role] = usual
            elif role in self.required:
                also = [other for other in self.required if other != role and self._is_missing(other, names)]
                others = f", and likewise {' and '.join(f'`{other}`' for other in also)}" if also else ""
                others += ", or call it gold in the table" if role == "gold" else ""
                raise RealmError(
                    f"{source}: there is no column {self._in_words(role)}. {_columns_are(names)} Name the right one "
                    f"with `{role}`{others}.{self._perhaps_wide(role, names)}"
                )
        if self.wants_annotations and "label" in columns and columns["label"] == columns.get("gold"):
            if self.gold is not None:
                raise RealmError(
                    f"{source}: `label` and `gold` are both the column '{self.gold}', but what annotators say is not "
                    "the truth. If it holds the true labels of a test table, call that column gold there."
                )
            del columns["gold"]  # it only happens to be called so
        for column in columns.values():
            for name in split_columns(column, names):
                if (count := list(names).count(name)) > 1:
                    raise RealmError(f"{source}: the column '{name}' appears {count} times. Rename one.")
        return columns

    def _is_missing(self, role: str, names: Sequence[str]) -> bool:
        """Whether no column is named for a role, and the usual one is not there."""
        usual = self.usual(role)
        return self.reads(role) and getattr(self, role) is None and (usual is None or usual not in names)

    def _in_words(self, role: str) -> str:
        name = self.usual(role)
        if self.trained is None or role not in REMEMBERED:
            return f"'{name}'"
        return f"'{name}' for the {role}, which the run {self.trained.run} was trained on"

    def _perhaps_wide(self, role: str, names: Sequence[str]) -> str:
        """What to say of a table without annotators and labels, whose columns may be the annotators."""
        if role != "annotator" or self.label is not None or "label" in names or len(names) < MANY_COLUMNS:
            return ""
        return ' If it has a row for each item and a column for each annotator, give `wide="rest"`.'

    def for_export(self, format: str) -> ReadRequest:
        """The same request for an export: its fields are named as when the run was trained on one of this format."""
        if self.trained is None or self.trained.export != format:
            return self
        fields: dict[str, Any] = {role: name for role, name in self.trained.columns.items() if name != role}
        optional = self.optional if self.item is not None else (*self.optional, "item")
        return replace(self, **fields | self.columns(list(fields)), optional=optional)

    def without_absent(self, names: Collection[str]) -> ReadRequest:
        """The same request without the columns of optional roles that are not among these."""
        absent = [role for role, name in self.columns(self.optional).items() if not _are_there(name, role, names)]
        return replace(self, **dict.fromkeys(absent)) if absent else self  # type: ignore[arg-type]

    def without_columns(self) -> ReadRequest:
        """The same request for a table whose columns have the roles' own names."""
        trained = self.trained
        if trained is not None:
            trained = replace(trained, columns={role: role for role in trained.columns})
        return replace(self, trained=trained, **dict.fromkeys(ROLES))  # type: ignore[arg-type]


ANNOTATIONS = ReadRequest()
TEST = ReadRequest(wants_annotations=False)
"""Items with gold: what a model is evaluated on."""
ITEMS = ReadRequest(wants_annotations=False, wants_gold=False)


def split_columns(column: str, names: Collection[str]) -> list[str]:
    """The columns in one string: a column's name, or several (of options, one each), comma separated."""
    if column in names:
        return [column]
    return [part if part in names else part.strip() for part in column.split(",")]


def _are_there(column: str, role: str, names: Collection[str]) -> bool:
    return all(name in names for name in (split_columns(column, names) if role == "options" else [column]))


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them."""
    return ", ".join(map(str, names[:NAMES_SHOWN])) + ", ..." * (len(names) > NAMES_SHOWN) if names else "none"


def _columns_are(names: Sequence[str]) -> str:
    return f"The columns are: {listed(names)}." if names else "It has no columns."


def check_word(argument: str, word: str | None, allowed: Sequence[str | None]) -> None:
    """Refuse a word that is none of those allowed."""
    if word not in allowed:
        raise RealmError(f'`{argument}="{word}"`: must be one of {", ".join(filter(None, allowed))}.')
