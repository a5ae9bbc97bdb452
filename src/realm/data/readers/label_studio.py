"""Label Studio: JSON (tasks with their annotations), JSON-MIN and CSV (one record per annotation).

Cancelled annotations are dropped, an annotation marked as ground truth is the item's gold and not an annotation, and of
several annotations by one annotator the last counts. Predictions are not read.
"""

from __future__ import annotations

import json
from itertools import chain
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
from realm.files import RepeatedKey, parse_json

CANCELLED = "cancelled annotation (was_cancelled or skipped)"
GROUND_TRUTH = "ground truth: read as gold, not as an annotation"
NO_TRUTH = (
    "JSON-MIN and CSV do not say which annotations are ground truth: they count as annotations. "
    "Export as JSON to have them read as gold."
)
RECORD_FIELDS = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "agreements"}
RECORD_FIELDS |= {"completed_by", "was_cancelled", "ground_truth", "predictions", "meta", "project"}
PRIORITY, ASK = "realm_priority", "realm_ask"
"""The data fields that `realm label-studio push` writes: what to label again first, and whom to ask. Not data."""


def matches(file: SourceFile) -> bool:
    return any(
        isinstance(record.get("data"), dict) and isinstance(record.get("annotations", record.get("completions")), list)
        for record in file.first
    )


def matches_min(file: SourceFile) -> bool:
    return {"annotation_id", "annotator", "lead_time"} <= file.names and "data" not in file.names


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the full JSON export; row n is task n of the list."""
    tasks, source = file.records(), file.source
    datas = [object_in(task, "data", row, source) for row, task in enumerate(tasks, 1)]
    histories = [_in_order(task, row, source) for row, task in enumerate(tasks, 1)]
    refuse_column(options, "annotator", "completed_by", source)
    check_fields(options, ITEM_ROLES, {name for data in datas for name in data}, source)
    controls = _controls(histories, source)
    control = pick(options, "label", controls, source) if options.wants_annotations or controls else ""
    text = pick_text(options, datas, source, exclude=(PRIORITY, ASK))
    builder = LongTableBuilder(options, source)
    for row, (task, data, history) in enumerate(zip(tasks, datas, histories, strict=True), 1):
        truths = [_answers(annotation, control, row, source) for annotation in history if _is_truth(annotation)]
        gold = [answers[0] for answers in truths if len(answers) == 1]
        item = value_in(task, "id", row, source)
        text_value = value_in(data, text, row, source)
        builder.item(row, data, item=item, text=text_value, **({"gold": gold[-1]} if gold else {}))
        for annotation in history:
            if _cancelled(annotation):
                builder.drop(CANCELLED)
            elif _is_truth(annotation):
                builder.drop(GROUND_TRUTH)
            else:
                annotator = _annotator(annotation.get("completed_by"))
                builder.annotation(annotator, _answers(annotation, control, row, source), **_times(annotation))
    return builder.finish(repeats="last")


def _in_order(task: dict[str, Any], row: int, source: Source) -> list[dict[str, Any]]:
    """A task's annotations, oldest first, so that the last of one annotator's annotations is their latest."""
    annotations = objects_in(task, "annotations" if "annotations" in task else "completions", row, source)
    has_times = all(isinstance(_time(annotation), str) for annotation in annotations)
    return sorted(annotations, key=_time) if has_times else annotations


def _time(record: dict[str, Any]) -> Any:
    return record.get("updated_at") or record.get("created_at")


def _times(record: dict[str, Any]) -> dict[str, Any]:
    """When the annotation was first submitted, and the seconds that it took; what is no plain value is left out."""
    values = {name: record.get(name) for name in ("created_at", "lead_time")}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}


def _controls(histories: list[list[dict[str, Any]]], source: Source) -> list[str]:
    """The questions that were answered by a choice."""
    controls: dict[str, None] = {}
    for row, history in enumerate(histories, 1):
        for annotation in history:
            for result in objects_in(annotation, "result", row, source):
                if _values(result, row, source) is not None:
                    controls[str(result.get("from_name"))] = None
    return list(controls)


def _values(result: dict[str, Any], row: int, source: Source) -> list[Any] | None:
    """The choices or the rating of a result; None for a result of another kind, such as a region."""
    value = result.get("value")
    if not isinstance(value, dict):
        return None
    if "choices" in value:
        return list_in(value, "choices", row, source)
    return [value["rating"]] if isinstance(value.get("rating"), int) else None


def _answers(annotation: dict[str, Any], control: str, row: int, source: Source) -> list[Any]:
    answers: list[Any] = []
    for result in objects_in(annotation, "result", row, source):
        if str(result.get("from_name")) == control:
            answers.extend(_values(result, row, source) or ())
    return answers


def _cancelled(annotation: dict[str, Any]) -> bool:
    return bool(annotation.get("was_cancelled") or annotation.get("skipped"))


def _is_truth(annotation: dict[str, Any]) -> bool:
    return annotation.get("ground_truth") is True and not _cancelled(annotation)


def _annotator(completed_by: Any) -> Any:
    if isinstance(completed_by, dict):
        return completed_by.get("email") or completed_by.get("username") or completed_by.get("id")
    return completed_by


def read_min(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read JSON-MIN or CSV: one record per annotation; tasks without annotations are records without an annotator."""
    records, source = file.records(), file.source
    text = pick_text(options, records, source, exclude=RECORD_FIELDS | {PRIORITY, ASK}, usual=("text", "_data_text"))
    check_fields(options, (*ITEM_ROLES, "annotator"), file.names, source)
    other_fields = RECORD_FIELDS | {PRIORITY, ASK, text, *options.columns(ITEM_ROLES).values()}
    candidates = [name for name in dict.fromkeys(chain.from_iterable(records)) if name not in other_fields]
    if options.label is None and len(answers := _varying(records, candidates)) == 1:
        candidates = answers
    label = pick(options, "label", candidates, source) if options.wants_annotations else ""
    builder = LongTableBuilder(options, source)
    if options.wants_annotations:
        builder.ledger.warn(NO_TRUTH)
    for row, record in _by_time(records):
        item = value_in(record, "id", row, source)
        builder.item(row, record, item=item, text=value_in(record, text, row, source))
        annotator = _decoded(record, options.annotator or "annotator", row, source)
        if annotator in (None, "") and record.get("annotation_id") in (None, ""):
            continue
        if record.get("was_cancelled") in (True, "true", "True"):
            builder.drop(CANCELLED)
        else:
            choices = _choices(_decoded(record, label, row, source))
            builder.annotation(_annotator(annotator), choices, **_times(record))
    return builder.finish(repeats="last")


