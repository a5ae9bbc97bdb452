"""Reading files: plain tables and the exports of annotation tools, all into `Annotations` or `Items`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from realm.data.annotations import Annotations
from realm.data.build import build
from realm.data.items import Items
from realm.data.readers import doccano
from realm.data.readers.archives import is_archive, open_archive, several_files_error
from realm.data.readers.files import SourceFile, open_file
from realm.data.readers.formats import CONTAINERS, EXPORTS, FORMATS, detect_format
from realm.data.readers.long_table import LongTable
from realm.data.readers.tables import read_long, read_wide
from realm.data.request import ANNOTATIONS, ITEMS, ROLES, TEST, Multi, ReadRequest
from realm.errors import RealmError

__all__ = ["FORMATS", "read", "read_items", "read_test"]


def read(path: str | Path, **arguments: Any) -> Annotations:
    """Read a file into `Annotations`, whatever tool wrote it.

    Args:
        path: a file, a zip of one, or a zip or a folder of doccano's files.
        format: one of `FORMATS`; by default the format is detected by its own signature.
        wide: the columns of annotators, in a table with one row per item.
        multi: several answers in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        rejected: whether assignments that the requester rejected (MTurk, Toloka) are dropped ("drop") or read ("keep").
        **arguments: columns by role and the rest of what `realm.data.build.build` takes.
    """
    return _read(path, ANNOTATIONS, **arguments)


def read_test(path: str | Path, **arguments: Any) -> Annotations:
    """Read items with gold, to evaluate a model on; see `read`. Annotations are not read and need not be there."""
    return _read(path, TEST, **arguments)


def read_items(path: str | Path, **arguments: Any) -> Items:
    """Read the items of a file; see `read`. Neither annotations nor gold are read."""
    return _read(path, ITEMS, **arguments).items


def _read(
    path: str | Path,
    request: ReadRequest,
    *,
    format: str | None = None,
    wide: Sequence[str] | None = None,
    multi: Multi | None = None,
    rejected: Literal["drop", "keep"] = "drop",
    **arguments: Any,
) -> Annotations:
    path = Path(path)
    _check_word("multi", multi, (None, "first", "drop"))
    _check_word("rejected", rejected, ("drop", "keep"))
    _check_word("format", format, (None, *FORMATS))
    columns = {role: arguments.pop(role, None) for role in ROLES}
    request = replace(request, **columns, multi=multi, rejected=rejected)
    long, detected = _read_long(path, format, wide, request)
    long.ledger.format = detected
    if detected in EXPORTS:
        request = request.without_columns()
    if long.labels is not None and arguments.get("labels") is None and arguments.get("tasks") is None:
        arguments["labels"] = long.labels
    if long.label_form != "auto":
        arguments.setdefault("label_form", long.label_form)
    arguments.setdefault("source", str(path))
    return build(long.table, request, ledger=long.ledger, rows=long.rows, **arguments)


def _read_long(
    path: Path, format: str | None, wide: Sequence[str] | None, request: ReadRequest
) -> tuple[LongTable, str]:
    """The long table, and the format it was read as."""
    if not is_archive(path):
        return _read_file(open_file(path, CONTAINERS.get(format or "")), format, wide, request)
    members = open_archive(path, CONTAINERS.get(format or ""))
    if format == "doccano" or (format is None and not wide and _one_file_per_annotator(members, request)):
        return doccano.read_files(members, str(path), request), "doccano"
    if len(members) > 1:
        raise several_files_error(path, members)
    return _read_file(members[0], format, wide, request)


def _one_file_per_annotator(members: Sequence[SourceFile], request: ReadRequest) -> bool:
    """Whether these are doccano's files, each named for its annotator; a CSV of doccano's bears no other mark."""
    if request.annotator is not None or not all(doccano.may_be(member) for member in members):
        return False
    formats = [detect_format(member) for member in members]
    if len(members) == 1 and not request.wants_annotations:
        return formats == ["doccano"]
    return set(formats) <= {None, "doccano"}


def _read_file(
    file: SourceFile, format: str | None, wide: Sequence[str] | None, request: ReadRequest
) -> tuple[LongTable, str]:
    if wide and request.wants_annotations:
        return read_wide(file, request, wide), "table"
    if format in CONTAINERS or format == "table" or wide:
        return read_long(file, request), format or "table"
    detected = format or detect_format(file, request.annotator)
    if detected is None:
        return read_long(file, request), "table"
    if named := request.columns(["weight"]).get("weight"):
        raise RealmError(
            f'{file.source}: `weight="{named}"`: not for this format, whose annotations have no weights. '
            'If it is a table of your own, use `format="table"`.'
        )
    _, read_export = EXPORTS[detected]
    return read_export(file, request), detected


def _check_word(name: str, word: str | None, allowed: Sequence[str | None]) -> None:
    if word not in allowed:
        raise RealmError(
            f'`{name}="{word}"`: must be one of {", ".join(choice for choice in allowed if choice is not None)}.'
        )
