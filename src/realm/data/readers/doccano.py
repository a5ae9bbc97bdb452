"""doccano: one file per annotator, whose name is the file's; a zip, a folder or one such file.

A collaborative project exports one `all.jsonl` without any annotator, which nothing can be learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from realm.data.readers.fields import check_fields, objects_in, refuse_column, value_in
from realm.data.readers.files import SUFFIXES, SourceFile
from realm.data.readers.long_table import LongTable, LongTableBuilder
from realm.data.roles import ITEM_ROLES, ReadRequest
from realm.errors import RealmError

UNLABELLED = "example not labelled by this annotator"
OLD_KEYS = {"label", "user"}
ANNOTATOR_FIELDS = {"annotator", "annotator_id", "worker", "worker_id", "rater", "rater_id", "user", "user_id", "coder"}
ANNOTATOR_FIELDS |= {"labeller", "labeler", "annotators"}
COLLABORATIVE = (
    "{}: this is doccano's export of a project with shared annotations (all.jsonl): it does not say who gave which "
    "label. Turn off 'Share annotations across all users' in the project's settings and export again: the zip then "
    "has one file per annotator."
)


def matches(file: SourceFile) -> bool:
    """Lines with id, text and a list of labels, and no field for the annotator; nothing else says it is doccano's."""
    if not may_be(file) or "_input_hash" in file.names or isinstance(file.content, pa.Table):
        return False
    return bool(file.first) and all(_is_doccano(record) for record in file.first)


def may_be(file: SourceFile) -> bool:
    """Whether a file may be one annotator's: no field in it names one."""
    return not ANNOTATOR_FIELDS & {name.lower() for name in file.names}


def _is_doccano(record: dict[str, Any]) -> bool:
    if isinstance(record.get("label"), list) and "text" in record and "id" in record:
        return all(isinstance(label, str) for label in record["label"])
    old = record.get("annotations")
    return isinstance(old, list) and "text" in record and all(isinstance(a, dict) and a.keys() >= OLD_KEYS for a in old)


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the file of one annotator, or an old export that names its users by number."""
    return read_files([file], file.source, request)


def read_files(files: Sequence[SourceFile], source: str, request: ReadRequest) -> LongTable:
    """Read files, one per annotator; rows are counted through them."""
    refuse_column(request, "annotator", "the name of the file", source)
    check_fields(request, ("text",), frozenset().union(*(file.names for file in files)), source)
    text = request.text or "text"
    builder = LongTableBuilder(request, source)
    shift = 0
    for file in files:
        name, records = _annotator(file), file.records()
        is_old = any("annotations" in record for record in records)
        check_fields(request, ITEM_ROLES, file.names, file.source)
        if is_old:
            refuse_column(request, "label", "in annotations", file.source)
        else:
            check_fields(request, ("label",), file.names, file.source)
        if name == "all" and not is_old and request.wants_annotations:
            raise RealmError(COLLABORATIVE.format(file.source))
        for row, record in enumerate(records, shift + 1):
            item = value_in(record, "id", row, file.source)
            builder.item(row, record, item=item, text=value_in(record, text, row, file.source))
            if is_old:
                for annotation in objects_in(record, "annotations", row, file.source):
                    builder.annotation(annotation.get("user"), annotation.get("label"))
            elif labels := _labels(record, request.label or "label", row, file.source):
                builder.annotation(name, labels)
            else:
                builder.drop(UNLABELLED)
        shift += len(records)
    if len(files) > 1:
        builder.ledger.warn("Rows are counted through the files in the order of their names.")
    return builder.finish()


def _annotator(file: SourceFile) -> str:
    name = Path(file.path.name.removesuffix(".gz"))
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