def _varying(records: list[dict[str, Any]], fields: list[str]) -> list[str]:
    """The fields that differ between annotations of one task: answers do, the task's own data cannot."""
    first_values: dict[tuple[str, str], str] = {}
    varying: dict[str, None] = {}
    for record in records:
        for name in fields:
            value = json.dumps(record.get(name), sort_keys=True)
            if first_values.setdefault((name, str(record.get("id"))), value) != value:
                varying[name] = None
    return list(varying)


def _by_time(records: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Rows with their records, those of one task together and oldest first."""
    first_rows: dict[str, int] = {}
    for row, record in enumerate(records, 1):
        first_rows.setdefault(str(record.get("id")), row)
    by_row = enumerate(records, 1)
    return sorted(by_row, key=lambda entry: (first_rows[str(entry[1].get("id"))], str(_time(entry[1]) or "")))


def _decoded(record: dict[str, Any], field: str, row: int, source: Source) -> Any:
    """CSV cells that are not plain text hold JSON."""
    value = record.get(field)
    if isinstance(value, str) and value.startswith(("[", "{")):
        try:
            return parse_json(value)
        except RepeatedKey as error:
            raise RealmError(f"{source}, row {row}: field '{field}': {error}.") from None
        except (ValueError, RecursionError):
            return value
    return value


def _choices(value: Any) -> Any:
    return value.get("choices", value.get("rating")) if isinstance(value, dict) else value
