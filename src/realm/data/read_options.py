"""`ReadOptions`: all that can be said of how a table is read. Its fields are the flags of the command line as well.

This module imports neither numpy nor pyarrow, so that help is quick.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from realm.data.roles import ANNOTATION_ROLES, OWN_NAMES, REMEMBERED, ROLES, TrainedColumns, check_word
from realm.errors import RealmError, other_name

if TYPE_CHECKING:
    from realm.data.items import Task
else:
    Task = Any  # flags are made of this module's types

F = TypeVar("F", bound=Callable[..., Any])
LabelForm = Literal["auto", "index", "letter", "text"]
Multi = Literal["first", "drop"]
Names = Sequence[str] | str
"""Names as a list, or as one text with commas between them."""
WORDS: Mapping[str, tuple[str | None, ...]] = {
    "multi": (None, "first", "drop"),
    "missing": (None, "error", "drop"),
    "repeats": (None, "keep", "last"),
    "rejected": ("drop", "keep"),
    "label_form": ("auto", "index", "letter", "text"),
}
"""What these options can be."""
LISTS = ("labels", "wide", "ignore", "unanswered")
REST = "rest"
"""In place of a list of the columns of annotators: every one that has no role."""
NO_FLAG = ""


def _option(help: str, *, default: Any = None, typed: Any = str, flag: str | None = None) -> Any:
    """A field with the help, the type and the name of its flag, in the words of `realm.training.settings.setting`."""
    bounds = dict.fromkeys(("choices", "minimum", "maximum", "above"))
    return field(
        default=default,
        metadata={
            "help": help,
            "panel": "Reading the table",
            "flag": flag,
            "typed": typed | None if default is None else typed,
            "words": (),
            "changes_results": True,
            **bounds,
        },
    )


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read: the column of each role, and what is corrected, left out or taken for what.

    A role without a column has the column that is called like it, as far as that is not named for another role.
    """

    text: str | None = _option("Column with the text or question.")
    annotator: str | None = _option("Column with the annotator.")
    label: str | None = _option("Column with the label given.")
    created_at: str | None = _option("Column with the time of the annotation.")
    lead_time: str | None = _option("Column with the seconds that the annotation took.")
    weight: str | None = _option("Column with how much the annotation counts; without it, 1 for all.")
    group: str | None = _option(
        "Column with the group of the annotator, such as people and models: annotators with few labels are drawn to "
        "the mean of their group."
    )
    task: str | None = _option("Column with the task, where there are several.")
    gold: str | None = _option("Column with the true label, where it is known.")
    item: str | None = _option(
        "Column with the item's id; without it, task and text identify an item. A table to test on need not have it."
    )
    options: str | None = _option("Column with the item's own options (a list), or several columns, comma separated.")
    context: str | None = _option("Column with a passage that the text refers to.")
    labels: Names | None = _option(
        "The label set in order, comma separated. Default: the labels of the annotations, sorted."
    )
    exclude: Sequence[str | Path] | str | Path | None = _option(
        "Annotator to leave out, or a file of names (one on each line, or a table with a column annotator); may be "
        "repeated.",
        typed=list[str],
    )
    map_labels: Mapping[Any, Any] | str | Path | None = _option(
        "Labels to rename, such as spelling variants: a CSV with the columns from and to, or YAML `spelling: label`.",
        typed=Path,
    )
    map_annotators: Mapping[Any, Any] | str | Path | None = _option(
        "Annotators to rename, such as one person under two names: a file like that of labels to rename.", typed=Path
    )
    exact_labels: bool = _option(
        "Labels that differ only in case or in the spaces around them are different labels.", default=False, typed=bool
    )
    format: str | None = _option("Format of the file; without it, recognised by its signature.")
    wide: Names | None = _option(
        "Columns of annotators, comma separated, for one row per item; `rest`: every column without a role."
    )
    ignore: Names | None = _option(
        "Columns that are no annotator's, comma separated, where `rest` stands for the annotators."
    )
    multi: Multi | None = _option(
        "Several answers in one annotation: `first` keeps the first of them, `drop` leaves the annotation out."
    )
    missing: Literal["error", "drop"] | None = _option(
        "Rows without a label: `drop` leaves them out (default: an error)."
    )
    repeats: Literal["keep", "last"] | None = _option(
        "Several labels of one item by one annotator: `keep` all, or the `last`. Default: all of a table, the last of "
        "an export in which an answer can be changed."
    )
    unanswered: Names | None = _option(
        "Labels that are no answer, such as `tie,refused`, comma separated: counted, and left out."
    )
    threshold: float | None = _option(
        "Labels are scores: two options of them, below this and from it on. The label set names the two.", typed=float
    )
    order_suffix: str | None = _option(
        "Annotators NAME and NAME with this behind it are one judge, asked in two orders of the options."
    )
    rejected: Literal["drop", "keep"] = _option(
        "Rejected assignments (MTurk, Toloka): `keep` reads them too.", default="drop", flag=NO_FLAG
    )
    label_form: LabelForm = _option(
        "How labels point at an item's own options: `index` from 0, `letter` or `text`.", default="auto"
    )
    encoding: str | None = _option("Encoding of the text, such as cp1252. Default: UTF-8, or UTF-16 with its mark.")
    max_unpacked_gb: float | None = _option("Gigabytes that a compressed file may unpack to. Default: 2.", typed=float)
    tasks: Sequence[Task] | None = _option(
        "Tasks of a run: labels and tasks have the numbers they have there.", flag=NO_FLAG
    )
    trained: TrainedColumns | None = _option("The columns of the run that the table is for.", flag=NO_FLAG)
    optional: Collection[str] = _option(
        "Roles whose column need not be there though it is named.", default=(), flag=NO_FLAG
    )
    keep_rows: bool = _option("Keep the row of each annotation, as `source_rows`.", default=False, flag=NO_FLAG)
    keep_orders: bool = _option("Leave the annotators of two orders apart.", default=False, flag=NO_FLAG)
    wants: Literal["annotations", "gold", "items"] = _option(
        "What is read, which the function says.", default="annotations", flag=NO_FLAG
    )

    @property
    def wants_annotations(self) -> bool:
        return self.wants == "annotations"

    @property
    def required(self) -> tuple[str, ...]:
        """The roles that must have a column."""
        if self.wants_annotations:
            return ("text", "annotator", "label")
        needed = ("text",) if self.trained is None or "context" not in self.trained.columns else ("text", "context")
        return (*needed, "gold") if self.wants == "gold" else needed

    def reads(self, role: str) -> bool:
        """Whether the column of this role is read; one that is not need not be there."""
        return self.wants_annotations or (role not in ANNOTATION_ROLES and (role != "gold" or self.wants == "gold"))

    def columns(self, roles: Collection[str] = ROLES) -> dict[str, str]:
        """The columns that are named for these roles, as far as they are read."""
        return {role: name for role in roles if self.reads(role) and (name := getattr(self, role)) is not None}

    def usual(self, role: str) -> str | None:
        """The column that has a role unless another is named for it: the run's, or the one with the role's own name."""
        if self.trained is None or role not in REMEMBERED:
            return OWN_NAMES.get(role, role)
        # an id of its own helps to tell items apart whatever the run was trained on
        return self.trained.columns.get(role, role if role == "item" else None)

    def for_export(self, format: str, fields: Collection[str]) -> ReadOptions:
        """The same for an export with these fields, named as in a run that was trained on one of this format."""
        options, trained = self, self.trained
        if trained is not None and trained.export == format:
            own: dict[str, Any] = {role: name for role, name in trained.columns.items() if name != role}
            optional = self.optional if self.item is not None else (*self.optional, "item")
            options = replace(self, **own | self.columns(list(own)), optional=optional)
        absent = [role for role, name in options.columns(options.optional).items() if name not in fields]
        return replace(options, **dict.fromkeys(absent)) if absent else options  # type: ignore[arg-type]


