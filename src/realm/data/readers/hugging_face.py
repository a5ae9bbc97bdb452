"""Hugging Face data sets with one row per item and the annotations as a list of structs, or a struct of lists.

{"id": "1", "text": "...", "annotators": [{"label": 0, "annotator_id": 7}, ...]}
{"id": "1", "text": "...", "annotators": {"label": [0, ...], "annotator_id": [7, ...]}}
"""

from __future__ import annotations

from typing import Any

from realm.data.readers.collect import Asked, Collector, Long, listed, named_fields, pick
from realm.data.readers.files import Opened
from realm.data.readers.shapes import list_in, objects_in
from realm.errors import RealmError

PEOPLE = ("annotator_id", "annotator", "worker_id", "rater_id", "user_id")
IDS = ("item", "id", "item_id")
ANSWERS = ("label", "labels", "value", "answer")


def matches(opened: Opened) -> bool:
    return bool(_struct_fields(opened.first))


def _struct_fields(records: list[dict[str, Any]], asked: Asked | None = None) -> list[str]:
    people = (*PEOPLE, asked.annotator) if asked else PEOPLE
    answers = (*ANSWERS, asked.label) if asked else ANSWERS
    found: dict[str, None] = {}
    for record in records:
        for name, value in record.items():
            keys = _keys(value)
            if any(key in keys for key in people) and any(key in keys for key in answers):
                found[name] = None
    return list(found)


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        return set(value)
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return set(value[0])
    return set()


def read(opened: Opened, asked: Asked) -> Long:
    """Read the items with their structs; --annotator and --label name fields of the struct."""
    records, source = opened.records(), opened.source
    fields = _struct_fields(records, asked)
    if len(fields) != 1:
        raise RealmError(
            f"{source}: one field of structs with annotator and label was expected; found: {listed(fields)}."
        )
    field = fields[0]
    keys = sorted(set().union(*(_keys(record.get(field)) for record in records)))
    person = pick(asked.annotator, "annotator", keys, source, usual=PEOPLE)
    answer = pick(asked.label, "label", keys, source, usual=ANSWERS)
    named = named_fields(asked, opened.names, source)
    texts = list(
        dict.fromkeys(
            name
            for record in records
            for name, value in record.items()
            if name not in (field, *IDS, *named.values()) and (isinstance(value, str) or _is_tokens(value))
        )
    )
    text = pick(asked.text, "text", texts, source, usual=("text",))
    item = next((name for name in IDS if name in opened.names and name != text), None)
    collector = Collector(asked, source)
    for row, record in enumerate(records, 1):
        shown = {"item": record.get(item) if item else None, "text": _text(record.get(text))}
        collector.item(row, **{**shown, **{role: record.get(name) for role, name in named.items()}})
        for annotator, label in _pairs(record, field, person, answer, row, source):
            collector.annotation(annotator, label)
    return collector.finish()


def _pairs(
    record: dict[str, Any], field: str, person: str, answer: str, row: int, source: str
) -> list[tuple[Any, Any]]:
    if isinstance(value := record.get(field), dict):
        people, answers = list_in(value, person, row, source), list_in(value, answer, row, source)
        if len(people) != len(answers):
            raise RealmError(f"{source}, row {row}: {len(people)} annotators and {len(answers)} labels.")
        return list(zip(people, answers, strict=True))
    return [(one.get(person), one.get(answer)) for one in objects_in(record, field, row, source)]


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(token, str) for token in value)


def _text(value: Any) -> Any:
    return " ".join(value) if _is_tokens(value) else value
