"""Argilla 2 records, flattened (`records.to_list(flatten=True)`, `to_datasets()`) or nested.

Only submitted responses count. The nested form does not say which were submitted, which is warned of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from realm.data.long_table import LongTable, LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import (
    check_fields,
    list_in,
    object_in,
    objects_in,
    pick,
    pick_text,
    refuse_column,
    value_in,
)
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES
from realm.data.source import Source
from realm.errors import RealmError

RESPONSES, USERS, STATUS = ".responses", ".responses.users", ".responses.status"
NOT_SUBMITTED = "response not submitted ({})"
NESTED = (
    "Nested Argilla records do not say which responses were submitted: drafts and discarded ones may be among them. "
    "Export with records.to_list(flatten=True) to leave them out."
)
RECORD_FIELDS = {"id", "status", "_server_id", "responses", "suggestions", "vectors", "metadata", "fields"}


def matches(file: SourceFile) -> bool:
    return bool(_flat_questions(file.names)) or any(_nested(record) is not None for record in file.first)


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the records; row n is record n."""
    records = file.records()
    refuse_column(options, "annotator", "<question>.responses.users", file.source)
    builder = LongTableBuilder(options, file.source)
    if questions := _flat_questions(file.names):
        _read_flat(records, questions, file.names, builder)
    else:
        if options.wants_annotations:
            builder.ledger.warn(NESTED)
        _read_nested(records, builder)
    return builder.finish(repeats="last")


def _flat_questions(names: Iterable[str]) -> list[str]:
    return sorted(name.removesuffix(USERS) for name in names if name.endswith(USERS))


def _nested(record: dict[str, Any]) -> dict[str, Any] | None:
    responses = record.get("responses")
    if not isinstance(responses, dict) or not responses:
        return None
    lists = [answers for answers in responses.values() if answers]
    fits = all(
        isinstance(answers, list) and all(isinstance(r, dict) and {"value", "user_id"} <= r.keys() for r in answers)
        for answers in lists
    )
    return responses if fits else None


def _read_flat(
    records: list[dict[str, Any]], questions: list[str], names: Collection[str], builder: LongTableBuilder
) -> None:
    options, source = builder.options, builder.source
    question = pick(options, "label", questions, source) if options.wants_annotations else questions[0]
    answers = {name for name in names if ".responses" in name or ".suggestion" in name}
    text = pick_text(options, records, source, exclude=RECORD_FIELDS | answers)
    check_fields(options, ITEM_ROLES, names, source)
    for row, record in enumerate(records, 1):
        builder.item(row, record, item=record.get("id"), text=value_in(record, text, row, source))
        values = list_in(record, question + RESPONSES, row, source)
        users = list_in(record, question + USERS, row, source)
        statuses = list_in(record, question + STATUS, row, source) or [None] * len(values)
        if not len(values) == len(users) == len(statuses):
            raise RealmError(
                f"{source}, row {row}: '{question}' has {len(values)} responses, {len(users)} users and "
                f"{len(statuses)} statuses; they must be as many."
            )
        for value, user, status in zip(values, users, statuses, strict=True):
            if status == "submitted":
                builder.annotation(user, _value(value, question, row, source))
            else:
                builder.drop(NOT_SUBMITTED.format(status or "no status"))


def _read_nested(records: list[dict[str, Any]], builder: LongTableBuilder) -> None:
    options, source = builder.options, builder.source
    questions = list(dict.fromkeys(name for record in records for name in _nested(record) or ()))
    question = pick(options, "label", questions, source) if options.wants_annotations else ""
    contents = [object_in(record, "fields", row, source) or record for row, record in enumerate(records, 1)]
    text = pick_text(options, contents, source, exclude=RECORD_FIELDS)
    fields = [
        {**object_in(record, "metadata", row, source), **content}
        for row, (record, content) in enumerate(zip(records, contents, strict=True), 1)
    ]
    check_fields(options, ITEM_ROLES, {name for record in fields for name in record}, source)
    for row, (record, values) in enumerate(zip(records, fields, strict=True), 1):
        builder.item(row, values, item=record.get("id"), text=value_in(values, text, row, source))
        for response in objects_in(object_in(record, "responses", row, source), question, row, source):
            builder.annotation(response.get("user_id"), _value(response.get("value"), question, row, source))


def _value(value: Any, question: str, row: int, source: Source) -> Any:
    """A label, a rating, or a list of labels; rankings and spans are no labels."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict | list) for part in values):
        raise RealmError(
            f"{source}, row {row}: the question '{question}' is not answered by labels (a ranking or spans?)."
        )
    return value
