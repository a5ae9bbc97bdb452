"""Prodigy JSONL (`prodigy db-out`): choices between options, and yes/no on one label.

Ignored answers are dropped. A rejected label says only what the label is not, so it is a label of its own only where
there are two. Items are those with one `_input_hash`.
"""

from __future__ import annotations

import re
from typing import Any

from realm.data.readers.collect import Asked, Collector, Long, check_fields, named_fields, refuse_flag
from realm.data.readers.files import Opened
from realm.data.readers.shapes import list_in, objects_in, value_in
from realm.errors import RealmError

IGNORED = "ignored by the annotator"
REJECTED = "task rejected by the annotator"
NOT_THIS = "rejected label among three or more: says only what the label is not"
NEITHER = "neither an accepted option nor a label"
SITTING = (
    "Some annotators are bare timestamps ({}): that is a sitting, not a person, and one person may have many. "
    "Start Prodigy with a named session (?session=name) to tell people apart."
)
_TIMESTAMP = re.compile(r"^(.*-)?\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}$")


def matches(opened: Opened) -> bool:
    names = opened.names
    return "_input_hash" in names or (
        "answer" in names and bool(names & {"_session_id", "_annotator_id", "_task_hash"})
    )


def read(opened: Opened, asked: Asked) -> Long:
    """Read the export; row n is its nth record."""
    records, source = opened.records(), opened.source
    field = asked.text or "text"
    if records and not any(field in record for record in records):
        raise RealmError(f"{source}: there is no field '{field}'. Name the field with the text with --text.")
    questions = _Questions(records, source)
    fields = {name for record in records for name in _told(record)}
    named = named_fields(asked, fields, source)
    refuse_flag(asked, "label", "in accept or label", source)
    check_fields(asked, ("annotator",), fields, source)
    collector = Collector(asked, source)
    sittings: dict[str, None] = {}
    for row, record in enumerate(records, 1):
        told = _told(record)
        shown = {"item": value_in(told, "_input_hash", row, source), "text": value_in(told, field, row, source)}
        shown |= {role: told.get(name) for role, name in named.items()}
        if questions.differ:
            shown["options"] = questions.texts(row) or None
        collector.item(row, **shown)
        person = told.get(asked.annotator) if asked.annotator else _person(record)
        if isinstance(person, str) and _TIMESTAMP.match(person):
            sittings[person] = None
        _annotate(collector, row, record, person, questions)
    if sittings and asked.need == "annotations":
        collector.ledger.warn(SITTING.format(", ".join(list(sittings)[:3])))
    inventory = None if questions.binary else questions.labels
    return collector.finish(labels=inventory, label_form="text" if questions.differ else "auto")


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """The record's fields and those of its meta, in one."""
    meta = record.get("meta")
    return {**meta, **record} if isinstance(meta, dict) else record


def _person(record: dict[str, Any]) -> Any:
    return record.get("_annotator_id") or record.get("_session_id")


def _annotate(collector: Collector, row: int, record: dict[str, Any], person: Any, questions: _Questions) -> None:
    answer, source = record.get("answer", "accept"), collector.source
    if answer not in ("accept", "reject", "ignore"):
        raise RealmError(f"{source}, row {row}: the answer must be accept, reject or ignore, not {answer!r}.")
    if answer == "ignore":
        collector.drop(IGNORED)
    elif "accept" in record:
        if answer == "reject":
            collector.drop(REJECTED)
        else:
            chosen = list_in(record, "accept", row, source)
            collector.annotation(person, [questions.name(row, option) for option in chosen])
    elif record.get("label") is not None:
        label = str(value_in(record, "label", row, source))
        if answer == "accept":
            collector.annotation(person, label)
        elif len(questions.binary) > 2:
            collector.drop(NOT_THIS)
        else:
            other = next((other for other in questions.binary if other != label), f"not {label}")
            collector.annotation(person, other)
    else:
        collector.drop(NEITHER)


class _Questions:
    """What was asked: options, the same for every record (then their ids are the labels) or each its own; or yes/no
    on one label at a time, the `binary` ones."""

    def __init__(self, records: list[dict[str, Any]], source: str) -> None:
        self._of_row = {
            row: [(str(option.get("id")), str(option.get("text", option.get("id")))) for option in options]
            for row, record in enumerate(records, 1)
            if (options := objects_in(record, "options", row, source))
        }
        # A recipe may shuffle its options: the same ones in another order are the same question.
        asked = [tuple(name for name, _ in options) for options in self._of_row.values()]
        self.differ = len({frozenset(names) for names in asked}) > 1
        self.labels = asked[0] if asked and not self.differ else None
        given = (record["label"] for record in records if record.get("label") is not None and "accept" not in record)
        self.binary = list(dict.fromkeys(str(label) for label in given))

    def texts(self, row: int) -> list[str]:
        return [text for _, text in self._of_row.get(row, [])]

    def name(self, row: int, chosen: Any) -> str:
        return dict(self._of_row.get(row, [])).get(str(chosen), str(chosen)) if self.differ else str(chosen)
