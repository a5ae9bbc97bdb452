"""What a reader is asked for, and the long table it collects: one row per annotation, with the source's row numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from realm.data.build import UNREAD, Need
from realm.data.choices import LabelForm
from realm.data.columns import Rows, name_rows
from realm.data.ledger import Ledger
from realm.data.readers.files import column_of
from realm.errors import RealmError

Multi = Literal["first", "drop"]
OF_ITEM = ("item", "context", "task", "gold", "options")
NO_ANNOTATIONS = "record without annotations"
NO_ANSWER = "annotation without an answer"
SEVERAL_FIRST = "several answers in one annotation: the first is kept"
SEVERAL_DROPPED = "several answers in one annotation: dropped"


@dataclass(frozen=True)
class Asked:
    """What the person asked for: columns by role, and how to treat what does not fit."""

    text: str | None = None
    annotator: str | None = None
    label: str | None = None
    task: str | None = None
    gold: str | None = None
    item: str | None = None
    options: str | None = None
    context: str | None = None
    multi: Multi | None = None
    rejected: Literal["drop", "keep"] = "drop"
    need: Need = "annotations"


@dataclass(frozen=True)
class Long:
    """One row per annotation under the canonical names, and the row of the source that each came from.

    `labels` is the inventory where the export itself lists it, `label_form` how its labels point at options.
    """

    table: pa.Table
    rows: Rows
    ledger: Ledger
    labels: Sequence[str] | None = None
    label_form: LabelForm = "auto"


@dataclass
class Collector:
    """Collects items and their annotations record by record.

    Call `item` for each record, then `annotation` for each annotation of it. Where only items are needed, annotations
    are not looked at; a record without any is dropped only where annotations are needed, and then only without gold.
    """

    asked: Asked
    source: str
    ledger: Ledger = field(default_factory=Ledger)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    _row: int = 0
    _shown: dict[str, Any] = field(default_factory=dict)
    _mentioned: bool = True
    _kept: bool = True
    _annotated: bool = False
    _several: list[int] = field(default_factory=list)

    def item(self, row: int, **shown: Any) -> None:
        """Begin the record on this row: item, text, context, options, task, gold, as far as they are there."""
        self._end()
        self._row, self._shown, self._mentioned = row, shown, False
        self._kept = False
        if self.asked.need != "annotations":
            self._append()

    def annotation(self, annotator: Any, answers: Any) -> None:
        """One annotation of the current record; `answers` is a value or a list of values."""
        if self.asked.need != "annotations":
            return
        self._mentioned = True
        values = answers if isinstance(answers, list) else [answers]
        values = [value for value in values if value is not None and value != ""]
        if not values:
            self.ledger.add(NO_ANSWER, [self._row])
            return
        if len(values) > 1:
            self._several.append(self._row)
            if self.asked.multi == "drop":
                return
        self._append(annotator=annotator, label=values[0])
        self._annotated = True

    def drop(self, reason: str) -> None:
        """Leave out an annotation, or the whole of the current record, for this reason."""
        self._mentioned = True
        if self.asked.need == "annotations":
            self.ledger.add(reason, [self._row])

    def _append(self, **more: Any) -> None:
        values = {**self._shown, **more}
        for name in values.keys() - self.columns.keys():
            self.columns[name] = [None] * len(self.rows)
        for name, column in self.columns.items():
            column.append(values.get(name))
        self.rows.append(self._row)
        self._kept = True

    def _end(self) -> None:
        if self._kept or self.asked.need != "annotations":
            return
        if self._shown.get("gold") not in (None, ""):
            self._append(annotator=None, label=None)
        elif not self._mentioned:
            self.ledger.add(NO_ANNOTATIONS, [self._row])

    def finish(self, labels: Sequence[str] | None = None, label_form: LabelForm = "auto") -> Long:
        """The long table. A column in which nothing was ever said is left out."""
        self._end()
        self._kept = True
        settle_several(self._several, self.asked.multi, self.ledger, self.source)
        if not (self._annotated if self.asked.need == "annotations" else self.rows):
            told = "; ".join(f"{count:,} x {reason}" for reason, count in self.ledger.counts.items())
            raise RealmError(f"{self.source}: there is not one annotation in it{f' ({told})' if told else ''}.")
        made = {}
        for name, values in self.columns.items():
            if any(value is not None for value in values) or name in ("text", "annotator", "label"):
                made[name] = column_of(values, name, self.source)
        return Long(pa.table(made), np.array(self.rows, dtype=np.int64), self.ledger, labels, label_form)


def settle_several(rows: Iterable[int], multi: Multi | None, ledger: Ledger, source: str) -> None:
    """Annotations with several answers go to the ledger, or are refused with their count."""
    several = np.array(list(rows), dtype=np.int64)
    if not len(several):
        return
    if multi is None:
        raise RealmError(
            f"{source}, {name_rows(several)}: {len(several):,} annotations have several answers. "
            "Keep the first of each with --multi first, or leave them out with --multi drop."
        )
    ledger.add(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, several.tolist())


def pick(
    named: str | None, role: str, candidates: Sequence[str], source: str, *, prefix: str = "", usual: Sequence[str] = ()
) -> str:
    """The field for a role: the one named (with or without its prefix), the only one, or one of the usual names."""
    if named is not None:
        for name in (named, prefix + named):
            if name in candidates:
                return name
        raise RealmError(f"{source}: --{role} {named}: there is no such field. There are: {listed(candidates)}.")
    if len(candidates) == 1:
        return candidates[0]
    for name in usual:
        if prefix + name in candidates:
            return prefix + name
    if not candidates:
        raise RealmError(f"{source}: there is no field for the {role}. Name one with --{role}.")
    raise RealmError(f"{source}: which field is the {role}? Name one with --{role}: {listed(candidates)}.")


def named_fields(asked: Asked, names: Collection[str], source: str) -> dict[str, str]:
    """The fields that the person named for an item's own columns, by role; each must be there."""
    check_fields(asked, OF_ITEM, names, source)
    return {role: named for role in OF_ITEM if (named := getattr(asked, role)) is not None}


def check_fields(asked: Asked, roles: Iterable[str], names: Collection[str], source: str) -> None:
    """Refuse a flag of these roles that names a field which is not there, where it is read."""
    for role in (role for role in roles if role not in UNREAD[asked.need]):
        if (named := getattr(asked, role)) is not None and named not in names:
            raise RealmError(f"{source}: --{role} {named}: there is no such field. There are: {listed(sorted(names))}.")


def refuse_flag(asked: Asked, role: str, where: str, source: str) -> None:
    """Some exports have the annotator or the label in one place only."""
    if getattr(asked, role) is not None and asked.need == "annotations":
        raise RealmError(
            f"{source}: --{role} {getattr(asked, role)}: not for this format: the {role} is {where}. "
            "If it is a table of your own, use --format table."
        )


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:30]) + (", ..." if len(names) > 30 else "") if names else "none"
