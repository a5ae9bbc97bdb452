"""Prodigy JSONL (`prodigy db-out`): choices between options, and yes/no on one label.

Ignored answers are dropped. A rejected label says only what the label is not, so it is a label of its own only where
there are two. Items are those with one `_input_hash`.
"""

from __future__ import annotations

import re
from typing import Any

from realm.data.long_table import LongTable
from realm.data.readers.exports import Export
from realm.data.readers.files import Record, SourceFile

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
    others = {"_session_id", "_annotator_id", "_task_hash"}
    return "_input_hash" in file.names or ("answer" in file.names and bool(file.names & others))


def read(export: Export) -> LongTable:
    """Read the export; row n is its nth record.

    Annotators choose among options, the same for every record (their ids are the labels) or each record's own (their
    texts are); or they say yes or no to one label at a time.
    """
    options, builder, records = export.options, export.builder, export.file.records()
    text = options.text or "text"
    if not any(text in record for record in records):
        raise export.source.error(f"there is no field '{text}'. Name the field with the text with `text`.")
    asked = [_options(record) for record in records]
    sets = [list(each) for each in asked if each]
    # a recipe may shuffle its options: the same ones in another order are the same question
    differ = len({frozenset(each) for each in sets}) > 1
    yes_or_no = [str(each["label"]) for each in records if each.get("label") is not None and "accept" not in each]
    binary = list(dict.fromkeys(yes_or_no))
    sessions: dict[str, None] = {}
    for record, texts in zip(records, asked, strict=True):
        meta = record.get("meta")  # may hold fields of the item's own
        fields = {**(meta if isinstance(meta, dict) else {}), **record}
        own = {"options": list(texts.values()) or None} if differ else {}
        builder.item(record.row, fields, item=record.value("_input_hash"), text=record.value(text), **own)
        annotator = record.get("_annotator_id") or record.get("_session_id")
        if options.annotator:
            annotator = fields.get(options.annotator)
        if isinstance(annotator, str) and _TIMESTAMP.match(annotator):
            sessions[annotator] = None
        answer = _answer(record, texts if differ else {}, binary)
        if isinstance(answer, str):
            builder.drop(answer)
        else:
            time = record.get("_timestamp")  # in seconds since 1970
            builder.annotation(annotator, answer, **({"created_at": time} if isinstance(time, int | float) else {}))
    if sessions and options.wants_annotations:
        builder.ledger.warn(TIMESTAMPS.format(", ".join(list(sessions)[:3])))
    labels = sets[0] if sets and not differ and not binary else None
    return builder.finish(labels=labels, label_form="text" if differ else "auto", repeats="last")


def _options(record: Record) -> dict[str, str]:
    """The text of each of a record's options, by its id."""
    return {str(each.get("id")): str(each.get("text", each.get("id"))) for each in record.objects("options")}


def _answer(record: Record, texts: dict[str, str], binary: list[str]) -> list[Any] | str:
    """What was answered, or the reason for which the record is left out."""
    answer = record.get("answer", "accept")
    if answer not in ("accept", "reject", "ignore"):
        raise record.error(f"the answer must be accept, reject or ignore, not {answer!r}.")
    if answer == "ignore":
        return IGNORED
    if "accept" in record:
        return (
            REJECTED if answer == "reject" else [texts.get(str(each), str(each)) for each in record.values_of("accept")]
        )
    if record.value("label") is None:
        return NEITHER
    label = str(record["label"])
    if answer == "accept":
        return [label]
    if len(binary) > 2:
        return NOT_THIS
    return [next((other for other in binary if other != label), f"not {label}")]
