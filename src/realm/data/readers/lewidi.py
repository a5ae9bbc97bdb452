"""LeWiDi ("Learning with Disagreements") JSON: items by id, annotators and annotations beside them.

`annotations` is an object of labels by annotator, or (edition 2) one string parallel to `annotators`. Its soft and hard
labels are made from the annotations themselves and are not gold.
"""

from __future__ import annotations

from typing import Any

from realm.data.readers.fields import check_fields, refuse_column
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import LongTable, LongTableBuilder
from realm.data.roles import ITEM_ROLES, ReadRequest
from realm.errors import RealmError


def matches(file: SourceFile) -> bool:
    return any({"annotators", "annotations"} <= r.keys() and isinstance(r["annotators"], str) for r in file.first)


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the items; row n is the nth of the file."""
    source = file.source
    if isinstance(file.content, dict):
        items = list(file.content.items())
    else:
        items = [(record.get("id"), record) for record in file.records()]
    refuse_column(request, "annotator", "in the field annotations", source)
    refuse_column(request, "label", "in the field annotations", source)
    check_fields(request, ("text", *ITEM_ROLES), file.names, source)
    builder = LongTableBuilder(request, source)
    for row, (item, record) in enumerate(items, 1):
        if not isinstance(record, dict):
            raise RealmError(f"{source}, row {row}: not an item with its annotations.")
        builder.item(row, record, item=item, text=_text(record.get(request.text or "text")))
        for annotator, answers in _pairs(record, row, source):
            builder.annotation(annotator, answers)
    return builder.finish()


def _text(value: Any) -> Any:
    """A text of several parts (a post and its reply, two questions) becomes one part per line, under its name."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {part}" for name, part in value.items() if part)
    return value


def _pairs(record: dict[str, Any], row: int, source: str) -> list[tuple[str, list[str]]]:
    annotators = [name.strip() for name in str(record.get("annotators") or "").split(",") if name.strip()]
    labels = record.get("annotations")
    if isinstance(labels, dict):
        return [(str(name), _answers(answer)) for name, answer in labels.items()]
    answers = [part.strip() for part in str(labels or "").split(",")] if labels else []
    if len(answers) != len(annotators):
        raise RealmError(f"{source}, row {row}: {len(annotators)} annotators and {len(answers)} annotations.")
    return [(name, [answer]) for name, answer in zip(annotators, answers, strict=True)]


def _answers(value: Any) -> list[str]:
    values = value if isinstance(value, list) else str("" if value is None else value).split(",")
    return [str(part).strip() for part in values]
