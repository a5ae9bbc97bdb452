"""doccano: one file per annotator, whose name is the file's; a folder or a list of such files, or one.

A collaborative project exports one `all.jsonl` without any annotator, which nothing can be learned from.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from realm.data.long_table import LongTable
from realm.data.readers.exports import Export
from realm.data.readers.files import SUFFIXES, Record, SourceFile
from realm.data.roles import ITEM_ROLES, listed

UNLABELLED = "example not labelled by this annotator"
OWN_FIELDS = {"id", "text", "label", "Comments", "annotations", "meta", "annotation_approver"}
"""Fields that doccano itself writes; others are the metadata of an example."""
ANNOTATOR_FIELDS = {"annotator", "annotator_id", "annotators", "worker", "worker_id", "rater", "rater_id", "user"}
ANNOTATOR_FIELDS |= {"user_id", "coder", "labeller", "labeler"}
COLLABORATIVE = (
    "this is doccano's export of a project with shared annotations (all.jsonl): it does not say who gave which label. "
    "Turn off 'Share annotations across all users' in the project's settings and export again: the zip then has one "
    "file per annotator."
)


def matches(file: SourceFile) -> bool:
    """Lines with id, text and a list of labels, and no field for the annotator; nothing else says it is doccano's."""
    if isinstance(file.content, pa.Table) or "_input_hash" in file.names or _names_annotator(file):
        return False
    for record in file.first:
        labels, old = record.get("label"), record.get("annotations")
        is_new = "id" in record and isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        is_old = isinstance(old, list) and all(isinstance(each, dict) and {"label", "user"} <= {*each} for each in old)
        if "text" not in record or not (is_new or is_old):
            return False
    return bool(file.first)


def may_be(file: SourceFile) -> bool:
    """Whether a file may be one annotator's: an id, a label, no field that names an annotator, and no id twice."""
    if _names_annotator(file) or not {"id", "label"} <= file.names:
        return False
    ids = [str(record.get("id")) for record in file.records()]
    return len(set(ids)) == len(ids)


def _names_annotator(file: SourceFile) -> bool:
    return bool(ANNOTATOR_FIELDS & {name.lower() for name in file.names})


def read(export: Export, others: Sequence[SourceFile] = ()) -> LongTable:
    """Read files, one per annotator, or an old export that names its users by number; rows are counted through them."""
    options, builder, files = export.options, export.builder, [export.file, *others]
    names, fields = [_annotator(file) for file in files], frozenset().union(*(file.names for file in files))
    if repeated := [name for name in names if names.count(name) > 1]:
        raise export.source.error(f"two files of one annotator, {repeated[0]}. Keep one of them, or rename one.")
    text, is_old = export.pick("text", sorted(fields), usual=("text",)), "annotations" in fields
    label = "" if is_old else export.pick("label", sorted(fields), usual=("label",))
    before = 0
    for file, name in zip(files, names, strict=True):
        if name == "all" and not is_old and options.wants_annotations:
            raise file.source.error(COLLABORATIVE)
        for record in file.records():
            builder.item(before + record.row, record, item=record.value("id"), text=record.value(text))
            if is_old:
                for annotation in record.objects("annotations"):
                    builder.annotation(annotation.get("user"), annotation.get("label"))
            elif labels := _labels(record, label, isinstance(file.content, pa.Table)):
                builder.annotation(name, labels)
            else:
                builder.drop(UNLABELLED)
        before += len(file.content)
    if len(files) > 1:
        builder.ledger.warn("Rows are counted through the files in the order of their names.")
    unread = sorted(fields - {*OWN_FIELDS, text, label, *options.columns(ITEM_ROLES).values()})
    if unread and options.wants_annotations and not is_old:
        builder.ledger.warn(
            f"The annotator is the name of the file ({listed(names)}); these fields were not read: {listed(unread)}. "
            'If one of them is the annotator, name it with `annotator` and give `format="table"`.'
        )
    return builder.finish(repeats="last")


def _annotator(file: SourceFile) -> str:
    """The name of a file without the endings that say what it holds."""
    path = file.path.with_suffix("") if file.path.suffix.lower() == ".gz" else file.path
    return path.stem if path.suffix.lower() in SUFFIXES else path.name


def _labels(record: Record, field: str, is_csv: bool) -> list[str]:
    """Labels are a list; in CSV they are joined by #. Spans ([start, end, label]) are not labels of a text."""
    labels = record.get(field)
    if not labels or (isinstance(labels, str) and not is_csv):
        return [labels] if labels else []
    if isinstance(labels, str):
        parts = labels.split("#")
        if all(parts) or len(parts) == 2:  # no label is empty: one # at an end belongs to a label, such as C#
            return parts if all(parts) else [labels]
        raise record.error(
            f"'{labels}': labels with # in them cannot be told apart, joined by # as they are. Export JSONL."
        )
    if not isinstance(labels, list) or any(isinstance(label, list | dict) for label in labels):
        raise record.error(f"'{field}' holds spans, not labels of the whole text.")
    return labels
