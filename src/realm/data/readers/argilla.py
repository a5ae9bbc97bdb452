"""Argilla 2 records, flattened (`records.to_list(flatten=True)`, `to_datasets()`) or nested.

Only submitted responses count. The nested form does not say which were submitted, which is warned of.
"""

from __future__ import annotations

from typing import Any

from realm.data.long_table import LongTable
from realm.data.readers.exports import Export
from realm.data.readers.files import Record, SourceFile

RESPONSES, USERS, STATUS = ".responses", ".responses.users", ".responses.status"
NESTED = (
    "Nested Argilla records do not say which responses were submitted: drafts and discarded ones may be among them. "
    "Export with records.to_list(flatten=True) to leave them out."
)
RECORD_FIELDS = {"id", "status", "_server_id", "responses", "suggestions", "vectors", "metadata", "fields"}


def matches(file: SourceFile) -> bool:
    return any(name.endswith(USERS) for name in file.names) or any(_nested(record) for record in file.first)


def _nested(record: dict[str, Any]) -> dict[str, Any]:
    """The responses of a nested record by question; empty where it is none."""
    responses = record.get("responses")
    if not isinstance(responses, dict):
        return {}
    lists = [answers for answers in responses.values() if answers]
    fits = all(
        isinstance(answers, list) and all(isinstance(r, dict) and {"value", "user_id"} <= r.keys() for r in answers)
        for answers in lists
    )
    return responses if fits else {}


def read(export: Export) -> LongTable:
    """Read the records; row n is record n."""
    records, names, builder = export.file.records(), export.file.names, export.builder
    wants_annotations = export.options.wants_annotations
    questions, texts, metadata = (
        sorted(name.removesuffix(USERS) for name in names if name.endswith(USERS)),
        records,
        records,
    )
    is_flat = bool(questions)
    if not is_flat:
        questions = list(dict.fromkeys(name for record in records for name in _nested(record)))
        texts = [record.object("fields") or record for record in records]
        metadata = [record.object("metadata") for record in records]
    question = export.pick("label", questions) if wants_annotations else questions[0]
    if wants_annotations and not is_flat:
        builder.ledger.warn(NESTED)
    answers = {name for name in names if ".responses" in name or ".suggestion" in name}
    text = export.pick_text(texts, exclude=RECORD_FIELDS | answers)
    for record, fields, others in zip(records, texts, metadata, strict=True):
        builder.item(record.row, {**others, **fields}, item=record.get("id"), text=fields.value(text))
        responses = _responses(record, question, is_flat) if wants_annotations else []
        for user, value, status in responses:
            if status != "submitted":
                builder.drop(f"response not submitted ({status or 'no status'})")
            elif any(isinstance(part, dict | list) for part in (value if isinstance(value, list) else [value])):
                raise record.error(f"the question '{question}' is not answered by labels (a ranking or spans?).")
            else:
                builder.annotation(user, value)
    return builder.finish(repeats="last")


def _responses(record: Record, question: str, is_flat: bool) -> list[tuple[Any, Any, Any]]:
    """(user, value, status) of each response."""
    if not is_flat:
        responses = record.object("responses").objects(question)
        return [(response.get("user_id"), response.get("value"), "submitted") for response in responses]
    values, users = record.values_of(question + RESPONSES), record.values_of(question + USERS)
    statuses = record.values_of(question + STATUS) or [None] * len(values)
    if not len(values) == len(users) == len(statuses):
        raise record.error(
            f"'{question}' has {len(values)} responses, {len(users)} users and {len(statuses)} statuses; they must be "
            "as many."
        )
    return list(zip(users, values, statuses, strict=True))
