"""doccano: one file per annotator, whose name is the file's; a zip, a folder or one such file.

A collaborative project exports one `all.jsonl` without any annotator, which nothing can be learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from realm.data.readers.collect import Asked, Collector, Long, check_fields, named_fields, refuse_flag
from realm.data.readers.files import SUFFIXES, Opened
from realm.data.readers.shapes import objects_in, value_in
from realm.errors import RealmError

UNLABELLED = "example not labelled by this annotator"
OLD_KEYS = {"label", "user"}
PEOPLE = {"annotator", "annotator_id", "worker", "worker_id", "rater", "rater_id", "user", "user_id", "coder"}
PEOPLE |= {"labeller", "labeler", "annotators"}
COLLABORATIVE = (
    "{}: this is doccano's export of a project with shared annotations (all.jsonl): it does not say who gave which "
    "label. Turn off 'Share annotations across all users' in the project's settings and export again: the zip then "
    "has one file per annotator."
)


def matches(opened: Opened) -> bool:
    """Lines with id, text and a list of labels, and no field for the annotator; nothing else says it is doccano's."""
    if not may_be(opened) or "_input_hash" in opened.names or isinstance(opened.content, pa.Table):
        return False
    return bool(opened.first) and all(_is_example(record) for record in opened.first)


def may_be(opened: Opened) -> bool:
    """Whether a file may be one annotator's: no field in it names one."""
    return not PEOPLE & {name.lower() for name in opened.names}


def _is_example(record: dict[str, Any]) -> bool:
    if isinstance(record.get("label"), list) and "text" in record and "id" in record:
        return all(isinstance(label, str) for label in record["label"])
    old = record.get("annotations")
    return isinstance(old, list) and "text" in record and all(isinstance(a, dict) and a.keys() >= OLD_KEYS for a in old)


def read(opened: Opened, asked: Asked) -> Long:
    """Read the file of one annotator, or an old export that names its users by number."""
    return read_files([opened], opened.source, asked)


def read_files(files: Sequence[Opened], source: str, asked: Asked) -> Long:
    """Read files, one per annotator; rows are counted through them."""
    refuse_flag(asked, "annotator", "the name of the file", source)
    check_fields(asked, ("text",), frozenset().union(*(opened.names for opened in files)), source)
    text = asked.text or "text"
    collector = Collector(asked, source)
    shift = 0
    for opened in files:
        name, records = _annotator(opened), opened.records()
        old = any("annotations" in record for record in records)
        named = named_fields(asked, opened.names, opened.source)
        if old:
            refuse_flag(asked, "label", "in annotations", opened.source)
        else:
            check_fields(asked, ("label",), opened.names, opened.source)
        if name == "all" and not old and asked.need == "annotations":
            raise RealmError(COLLABORATIVE.format(opened.source))
        for row, record in enumerate(records, shift + 1):
            shown = {
                "item": value_in(record, "id", row, opened.source),
                "text": value_in(record, text, row, opened.source),
            }
            collector.item(row, **{**shown, **{role: record.get(field) for role, field in named.items()}})
            if old:
                for annotation in objects_in(record, "annotations", row, opened.source):
                    collector.annotation(annotation.get("user"), annotation.get("label"))
                continue
            labels = _labels(record, asked.label or "label", row, opened.source)
            if labels:
                collector.annotation(name, labels)
            else:
                collector.drop(UNLABELLED)
        shift += len(records)
    if len(files) > 1:
        collector.ledger.warn("Rows are counted through the files in the order of their names.")
    return collector.finish()


def _annotator(opened: Opened) -> str:
    name = Path(opened.path.name.removesuffix(".gz"))
    return name.stem if name.suffix in SUFFIXES else name.name


def _labels(record: dict[str, Any], field: str, row: int, source: str) -> list[str]:
    """Labels are a list; in CSV they are joined by #. Spans ([start, end, label]) are not labels of a text."""
    labels = record.get(field)
    if isinstance(labels, str):
        return [label for label in labels.split("#") if label]
    if labels is None:
        return []
    if not isinstance(labels, list) or any(isinstance(label, list | dict) for label in labels):
        raise RealmError(f"{source}, row {row}: '{field}' holds spans, not labels of the whole text.")
    return labels
