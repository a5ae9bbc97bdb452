"""doccano: one file per annotator, whose name is the file's; a zip, a folder or one such file.

A collaborative project exports one `all.jsonl` without any annotator, which nothing can be learned from.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from realm.annotations.readers.collect import Asked, Collector, Long, named_fields, refuse_annotator
from realm.annotations.readers.files import SUFFIXES, Opened, open_bytes, open_file
from realm.annotations.readers.shapes import objects_in, value_in
from realm.errors import RealmError

UNLABELLED = "example not labelled by this annotator"
OLD_KEYS = {"label", "user"}
COLLABORATIVE = (
    "{}: this is doccano's export of a project with shared annotations (all.jsonl): it does not say who gave which "
    "label. Turn off 'Share annotations across all users' in the project's settings and export again: the zip then "
    "has one file per annotator."
)


def matches(opened: Opened) -> bool:
    """Lines with id, text and a list of labels; nothing else says that it is doccano's."""
    if {"annotator", "_input_hash", "annotators"} & opened.names or isinstance(opened.content, pa.Table):
        return False
    return bool(opened.first) and all(_is_example(record) for record in opened.first)


def _is_example(record: dict[str, Any]) -> bool:
    if isinstance(record.get("label"), list) and "text" in record and "id" in record:
        return all(isinstance(label, str) for label in record["label"])
    old = record.get("annotations")
    return isinstance(old, list) and "text" in record and all(isinstance(a, dict) and a.keys() >= OLD_KEYS for a in old)


def is_export_folder(path: Path) -> bool:
    return path.is_dir() and any(_is_member(child.name) for child in path.iterdir())


def _is_member(name: str) -> bool:
    pure = PurePosixPath(name)
    return pure.suffix in (".jsonl", ".json", ".csv") and not pure.name.startswith(".") and "__MACOSX" not in pure.parts


def read_folder(path: Path, asked: Asked) -> Long:
    """Read a folder of files, one per annotator."""
    files = sorted(child for child in path.iterdir() if child.is_file() and _is_member(child.name))
    return _read([(file.stem, open_file(file)) for file in files], str(path), asked)


def read_zip(path: Path, asked: Asked) -> Long:
    """Read the zip that doccano gives."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if _is_member(name))
            members = {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
        raise RealmError(f"{path}: not a readable zip file ({error}).") from None
    if not members:
        raise RealmError(f"{path}: there is no .jsonl, .json or .csv file in the zip.")
    opened = [
        (PurePosixPath(name).stem, open_bytes(data, path / name, f"{path}, {name}"))
        for name, data in members.items()
        if data.strip()
    ]
    return _read(opened, str(path), asked)


def read(opened: Opened, asked: Asked) -> Long:
    """Read the file of one annotator, or an old export that names its users by number."""
    name = Path(opened.path.name.removesuffix(".gz"))
    return _read([(name.stem if name.suffix in SUFFIXES else name.name, opened)], opened.source, asked)


def _read(files: list[tuple[str, Opened]], source: str, asked: Asked) -> Long:
    refuse_annotator(asked, "the name of the file", source)
    text = asked.text or "text"
    collector = Collector(asked, source)
    shift = 0
    for name, opened in files:
        records = opened.records()
        old = any("annotations" in record for record in records)
        named = named_fields(asked, opened.names, opened.source)
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