class ReadArguments(TypedDict, total=False):
    """The fields of `ReadOptions` as arguments, for type checkers and editors."""

    text: str | None
    annotator: str | None
    label: str | None
    created_at: str | None
    lead_time: str | None
    weight: str | None
    group: str | None
    task: str | None
    gold: str | None
    item: str | None
    options: str | None
    context: str | None
    labels: Names | None
    exclude: Sequence[str | Path] | str | Path | None
    map_labels: Mapping[Any, Any] | str | Path | None
    map_annotators: Mapping[Any, Any] | str | Path | None
    exact_labels: bool
    format: str | None
    wide: Names | None
    ignore: Names | None
    multi: Multi | None
    missing: Literal["error", "drop"] | None
    repeats: Literal["keep", "last"] | None
    unanswered: Names | None
    threshold: float | None
    order_suffix: str | None
    rejected: Literal["drop", "keep"]
    label_form: LabelForm
    encoding: str | None
    max_unpacked_gb: float | None
    tasks: Sequence[Task] | None
    trained: TrainedColumns | None
    optional: Collection[str]
    keep_rows: bool
    keep_orders: bool


def checked(base: ReadOptions | None, arguments: Mapping[str, Any], **fixed: Any) -> ReadOptions:
    """The options with these arguments in place of their own; what there is not, or cannot be, is refused."""
    if base is not None and not isinstance(base, ReadOptions):
        raise RealmError(f"`read_options` is {type(base).__name__}, not `ReadOptions`. Name columns: `text=...`.")
    known = [each.name for each in fields(ReadOptions) if each.name != "wants"]
    if unknown := [name for name in arguments if name not in known]:
        hint = other_name(unknown[0], known, {}) or f"Columns have the roles {', '.join(ROLES)}."
        raise RealmError(f"`{unknown[0]}`: there is no such argument. {hint}")
    values = dict(arguments)
    values |= {role: str(values[role]) for role in ROLES if values.get(role) is not None}
    defaults = {each.name: each.default for each in fields(ReadOptions)}
    values |= {name: defaults[name] for name in ("rejected", "label_form") if name in values and values[name] is None}
    options = replace(base or ReadOptions(), **values, **fixed)
    for name, words in WORDS.items():
        check_word(name, getattr(options, name), words)
    limit = options.max_unpacked_gb
    if limit is not None and not (limit > 0 and math.isfinite(limit)):
        raise RealmError(f"`max_unpacked_gb={limit:g}`: must be a number above 0.")
    return replace(options, **{name: _listed(getattr(options, name)) for name in LISTS})


def _listed(names: Names | None) -> Any:
    from realm.data.label_sets import split_list

    return split_list(names) if isinstance(names, str) else names


def completes(function: F) -> F:
    """Show the arguments of `ReadOptions` in the signature of a function that passes `**arguments` on."""

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        return function(*positional, **named)

    own = inspect.signature(function)
    kept = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
        for each in fields(ReadOptions)
        if each.name != "wants"
    ]
    call.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    call.__annotations__ = {**function.__annotations__, **{each.name: each.annotation for each in added}}
    return cast(F, call)
