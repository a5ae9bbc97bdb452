"""Label Studio: JSON (tasks with their annotations), JSON-MIN and CSV (one record per annotation).

Cancelled annotations are dropped, an annotation marked as ground truth is the item's gold and not an annotation, and of
several annotations by one annotator the last counts. Predictions are not read.
"""

from __future__ import annotations

import json
from typing import Any

from realm.data.long_table import LongTable
from realm.data.readers.exports import Export
from realm.data.readers.files import Record, SourceFile
from realm.data.roles import ITEM_ROLES
from realm.files import RepeatedKey, parse_json

CANCELLED = "cancelled annotation (was_cancelled or skipped)"
GROUND_TRUTH = "ground truth: read as gold, not as an annotation"
NO_TRUTH = (
    "JSON-MIN and CSV do not say which annotations are ground truth: they count as annotations. "
    "Export as JSON to have them read as gold."
)
PRIORITY, ASK = "realm_priority", "realm_ask"
"""The data fields that `realm label-studio push` writes: what to label again first, and whom to ask. Not data."""
RECORD_FIELDS = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "agreements"}
RECORD_FIELDS |= {"completed_by", "was_cancelled", "ground_truth", "predictions", "meta", "project", PRIORITY, ASK}


def matches(file: SourceFile) -> bool:
    return any(
        isinstance(record.get("data"), dict) and isinstance(record.get("annotations", record.get("completions")), list)
        for record in file.first
    )


def read(export: Export) -> LongTable:
    """Read the full JSON export; row n is task n of the list."""
    tasks, builder = export.file.records(), export.builder
    datas, histories = [task.object("data") for task in tasks], [_annotations(task) for task in tasks]
    controls = dict.fromkeys(name for history in histories for each in history for name in each["result"])
    control = export.pick("label", controls) if export.options.wants_annotations or controls else ""
    text = export.pick_text(datas, exclude=(PRIORITY, ASK))
    for task, data, history in zip(tasks, datas, histories, strict=True):
        counted = [each for each in history if not (each.get("was_cancelled") or each.get("skipped"))]
        truths = [each["result"].get(control, []) for each in counted if each.get("ground_truth") is True]
        gold = [answers[0] for answers in truths if len(answers) == 1]
        known = {"gold": gold[-1]} if gold else {}
        builder.item(task.row, data, item=task.value("id"), text=data.value(text), **known)
        for each in history:
            if each not in counted:
                builder.drop(CANCELLED)
            elif each.get("ground_truth") is True:
                builder.drop(GROUND_TRUTH)
            else:
                answers = each["result"].get(control, [])
                builder.annotation(_annotator(each.get("completed_by")), answers, **_times(each))
    return builder.finish(repeats="last")


def _annotations(task: Record) -> list[Record]:
    """A task's annotations with the answers to each question in place of their `result`, oldest first, so that the last
    of one annotator's annotations is their latest."""
    annotations = task.objects("annotations" if "annotations" in task else "completions")
    for annotation in annotations:
        answers: dict[str, list[Any]] = {}
        for result in annotation.values_of("result"):
            value = result.get("value") if isinstance(result, dict) else None
            if isinstance(value, dict):  # a result of another kind, such as a region, has neither of these
                rating = [value["rating"]] if isinstance(value.get("rating"), int) else None
                values = value.get("choices", rating)
                if values is not None and not isinstance(values, list):
                    raise task.error("the field 'choices' should have a list.")
                if values is not None:
                    answers.setdefault(str(result.get("from_name")), []).extend(values)
        annotation["result"] = answers
    has_times = all(isinstance(_time(annotation), str) for annotation in annotations)
    return sorted(annotations, key=_time) if has_times else annotations


def _time(record: Record) -> Any:
    return record.get("updated_at") or record.get("created_at")


def _times(record: Record) -> dict[str, Any]:
    """When the annotation was first submitted, and the seconds that it took; what is no plain value is left out."""
    values = {name: record.get(name) for name in ("created_at", "lead_time")}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}


def _annotator(completed_by: Any) -> Any:
    if isinstance(completed_by, dict):
        return completed_by.get("email") or completed_by.get("username") or completed_by.get("id")
    return completed_by


# ---------------------------------------------------------------- JSON-MIN and CSV


def matches_min(file: SourceFile) -> bool:
    return {"annotation_id", "annotator", "lead_time"} <= file.names and "data" not in file.names


def read_min(export: Export) -> LongTable:
    """Read JSON-MIN or CSV: one record per annotation; tasks without annotations are records without an annotator."""
    records, options, builder = export.file.records(), export.options, export.builder
    text = export.pick_text(records, exclude=RECORD_FIELDS, usual=("text", "_data_text"))
    others = {*RECORD_FIELDS, text, *options.columns(ITEM_ROLES).values()}
    candidates = [name for name in dict.fromkeys(name for each in records for name in each) if name not in others]
    if options.label is None and len(answers := _varying(records, candidates)) == 1:
        candidates = answers
    label = ""
    if options.wants_annotations:
        label = export.pick("label", candidates)
        builder.ledger.warn(NO_TRUTH)
    first_rows: dict[str, int] = {}
    for record in records:
        first_rows.setdefault(str(record.get("id")), record.row)
    # those of one task together, oldest first
    for record in sorted(records, key=lambda each: (first_rows[str(each.get("id"))], str(_time(each) or ""))):
        builder.item(record.row, record, item=record.value("id"), text=record.value(text))
        annotator = _decoded(record, options.annotator or "annotator")
        if annotator in (None, "") and record.get("annotation_id") in (None, ""):
            continue
        if record.get("was_cancelled") in (True, "true", "True"):
            builder.drop(CANCELLED)
        else:
            answer = _decoded(record, label)
            answer = answer.get("choices", answer.get("rating")) if isinstance(answer, dict) else answer
            builder.annotation(_annotator(annotator), answer, **_times(record))
    return builder.finish(repeats="last")


def _varying(records: list[Record], fields: list[str]) -> list[str]:
    """The fields that differ between annotations of one task: answers do, the task's own data cannot."""
    first_values: dict[tuple[str, str], str] = {}
    varying: dict[str, None] = {}
    for record in records:
        for name in fields:
            value = json.dumps(record.get(name), sort_keys=True)
            if first_values.setdefault((name, str(record.get("id"))), value) != value:
                varying[name] = None
    return list(varying)


def _decoded(record: Record, field: str) -> Any:
    """CSV cells that are not plain text hold JSON."""
    value = record.get(field)
    if isinstance(value, str) and value.startswith(("[", "{")):
        try:
            return parse_json(value)
        except RepeatedKey as error:
            raise record.error(f"field '{field}': {error}.") from None
        except (ValueError, RecursionError):
            return value
    return value
