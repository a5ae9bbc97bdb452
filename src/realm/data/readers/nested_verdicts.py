"""Verdicts of judges nested in one record per item, by the judge's name or as a list:

    {"id": "7", "text": "...", "verdicts": {"gpt-4": {"label": "A", "rationale": "..."}, "llama": "B"}}
    {"id": "7", "text": "...", "verdicts": [{"judge": "gpt-4", "verdict": "A"}, {"judge": "llama", "verdict": "B"}]}

The other fields of a record have the roles of a plain table's columns. `annotator` names the field that holds the
verdicts where it is called otherwise, or in a list the field with the judge; `label` the field with the verdict.
Rationales and whatever else is said with a verdict are not read, but for its times.

The JSON of LeWiDi ("Learning with Disagreements") is read alike: `annotations` by annotator, or as one text beside that
of the `annotators`, in a list of items or in an object of items by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from realm.data.long_table import LongTable, LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES, TIME_ROLES, listed, resolve_columns
from realm.errors import RealmError

FIELDS = ("verdicts", "judgments", "judgements")
"""What the field with the verdicts is called, as far as it needs no naming."""
LEWIDI = ("annotators", "annotations")
JUDGES = ("judge", "annotator", "model", "name")
"""What the field with the judge of a listed verdict is called; of several the first."""
LABELS = ("label", "verdict", "answer", "choice", "winner", "preference", "rating", "score")
"""What the field with the verdict itself is called; of several the first."""


def matches(file: SourceFile) -> bool:
    return any(_is_lewidi(record) or any(_is_nested(record.get(name)) for name in FIELDS) for record in file.first)


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the records; row n is the nth of the file."""
    source = file.source
    by_id = file.content if isinstance(file.content, dict) and all(map(_is_nested, file.content.values())) else None
    records = file.records() if by_id is None else list(by_id.values())
    ids = None if by_id is None else list(by_id)
    is_lewidi = any(map(_is_lewidi, file.first)) and options.annotator is None
    field = LEWIDI[1] if is_lewidi else _field(file, options)
    names = sorted(name for name in file.names if name != field and not (is_lewidi and name in LEWIDI))
    columns = resolve_columns(options, names, source, ("text", *ITEM_ROLES))
    if "item" not in columns and "id" in names:
        columns["item"] = "id"
    judge = options.annotator if options.annotator != field else None
    builder = LongTableBuilder(options, source)
    for row, record in enumerate(records, 1):
        place = f"{source}, row {row}"
        values = {role: record.get(name) for role, name in columns.items()}
        if ids is not None and "item" not in columns:
            values["item"] = ids[row - 1]
        builder.item(row, {}, **{"item": None, **values, "text": _text(values.get("text"))})
        if not options.wants_annotations:
            continue
        if is_lewidi:
            for name, answers in _lewidi(record, place):
                builder.annotation(name, answers)
            continue
        for name, verdict in _verdicts(record.get(field), judge, place):
            times = {role: verdict.get(role) for role in TIME_ROLES} if isinstance(verdict, Mapping) else {}
            builder.annotation(name, _label(verdict, options.label, f"{place}, {name}"), **times)
    return builder.finish()


def refuse_nested(file: SourceFile, options: ReadOptions) -> None:
    """Refuse a table without a column of annotators, one of whose fields seems to hold their verdicts."""
    names = file.names
    if not options.wants_annotations or (options.annotator or "annotator") in names:
        return
    field = next((name for name in sorted(names) if any(_is_nested(record.get(name)) for record in file.first)), None)
    if field is not None:
        raise file.source.error(
            f"there is no column of annotators, and the field '{field}' holds objects. If these are the "
            f'verdicts of judges on the item, give `format="verdicts"` and `annotator="{field}"`; else write one '
            "record for each annotation."
        )


def _field(file: SourceFile, options: ReadOptions) -> str:
    """The field of the records that holds the verdicts."""
    candidates = FIELDS if options.annotator is None else (options.annotator, *FIELDS)
    for name in candidates:
        if any(_is_nested(record.get(name)) for record in file.first):
            return name
    raise file.source.error(
        "no field holds verdicts, objects by judge or a list of them. Name it with `annotator`; there "
        f"are: {listed(sorted(file.names))}."
    )


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _verdicts(value: Any, judge: str | None, place: str) -> list[tuple[str, Any]]:
    """(judge, verdict) of a record, none where it has none."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [(str(name), verdict) for name, verdict in value.items()]
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise RealmError(f"{place}: the verdicts should be an object by judge or a list of objects.")
    verdicts = []
    for each in value:
        field = _first(each, (judge,) if judge is not None else JUDGES)
        if field is None or each[field] in (None, ""):
            wanted = f"'{judge}'" if judge is not None else "a judge"
            raise RealmError(
                f"{place}: a verdict without {wanted}. Its fields are: {listed(sorted(each))}. Name the one with the "
                "judge with `annotator`."
            )
        verdicts.append((str(each[field]), each))
    return verdicts


def _label(verdict: Any, field: str | None, place: str) -> Any:
    """The label that a verdict is or holds; None where it says nothing."""
    if isinstance(verdict, Mapping):
        name = _first(verdict, (field,) if field is not None else LABELS)
        if name is None:
            raise RealmError(
                f"{place}: no verdict in the fields {listed(sorted(verdict))}. Name the one that holds it with `label`."
            )
        verdict = verdict[name]
    if isinstance(verdict, Mapping):
        raise RealmError(f"{place}: an object where the verdict should be: {listed(sorted(verdict))}.")
    return verdict


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in fields), None)


# ---------------------------------------------------------------- LeWiDi


def _is_lewidi(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("annotators"), str) and isinstance(record.get("annotations"), str | Mapping)


def _text(value: Any) -> Any:
    """A text of several parts (a post and its reply, two questions) becomes one part per line, under its name."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {part}" for name, part in value.items() if part)
    return value


def _lewidi(record: Mapping[str, Any], place: str) -> list[tuple[str, list[str]]]:
    """(annotator, answers) of a record; several answers of one are joined by commas."""
    labels = record.get("annotations")
    if isinstance(labels, Mapping):
        return [
            (str(name), [str(part).strip() for part in (each if isinstance(each, list) else str(each).split(","))])
            for name, each in labels.items()
        ]
    annotators = [name.strip() for name in str(record.get("annotators") or "").split(",") if name.strip()]
    answers = [part.strip() for part in str(labels or "").split(",")] if labels else []
    if len(answers) != len(annotators):
        raise RealmError(f"{place}: {len(annotators)} annotators and {len(answers)} annotations.")
    return [(name, [answer]) for name, answer in zip(annotators, answers, strict=True)]
