"""Hugging Face data sets: annotations as a list of structs, as a struct of lists, or as one 0/1 column per label.

{"id": "1", "text": "...", "annotators": [{"label": 0, "annotator_id": 7}, ...]}
{"id": "1", "text": "...", "annotators": {"label": [0, ...], "annotator_id": [7, ...]}}
{"id": "1", "text": "...", "rater_id": 7, "example_very_unclear": false, "anger": 0, "joy": 1, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text
from realm.data.long_table import NO_ANSWER, LongTable, without_rows
from realm.data.read_options import ReadOptions
from realm.data.readers.exports import Export
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES, listed

ANNOTATORS = ("annotator_id", "annotator", "worker_id", "rater_id", "user_id")
IDS = ("item", "id", "item_id")
ANSWERS = ("label", "labels", "value", "answer")
UNCLEAR = "marked as very unclear"
UNCLEAR_COLUMN = "example_very_unclear"
TRUE, FALSE = ("1", "1.0", "true", "True"), ("", "0", "0.0", "false", "False")


def matches(file: SourceFile) -> bool:
    return bool(_struct_fields(file.first, ReadOptions()))


def _struct_fields(records: Sequence[Mapping[str, Any]], options: ReadOptions) -> list[str]:
    annotators, answers = {*ANNOTATORS, options.annotator}, {*ANSWERS, options.label}
    pairs = ((name, _keys(value)) for record in records for name, value in record.items())
    return list(dict.fromkeys(name for name, keys in pairs if keys & annotators and keys & answers))


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        return set(value)
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return set(value[0])
    return set()


def read(export: Export) -> LongTable:
    """Read the items with their structs; `annotator` and `label` name fields of the struct."""
    records, options, builder = export.file.records(), export.options, export.builder
    fields = _struct_fields(records, options)
    if len(fields) != 1:
        raise export.source.error(
            f"one field of structs with annotator and label was expected; found: {listed(fields)}."
        )
    field = fields[0]
    keys = sorted(set().union(*(_keys(record.get(field)) for record in records)))
    annotator, label = export.pick("annotator", keys, usual=ANNOTATORS), export.pick("label", keys, usual=ANSWERS)
    not_texts = (field, *IDS, *options.columns(ITEM_ROLES).values())
    text = export.pick_text(records, not_texts, is_text=lambda value: isinstance(value, str) or _is_tokens(value))
    item = next((name for name in IDS if name in export.file.names and name != text), "")
    for record in records:
        value: Any = record.get(text)
        words = " ".join(value) if _is_tokens(value) else value
        builder.item(record.row, record, item=record.get(item), text=words)
        if isinstance(record.get(field), dict):
            people, answers = record.object(field).values_of(annotator), record.object(field).values_of(label)
            if len(people) != len(answers):
                raise record.error(f"{len(people)} annotators and {len(answers)} labels.")
        else:
            structs = record.objects(field)
            people, answers = [each.get(annotator) for each in structs], [each.get(label) for each in structs]
        for person, answer in zip(people, answers, strict=True):
            builder.annotation(person, answer)
    return builder.finish()


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(token, str) for token in value)


# ---------------------------------------------------------------- one column per label


def matches_one_hot(file: SourceFile) -> bool:
    return {"rater_id", UNCLEAR_COLUMN} <= file.names


def read_one_hot(export: Export) -> LongTable:
    """Read one rating per row. Labels are all columns of 0 and 1, or those that `label` lists."""
    table, options, source = export.file.table(), export.options, export.source
    names = {"text": options.text or "text", "annotator": options.annotator or "rater_id"}
    names |= ({"item": "id"} if "id" in table.column_names else {}) | options.columns(ITEM_ROLES)
    columns = export.columns(names)
    if not options.wants_annotations:
        return without_rows(columns, {}, source)
    others = [name for name in table.column_names if name not in (UNCLEAR_COLUMN, *names.values())]
    labels = options.label.split(",") if options.label else others
    flags = {name: mask for name in labels if (mask := _flags(export, name)) is not None}
    if len(flags) < (len(labels) if options.label else 2):
        raise source.error(f"`label` must list two columns of 0 and 1 or more of: {listed(others)}.")
    ratings = np.stack(list(flags.values()), axis=1)
    answers = pa.array(list(flags), pa.large_string()).take(pa.array(np.nonzero(ratings)[1]))
    columns["label"] = pa.LargeListArray.from_arrays(np.concatenate([[0], np.cumsum(ratings.sum(1))]), answers)
    unclear = _flags(export, UNCLEAR_COLUMN)
    reasons = {} if unclear is None else {UNCLEAR: unclear}
    return without_rows(columns, {**reasons, NO_ANSWER: ratings.sum(1) == 0}, source, labels=list(flags))


def _flags(export: Export, name: str) -> Mask | None:
    """A 0/1 or true/false column; None where there is none of the name. Shape (rows,)."""
    if name not in export.file.names:
        return None
    column = as_text(export.file.table().column(name), name, export.source)
    is_true = np.asarray(pc.is_in(column, value_set=pa.array(TRUE, pa.large_string())))
    is_false = np.asarray(pc.is_in(column.fill_null(""), value_set=pa.array(FALSE, pa.large_string())))
    return is_true if (is_true | is_false).all() else None
