"""Prodigy JSONL (`prodigy db-out`): choices between options, and yes/no on one label.

Ignored answers are dropped. A rejected label says only what the label is not, so it is a label of its own only where
there are two. Items are those with one `_input_hash`.
"""

from __future__ import annotations

import re
from typing import Any

from realm.annotations.readers.collect import Asked, Collector, Long, named_fields, plain
from realm.annotations.readers.files import Opened
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
    binary = list(dict.fromkeys(str(r["label"]) for r in records if r.get("label") is not None and "accept" not in r))
    choices = _Choices.of(records)
    named = named_fields(asked, {name for record in records for name in _told(record)}, source)
    collector = Collector(asked, source)
    sittings: dict[str, None] = {}
    for row, record in enumerate(records, 1):
        told = _told(record)
        shown = {"item": told.get("_input_hash"), "text": plain(told.get(field), field, row, source)}
        shown |= {role: told.get(name) for role, name in named.items()}
        if choices.differ:
            shown["options"] = [str(option.get("text", option.get("id"))) for option in _options(record)] or None
        collector.item(row, **shown)
        person = record.get(asked.annotator) if asked.annotator else _person(record)
        if isinstance(person, str) and _TIMESTAMP.match(person):
            sittings[person] = None
        _annotate(collector, record, person, binary, choices)
    if sittings and asked.need == "annotations":
        collector.ledger.warn(SITTING.format(", ".join(list(sittings)[:3])))
    inventory = None if binary else choices.labels
    return collector.finish(labels=inventory, label_form="text" if choices.differ else "auto")


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """The record's fields and those of its meta, in one."""
    meta = record.get("meta")
    return {**meta, **record} if isinstance(meta, dict) else record


def _person(record: dict[str, Any]) -> Any:
    return record.get("_annotator_id") or record.get("_session_id")


def _annotate(collector: Collector, record: dict[str, Any], person: Any, binary: list[str], choices: _Choices) -> None:
    answer = record.get("answer", "accept")
    if answer == "ignore":
        collector.drop(IGNORED)
    elif isinstance(record.get("accept"), list):
        if answer == "reject":
            collector.drop(REJECTED)
        else:
            collector.annotation(person, [choices.name(record, chosen) for chosen in record["accept"]])
    elif record.get("label") is not None:
        label = str(record["label"])
        if answer == "accept":
            collector.annotation(person, label)
        elif len(binary) > 2:
            collector.drop(NOT_THIS)
        else:
            collector.annotation(person, next((other for other in binary if other != label), f"not {label}"))
    else:
        collector.drop(NEITHER)


def _options(record: dict[str, Any]) -> list[dict[str, Any]]:
    found = record.get("options")
    return [option for option in found if isinstance(option, dict)] if isinstance(found, list) else []


class _Choices:
    """Whether every item lists the same options (then their ids are the labels), or each its own."""

    def __init__(self, lists: list[tuple[str, ...]]) -> None:
        distinct = list(dict.fromkeys(lists))
        self.differ = len(distinct) > 1
        self.labels = distinct[0] if len(distinct) == 1 else None

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> _Choices:
        lists = [tuple(str(option.get("id")) for option in _options(record)) for record in records]
        return cls([ids for ids in lists if ids])

    def name(self, record: dict[str, Any], chosen: Any) -> str:
        if self.differ:
            for option in _options(record):
                if option.get("id") == chosen:
                    return str(option.get("text", chosen))
        return str(chosen)
