"""`ReadOptions`: all that can be said of how a table is read. Its fields are the flags of the command line as well.

This module imports neither numpy nor pyarrow, so that help is quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

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
WORDS: dict[str, tuple[str, ...]] = {
    "multi": ("first", "drop"),
    "missing": ("error", "drop"),
    "repeats": ("keep", "last"),
}
WORDS |= {"rejected": ("drop", "keep"), "label_form": ("auto", "index", "letter", "text")}
"""What these options can be."""
LISTS = ("labels", "wide", "ignore", "unanswered")
REST = "rest"
"""In place of a list of the columns of annotators: every one that has no role."""
NO_FLAG = ""


def _option(help: str, *, default: Any = None, typed: Any = str, flag: str | None = None) -> Any:
    """A field with the help, the type and the name of its flag, in the words of `realm.training.settings.setting`."""
    metadata: dict[str, Any] = dict.fromkeys(("choices", "minimum", "maximum", "above"))
    metadata |= {"help": help, "panel": "Reading the table", "flag": flag, "words": (), "changes_results": True}
    return field(default=default, metadata=metadata | {"typed": typed | None if default is None else typed})


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
    group: str | None = _option("Column with the group of the annotator, such as person or model, for a prior each.")
    task: str | None = _option("Column with the task, where there are several.")
    gold: str | None = _option("Column with the true label, where it is known.")
    item: str | None = _option("Column with the item's id (a test table may lack it). Default: task and text.")
    options: str | None = _option("Column with the item's own options (a list), or several columns, comma separated.")
    context: str | None = _option("Column with a passage that the text refers to.")
    labels: Names | None = _option("The labels in order, comma separated. Default: those of the annotations, sorted.")
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
        "Annotators to rename, in the same way.", typed=Path
    )
    exact_labels: bool = _option("Keep labels apart that differ in case or spaces only.", default=False, typed=bool)
    format: str | None = _option("Format of the file; without it, recognised by its signature.")
    wide: Names | None = _option(
        "Columns of annotators for one row per item, comma separated, or `rest` for all others."
    )
    ignore: Names | None = _option("Columns that are no annotator's, where `rest` stands for the annotators.")
    multi: Multi | None = _option(
        "Several answers in one annotation: keep the `first` of them, or `drop` the annotation."
    )
    missing: Literal["error", "drop"] | None = _option(
        "Rows without a label: `drop` leaves them out (default: an error)."
    )
    repeats: Literal["keep", "last"] | None = _option(
        "Several labels of one item by one annotator: `keep` all, or the `last`. Default: all of a table, the last of "
        "an export in which an answer can be changed."
    )
    unanswered: Names | None = _option("Labels that are no answer, such as `tie,refused`: counted, and left out.")
    threshold: float | None = _option(
        "Make two options of scores: below this, and from it on (`labels` names them).", typed=float
    )
    order_suffix: str | None = _option(
        "NAME and NAME with this behind it are one judge, asked in two orders of the options."
    )
    rejected: Literal["drop", "keep"] = _option("`keep` reads rejected assignments too.", default="drop", flag=NO_FLAG)
    label_form: LabelForm = _option(
        "How labels point at an item's own options: `index` from 0, `letter` or `text`.", default="auto"
    )
    encoding: str | None = _option("Encoding of the text, such as cp1252. Default: UTF-8, or UTF-16 with its mark.")
    max_unpacked_gb: float | None = _option("Gigabytes that a compressed file may unpack to. Default: 2.", typed=float)
    tasks: Sequence[Task] | None = _option("Tasks of a run, whose labels keep their numbers.", flag=NO_FLAG)
    trained: TrainedColumns | None = _option("The columns of the run that the table is for.", flag=NO_FLAG)
    optional: Collection[str] = _option("Roles whose named column need not be there.", default=(), flag=NO_FLAG)
    keep_rows: bool = _option("Keep the row of each annotation, as `source_rows`.", default=False, flag=NO_FLAG)
    keep_orders: bool = _option("Leave the annotators of two orders apart.", default=False, flag=NO_FLAG)
    wants: Literal["annotations", "gold", "items"] = _option("What is read.", default="annotations", flag=NO_FLAG)

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


def checked(base: ReadOptions | None, arguments: Mapping[str, Any], **fixed: Any) -> ReadOptions:
    """The options with these arguments in place of their own; what there is not, or cannot be, is refused."""
    if base is not None and not isinstance(base, ReadOptions):
        raise RealmError(f"`read_options` is {type(base).__name__}, not `ReadOptions`. Name columns: `text=...`.")
    defaults: dict[str, Any] = {each.name: each.default for each in fields(ReadOptions) if each.name != "wants"}
    if unknown := [name for name in arguments if name not in defaults]:
        hint = other_name(unknown[0], defaults, {}) or f"Columns have the roles {', '.join(ROLES)}."
        raise RealmError(f"`{unknown[0]}`: there is no such argument. {hint}")
    values: dict[str, Any] = {name: defaults[name] if value is None else value for name, value in arguments.items()}
    values |= {role: str(values[role]) for role in ROLES if values.get(role) is not None}
    options = replace(base or ReadOptions(), **values, **fixed)
    for name, words in WORDS.items():
        check_word(name, getattr(options, name), (*words, defaults[name]))
    if options.max_unpacked_gb is not None and not 0 < options.max_unpacked_gb < float("inf"):
        raise RealmError(f"`max_unpacked_gb={options.max_unpacked_gb:g}`: must be a number above 0.")
    from realm.data.label_sets import split_list  # numpy, which help of the command line does not wait for

    for name in LISTS:
        if isinstance(value := getattr(options, name), str):
            options = replace(options, **{name: split_list(value)})  # type: ignore[arg-type]
    return options


def completes(function: F) -> F:
    """Show the arguments of `ReadOptions` in the signature of a function that passes `**arguments` on."""
    own = inspect.signature(function)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(each.name, kind, default=each.default, annotation=each.type) for each in fields(ReadOptions)
    ]
    shown = [*list(own.parameters.values())[:-1], *(each for each in added if each.name != "wants")]
    function.__annotations__ |= {each.name: each.annotation for each in added}
    function.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return function
