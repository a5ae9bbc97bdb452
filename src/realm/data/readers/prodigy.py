"""Prodigy JSONL (`prodigy db-out`): choices between options, and yes/no on one label.

Ignored answers are dropped. A rejected label says only what the label is not, so it is a label of its own only where
there are two. Items are those with one `_input_hash`.
"""

from __future__ import annotations

import re
from typing import Any

from realm.data.long_table import LongTable, LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import check_fields, list_in, objects_in, refuse_column, value_in
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES
from realm.data.source import Source
from realm.errors import RealmError

IGNORED = "ignored by the annotator"
REJECTED = "task rejected by the annotator"
NOT_THIS = "rejected label among three or more: says only what the label is not"
NEITHER = "neither an accepted option nor a label"
TIMESTAMPS = (
    "Some annotators are bare timestamps ({}): that is a session, not an annotator, and one annotator may have many. "
    "Start Prodigy with a named session (?session=name) to tell them apart."
)
_TIMESTAMP = re.compile(r"^(.*-)?\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}$")


def matches(file: SourceFile) -> bool:
    names = file.names
    return "_input_hash" in names or (
        "answer" in names and bool(names & {"_session_id", "_annotator_id", "_task_hash"})
    )


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the export; row n is its nth record."""
    records, source = file.records(), file.source
    field = options.text or "text"
    if records and not any(field in record for record in records):
        raise RealmError(f"{source}: there is no field '{field}'. Name the field with the text with `text`.")
    questions = _Questions(records, source)
    fields = {name for record in records for name in _with_meta(record)}
    refuse_column(options, "label", "in accept or label", source)
    check_fields(options, (*ITEM_ROLES, "annotator"), fields, source)
    builder = LongTableBuilder(options, source)
    timestamps: dict[str, None] = {}
    for row, record in enumerate(records, 1):
        values = _with_meta(record)
        own = {"options": questions.texts(row) or None} if questions.differ else {}
        text = value_in(values, field, row, source)
        builder.item(row, values, item=value_in(values, "_input_hash", row, source), text=text, **own)
        annotator = record.get("_annotator_id") or record.get("_session_id")
        if options.annotator:
            annotator = values.get(options.annotator)
        if isinstance(annotator, str) and _TIMESTAMP.match(annotator):
            timestamps[annotator] = None
        _annotate(builder, row, record, annotator, questions)
    if timestamps and options.wants_annotations:
        builder.ledger.warn(TIMESTAMPS.format(", ".join(list(timestamps)[:3])))
    labels = None if questions.binary else questions.labels
    return builder.finish(labels=labels, label_form="text" if questions.differ else "auto", repeats="last")


def _with_meta(record: dict[str, Any]) -> dict[str, Any]:
    """The record's fields and those of its meta, in one."""
    meta = record.get("meta")
    return {**meta, **record} if isinstance(meta, dict) else record


def _annotate(
    builder: LongTableBuilder, row: int, record: dict[str, Any], annotator: Any, questions: _Questions
) -> None:
    answer, source = record.get("answer", "accept"), builder.source
    if answer not in ("accept", "reject", "ignore"):
        raise RealmError(f"{source}, row {row}: the answer must be accept, reject or ignore, not {answer!r}.")
    if answer == "ignore":
        builder.drop(IGNORED)
    elif "accept" in record:
        if answer == "reject":
            builder.drop(REJECTED)
        else:
            options = list_in(record, "accept", row, source)
            builder.annotation(annotator, [questions.name(row, option) for option in options], **_time(record))
    elif record.get("label") is not None:
        label = str(value_in(record, "label", row, source))
        if answer == "accept":
            builder.annotation(annotator, label, **_time(record))
        elif len(questions.binary) > 2:
            builder.drop(NOT_THIS)
        else:
            other = next((other for other in questions.binary if other != label), f"not {label}")
            builder.annotation(annotator, other, **_time(record))
    else:
        builder.drop(NEITHER)


def _time(record: dict[str, Any]) -> dict[str, Any]:
    """Prodigy's own time of the answer, in seconds since 1970."""
    time = record.get("_timestamp")
    return {"created_at": time} if isinstance(time, int | float) else {}


class _Questions:
    """What annotators were asked: to choose among options, the same for every record (their ids are the labels) or each
    record's own; or yes/no on one label at a time (`binary` lists these labels)."""

    def __init__(self, records: list[dict[str, Any]], source: Source) -> None:
        self._of_row = {
            row: [(str(option.get("id")), str(option.get("text", option.get("id")))) for option in options]
            for row, record in enumerate(records, 1)
            if (options := objects_in(record, "options", row, source))
        }
        # A recipe may shuffle its options: the same ones in another order are the same question.
        label_sets = [tuple(name for name, _ in options) for options in self._of_row.values()]
        self.differ = len({frozenset(names) for names in label_sets}) > 1
        self.labels = label_sets[0] if label_sets and not self.differ else None
        binary = (record["label"] for record in records if record.get("label") is not None and "accept" not in record)
        self.binary = list(dict.fromkeys(str(label) for label in binary))

    def texts(self, row: int) -> list[str]:
        return [text for _, text in self._of_row.get(row, [])]

    def name(self, row: int, option: Any) -> str:
        """The label of an option's id: its text where every record has options of its own."""
        return dict(self._of_row.get(row, [])).get(str(option), str(option)) if self.differ else str(option)
