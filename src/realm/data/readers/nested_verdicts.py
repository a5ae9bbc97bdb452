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

from realm.data.long_table import LongTable
from realm.data.read_options import ReadOptions
from realm.data.readers.exports import Export
from realm.data.readers.files import Record, SourceFile
from realm.data.roles import ITEM_ROLES, TIME_ROLES, listed, resolve_columns

FIELDS = ("verdicts", "judgments", "judgements")
"""What the field with the verdicts is called, as far as it needs no naming."""
LEWIDI = ("annotators", "annotations")
JUDGES = ("judge", "annotator", "model", "name")
LABELS = ("label", "verdict", "answer", "choice", "winner", "preference", "rating", "score")
"""What the fields with the judge of a listed verdict and with the verdict itself are called; of several the first."""


def matches(file: SourceFile) -> bool:
    return any(_is_lewidi(record) or any(_is_nested(record.get(name)) for name in FIELDS) for record in file.first)


def refuse_unnamed(file: SourceFile, options: ReadOptions) -> None:
    """Refuse a plain table without a column of annotators, one of whose fields seems to hold their verdicts."""
    if not options.wants_annotations or (options.annotator or "annotator") in file.names:
        return
    nested = [name for name in sorted(file.names) if any(_is_nested(record.get(name)) for record in file.first)]
    if nested:
        raise file.source.error(
            f"there is no column of annotators, and the field '{nested[0]}' holds objects. If these are the verdicts "
            f'of judges on the item, give `format="verdicts"` and `annotator="{nested[0]}"`.'
        )


def _is_lewidi(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("annotators"), str) and isinstance(record.get("annotations"), str | dict)


def _is_nested(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def read(export: Export) -> LongTable:
    """Read the records; row n is the nth of the file."""
    file, options, source, builder = export.file, export.options, export.source, export.builder
    is_lewidi = any(map(_is_lewidi, file.first)) and options.annotator is None
    usual = [
        name for name in (options.annotator or "", *FIELDS) if any(_is_nested(each.get(name)) for each in file.first)
    ]
    field = LEWIDI[1] if is_lewidi else next(iter(usual), None)
    if field is None:
        raise source.error(
            "no field holds verdicts, objects by judge or a list of them. Name it with `annotator`; there "
            f"are: {listed(sorted(file.names))}."
        )
    names = sorted(file.names - {field, *(LEWIDI if is_lewidi else ())})
    columns = resolve_columns(options, names, source, ("text", *ITEM_ROLES))
    if "item" not in columns and "id" in names:
        columns["item"] = "id"
    for record in file.records():
        values = {role: record.get(name) for role, name in columns.items()}
        builder.item(record.row, {}, **{"item": None, **values, "text": _text(values.get("text"))})
        if not options.wants_annotations:
            continue
        if is_lewidi:
            for name, answers in _lewidi(record):
                builder.annotation(name, answers)
            continue
        for name, verdict in _verdicts(record, field, options.annotator if options.annotator != field else None):
            times = {role: verdict.get(role) for role in TIME_ROLES} if isinstance(verdict, dict) else {}
            builder.annotation(name, _label(record, name, verdict, options.label), **times)
    return builder.finish()


def _verdicts(record: Record, field: str, judge: str | None) -> list[tuple[str, Any]]:
    """(judge, verdict) of a record, none where it has none."""
    if isinstance(record.get(field), dict):
        return list(record[field].items())
    verdicts = []
    for each in record.objects(field):
        name = next((name for name in ((judge,) if judge else JUDGES) if name in each), "")
        if each.get(name) in (None, ""):
            raise record.error(
                f"a verdict without {judge or 'a judge'}. Its fields are: {listed(sorted(each))}. Name the one with "
                "the judge with `annotator`."
            )
        verdicts.append((str(each[name]), each))
    return verdicts


def _label(record: Record, judge: str, verdict: Any, field: str | None) -> Any:
    """The label that a verdict is or holds; None where it says nothing."""
    if not isinstance(verdict, dict):
        return verdict
    name = next((name for name in ((field,) if field else LABELS) if name in verdict), None)
    if name is None or isinstance(verdict[name], dict):
        raise record.error(
            f"{judge}: no verdict in the fields {listed(sorted(verdict))}. Name the one that holds it with `label`."
        )
    return verdict[name]


def _text(value: Any) -> Any:
    """A text of several parts (a post and its reply, two questions) becomes one part per line, under its name."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {part}" for name, part in value.items() if part)
    return value


def _lewidi(record: Record) -> list[tuple[str, list[str]]]:
    """(annotator, answers) of a record; several answers of one are joined by commas."""
    labels = record.get("annotations")
    if isinstance(labels, dict):
        return [(name, each if isinstance(each, list) else _parts(str(each))) for name, each in labels.items()]
    annotators = [name for name in _parts(str(record.get("annotators") or "")) if name]
    answers = _parts(str(labels)) if labels else []
    if len(answers) != len(annotators):
        raise record.error(f"{len(annotators)} annotators and {len(answers)} annotations.")
    return [(name, [answer]) for name, answer in zip(annotators, answers, strict=True)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]
