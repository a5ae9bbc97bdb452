"""LeWiDi ("Learning with Disagreements") JSON: items by id, annotators and annotations beside them.

`annotations` is an object of labels by annotator, or (edition 2) one string parallel to `annotators`. Its soft and hard
labels are made from the annotations themselves and are not gold.
"""

from __future__ import annotations

from typing import Any

from realm.data.readers.collect import Asked, Collector, Long, check_fields, named_fields, refuse_flag
from realm.data.readers.files import Opened
from realm.errors import RealmError


def matches(opened: Opened) -> bool:
    return any({"annotators", "annotations"} <= r.keys() and isinstance(r["annotators"], str) for r in opened.first)


def read(opened: Opened, asked: Asked) -> Long:
    """Read the items; row n is the nth of the file."""
    source = opened.source
    if isinstance(opened.content, dict):
        items = list(opened.content.items())
    else:
        items = [(record.get("id"), record) for record in opened.records()]
    refuse_flag(asked, "annotator", "in the field annotations", source)
    refuse_flag(asked, "label", "in the field annotations", source)
    check_fields(asked, ("text",), opened.names, source)
    named = named_fields(asked, opened.names, source)
    collector = Collector(asked, source)
    for row, (item, record) in enumerate(items, 1):
        if not isinstance(record, dict):
            raise RealmError(f"{source}, row {row}: not an item with its annotations.")
        shown = {"item": item, "text": _text(record.get(asked.text or "text"))}
        collector.item(row, **{**shown, **{role: record.get(name) for role, name in named.items()}})
        for annotator, answers in _pairs(record, row, source):
            collector.annotation(annotator, answers)
    return collector.finish()


def _text(value: Any) -> Any:
    """A text of several parts (a post and its reply, two questions) becomes one part per line, under its name."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {part}" for name, part in value.items() if part)
    return value


def _pairs(record: dict[str, Any], row: int, source: str) -> list[tuple[str, list[str]]]:
    people = [name.strip() for name in str(record.get("annotators") or "").split(",") if name.strip()]
    given = record.get("annotations")
    if isinstance(given, dict):
        return [(str(name), _answers(answer)) for name, answer in given.items()]
    answers = [part.strip() for part in str(given or "").split(",")] if given else []
    if len(answers) != len(people):
        raise RealmError(f"{source}, row {row}: {len(people)} annotators and {len(answers)} annotations.")
    return [(name, [answer]) for name, answer in zip(people, answers, strict=True)]


def _answers(value: Any) -> list[str]:
    values = value if isinstance(value, list) else str("" if value is None else value).split(",")
    return [str(part).strip() for part in values]
