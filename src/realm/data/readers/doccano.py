"""doccano: one file per annotator, whose name is the file's; a zip, a folder or one such file.

A collaborative project exports one `all.jsonl` without any annotator, which nothing can be learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from realm.data.ledger import Ledger
from realm.data.long_table import LongTable, LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import check_fields, objects_in, refuse_column, value_in
from realm.data.readers.files import SUFFIXES, SourceFile
from realm.data.roles import ITEM_ROLES, listed
from realm.data.source import Source
from realm.errors import RealmError

UNLABELLED = "example not labelled by this annotator"
OLD_KEYS = {"label", "user"}
OWN_FIELDS = {"id", "text", "label", "Comments", "annotations", "meta", "annotation_approver"}
"""Fields that doccano itself writes; others are the metadata of an example."""
ANNOTATOR_FIELDS = {"annotator", "annotator_id", "worker", "worker_id", "rater", "rater_id", "user", "user_id", "coder"}
ANNOTATOR_FIELDS |= {"labeller", "labeler", "annotators"}
COLLABORATIVE = (
    "{}: this is doccano's export of a project with shared annotations (all.jsonl): it does not say who gave which "
    "label. Turn off 'Share annotations across all users' in the project's settings and export again: the zip then "
    "has one file per annotator."
)


def matches(file: SourceFile) -> bool:
    """Lines with id, text and a list of labels, and no field for the annotator; nothing else says it is doccano's."""
    if _names_annotator(file) or "_input_hash" in file.names or isinstance(file.content, pa.Table):
        return False
    return bool(file.first) and all(_is_doccano(record) for record in file.first)


def may_be(file: SourceFile) -> bool:
    """Whether a file may be one annotator's: an id, a label, no field that names an annotator, and no id twice."""
    if _names_annotator(file) or not {"id", "label"} <= file.names or isinstance(file.content, dict):
        return False
    ids = [str(record.get("id")) for record in file.records()]
    return len(set(ids)) == len(ids)


def _names_annotator(file: SourceFile) -> bool:
    return bool(ANNOTATOR_FIELDS & {name.lower() for name in file.names})


def _is_doccano(record: dict[str, Any]) -> bool:
    if isinstance(record.get("label"), list) and "text" in record and "id" in record:
        return all(isinstance(label, str) for label in record["label"])
    old = record.get("annotations")
    return isinstance(old, list) and "text" in record and all(isinstance(a, dict) and a.keys() >= OLD_KEYS for a in old)


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the file of one annotator, or an old export that names its users by number."""
    return read_files([file], file.source, options)


def read_files(files: Sequence[SourceFile], source: Source, options: ReadOptions) -> LongTable:
    """Read files, one per annotator; rows are counted through them."""
    refuse_column(options, "annotator", "the name of the file", source)
    check_fields(options, ("text",), frozenset().union(*(file.names for file in files)), source)
    text = options.text or "text"
    builder = LongTableBuilder(options, source)
    annotators = _annotators(files, source, builder.ledger)
    shift = 0
    for file, name in zip(files, annotators, strict=True):
        records, is_csv = file.records(), isinstance(file.content, pa.Table)
        is_old = any("annotations" in record for record in records)
        check_fields(options, ITEM_ROLES, file.names, file.source)
        if is_old:
            refuse_column(options, "label", "in annotations", file.source)
        else:
            check_fields(options, ("label",), file.names, file.source)
        if name.rpartition("/")[2] == "all" and not is_old and options.wants_annotations:
            raise RealmError(COLLABORATIVE.format(file.source))
        for row, record in enumerate(records, shift + 1):
            item = value_in(record, "id", row, file.source)
            builder.item(row, record, item=item, text=value_in(record, text, row, file.source))
            if is_old:
                for annotation in objects_in(record, "annotations", row, file.source):
                    builder.annotation(annotation.get("user"), annotation.get("label"))
            elif labels := _labels(record, options.label or "label", row, file.source, is_csv):
                builder.annotation(name, labels)
            else:
                builder.drop(UNLABELLED)
        shift += len(records)
    if len(files) > 1:
        builder.ledger.warn("Rows are counted through the files in the order of their names.")
    used = {*OWN_FIELDS, text, *options.columns((*ITEM_ROLES, "label")).values()}
    others = sorted(frozenset().union(*(file.names for file in files)) - used)
    if others and options.wants_annotations and not any("annotations" in file.names for file in files):
        builder.ledger.warn(
            f"The annotator is the name of the file ({listed(annotators)}); these fields were not read: "
            f'{listed(others)}. If one of them is the annotator, name it with `annotator` and give `format="table"`.'
        )
    return builder.finish(repeats="last")


def _annotators(files: Sequence[SourceFile], source: Source, ledger: Ledger) -> list[str]:
    """The annotator of each file: its name, and its folder too where a name is in several folders."""
    paths = [PurePosixPath(file.member or file.path.name) for file in files]
    stems = [_stem(path.name) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    names = [
        stem if path.parent == PurePosixPath() else f"{path.parent}/{stem}"
        for path, stem in zip(paths, stems, strict=True)
    ]
    for index, name in enumerate(names):
        if (first := names.index(name)) < index:
            raise RealmError(
                f"{source}: two files of one annotator, {name}: {paths[first]} and {paths[index]}. Keep one of them."
            )
    ledger.warn("Files in different folders have the same name: each is an annotator, called after folder and file.")
    return names


def _stem(name: str) -> str:
    """The name of a file without the endings that say what it holds."""
    path = Path(name[: -len(".gz")] if name.lower().endswith(".gz") else name)
    return path.stem if path.suffix.lower() in SUFFIXES else path.name


def _labels(record: dict[str, Any], field: str, row: int, source: Source, is_csv: bool) -> list[str]:
    """Labels are a list; in CSV they are joined by #. Spans ([start, end, label]) are not labels of a text."""
    labels = record.get(field)
    if isinstance(labels, str):
        return _split(labels, row, source) if is_csv else [labels] if labels else []
    if labels is None:
        return []
    if not isinstance(labels, list) or any(isinstance(label, list | dict) for label in labels):
        raise RealmError(f"{source}, row {row}: '{field}' holds spans, not labels of the whole text.")
    return labels


def _split(cell: str, row: int, source: Source) -> list[str]:
    """The labels in a cell. No label is empty: one # at an end belongs to a label, such as C#."""
    labels = cell.split("#")
    if all(labels):
        return labels
    if len(labels) > 2:  # C##Java is C# and Java, or C and #Java
        raise RealmError(
            f"{source}, row {row}: '{cell}': labels are joined by # and have one themselves, so that they cannot be "
            "told apart. Export JSONL."
        )
    return [cell] if cell else []
