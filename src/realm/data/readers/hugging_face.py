"""Hugging Face data sets with one row per item and the annotations as a list of structs, or a struct of lists.

{"id": "1", "text": "...", "annotators": [{"label": 0, "annotator_id": 7}, ...]}
{"id": "1", "text": "...", "annotators": {"label": [0, ...], "annotator_id": [7, ...]}}
"""

from __future__ import annotations

from typing import Any

from realm.data.long_table import LongTable, LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import check_fields, list_in, objects_in, pick, pick_text
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES, listed
from realm.data.source import Source
from realm.errors import RealmError

ANNOTATORS = ("annotator_id", "annotator", "worker_id", "rater_id", "user_id")
IDS = ("item", "id", "item_id")
ANSWERS = ("label", "labels", "value", "answer")


def matches(file: SourceFile) -> bool:
    return bool(_struct_fields(file.first))


def _struct_fields(records: list[dict[str, Any]], options: ReadOptions | None = None) -> list[str]:
    annotators = (*ANNOTATORS, options.annotator) if options else ANNOTATORS
    answers = (*ANSWERS, options.label) if options else ANSWERS
    fields: dict[str, None] = {}
    for record in records:
        for name, value in record.items():
            keys = _keys(value)
            if any(key in keys for key in annotators) and any(key in keys for key in answers):
                fields[name] = None
    return list(fields)


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        return set(value)
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return set(value[0])
    return set()


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the items with their structs; `annotator` and `label` name fields of the struct."""
    records, source = file.records(), file.source
    fields = _struct_fields(records, options)
    if len(fields) != 1:
        raise RealmError(
            f"{source}: one field of structs with annotator and label was expected; found: {listed(fields)}."
        )
    field = fields[0]
    keys = sorted(set().union(*(_keys(record.get(field)) for record in records)))
    annotator_field = pick(options, "annotator", keys, source, usual=ANNOTATORS)
    label_field = pick(options, "label", keys, source, usual=ANSWERS)
    check_fields(options, ITEM_ROLES, file.names, source)
    not_texts = (field, *IDS, *options.columns(ITEM_ROLES).values())
    text = pick_text(options, records, source, exclude=not_texts, is_text=lambda v: isinstance(v, str) or _is_tokens(v))
    id_field = next((name for name in IDS if name in file.names and name != text), "")
    builder = LongTableBuilder(options, source)
    for row, record in enumerate(records, 1):
        value: Any = record.get(text)
        builder.item(row, record, item=record.get(id_field), text=" ".join(value) if _is_tokens(value) else value)
        for annotator, label in _pairs(record, field, annotator_field, label_field, row, source):
            builder.annotation(annotator, label)
    return builder.finish()


def _pairs(
    record: dict[str, Any], field: str, annotator_field: str, label_field: str, row: int, source: Source
) -> list[tuple[Any, Any]]:
    """(annotator, label) of each annotation of a record."""
    if isinstance(value := record.get(field), dict):
        annotators, labels = list_in(value, annotator_field, row, source), list_in(value, label_field, row, source)
        if len(annotators) != len(labels):
            raise RealmError(f"{source}, row {row}: {len(annotators)} annotators and {len(labels)} labels.")
        return list(zip(annotators, labels, strict=True))
    structs = objects_in(record, field, row, source)
    return [(struct.get(annotator_field), struct.get(label_field)) for struct in structs]


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(token, str) for token in value)
