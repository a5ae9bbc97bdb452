"""Argilla 2 records, flattened (`records.to_list(flatten=True)`, `to_datasets()`) or nested.

Only submitted responses count. The nested form does not say which were submitted, which is warned of.
"""

from __future__ import annotations

from typing import Any

from realm.data.readers.fields import list_in, named_fields, object_in, objects_in, pick, refuse_column, value_in
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import LongTable, LongTableBuilder
from realm.data.request import ReadRequest
from realm.errors import RealmError

RESPONSES, USERS, STATUS = ".responses", ".responses.users", ".responses.status"
NOT_SUBMITTED = "response not submitted ({})"
NESTED = (
    "Nested Argilla records do not say which responses were submitted: drafts and discarded ones may be among them. "
    "Export with records.to_list(flatten=True) to leave them out."
)
OF_RECORD = {"id", "status", "_server_id", "responses", "suggestions", "vectors", "metadata", "fields"}


def matches(file: SourceFile) -> bool:
    return bool(_flat_questions(file.names)) or any(_nested(record) is not None for record in file.first)


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the records; row n is record n."""
    records, source = file.records(), file.source
    names = list(dict.fromkeys(name for record in records for name in record))
    refuse_column(request, "annotator", "<question>.responses.users", source)
    builder = LongTableBuilder(request, source)
    if questions := _flat_questions(names):
        _read_flat(records, questions, names, request, builder)
    else:
        if request.wants_annotations:
            builder.ledger.warn(NESTED)
        _read_nested(records, request, builder)
    return builder.finish()


def _flat_questions(names: Any) -> list[str]:
    return [name.removesuffix(USERS) for name in names if isinstance(name, str) and name.endswith(USERS)]


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
    records: list[dict[str, Any]],
    questions: list[str],
    names: list[str],
    request: ReadRequest,
    builder: LongTableBuilder,
) -> None:
    source = builder.source
    question = pick(request.label, "label", questions, source) if request.wants_annotations else questions[0]
    own = OF_RECORD | {n for n in names if ".responses" in n or ".suggestion" in n}
    texts = [n for n in names if n not in own and any(isinstance(record.get(n), str) for record in records)]
    text = pick(request.text, "text", texts, source, usual=("text",))
    named = named_fields(request, names, source)
    for row, record in enumerate(records, 1):
        builder.item(row, **_shown(record, record, text, named, row, source))
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


def _read_nested(records: list[dict[str, Any]], request: ReadRequest, builder: LongTableBuilder) -> None:
    source = builder.source
    questions = list(dict.fromkeys(name for record in records for name in _nested(record) or ()))
    question = pick(request.label, "label", questions, source) if request.wants_annotations else ""
    fields = [_fields(record, row, source) for row, record in enumerate(records, 1)]
    named = named_fields(request, {name for shown in fields for name in shown}, source)
    texts = list(
        dict.fromkeys(
            name
            for row, record in enumerate(records, 1)
            for name, value in (object_in(record, "fields", row, source) or record).items()
            if isinstance(value, str) and name not in OF_RECORD
        )
    )
    text = pick(request.text, "text", texts, source, usual=("text",))
    for row, (record, shown) in enumerate(zip(records, fields, strict=True), 1):
        builder.item(row, **_shown(record, shown, text, named, row, source))
        for response in objects_in(object_in(record, "responses", row, source), question, row, source):
            builder.annotation(response.get("user_id"), _value(response.get("value"), question, row, source))


def _fields(record: dict[str, Any], row: int, source: str) -> dict[str, Any]:
    """What the record shows and what is known of it, in one."""
    return {**object_in(record, "metadata", row, source), **(object_in(record, "fields", row, source) or record)}


def _shown(
    record: dict[str, Any], fields: dict[str, Any], text: str, named: dict[str, str], row: int, source: str
) -> dict[str, Any]:
    shown = {"item": record.get("id"), "text": value_in(fields, text, row, source)}
    return shown | {role: fields.get(field) for role, field in named.items()}


def _value(value: Any, question: str, row: int, source: str) -> Any:
    """A label, a rating, or a list of labels; rankings and spans are no labels."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict | list) for part in values):
        raise RealmError(
            f"{source}, row {row}: the question '{question}' is not answered by labels (a ranking or spans?)."
        )
    return value
