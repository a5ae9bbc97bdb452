"""Reading files: plain tables and the exports of annotation tools, all into `Annotations` or `Items`.

Each export format has a signature of its own, by which it is detected: a file that bears two is an error, one that
bears none is a plain table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from realm.data.annotations import Annotations
from realm.data.build import build, build_rows
from realm.data.items import Items, Task
from realm.data.readers import (
    argilla,
    crowd_platforms,
    detox,
    doccano,
    go_emotions,
    hugging_face,
    label_studio,
    lewidi,
    nested_verdicts,
    prodigy,
)
from realm.data.readers.files import Container, SourceFile, is_archive, open_archive, open_file
from realm.data.readers.long_table import LongTable
from realm.data.readers.tables import Wide, read_long, read_wide
from realm.data.readers.unpacking import Limits
from realm.data.roles import ANNOTATIONS, ITEMS, ROLES, TEST, Multi, ReadRequest, TrainedColumns, check_word
from realm.errors import RealmError

__all__ = ["CONTAINERS", "EXPORTS", "FORMATS", "detect_format", "read", "read_items", "read_rows", "read_test"]

CONTAINERS: dict[str, Container] = {name: name for name in get_args(Container)}
EXPORTS: dict[str, tuple[Callable[[SourceFile], bool], Callable[[SourceFile, ReadRequest], LongTable]]] = {
    "label-studio": (label_studio.matches, label_studio.read),
    "label-studio-min": (label_studio.matches_min, label_studio.read_min),
    "argilla": (argilla.matches, argilla.read),
    "prodigy": (prodigy.matches, prodigy.read),
    "doccano": (doccano.matches, doccano.read),
    "mturk": (crowd_platforms.matches_mturk, crowd_platforms.read_mturk),
    "toloka": (crowd_platforms.matches_toloka, crowd_platforms.read_toloka),
    "hugging-face": (hugging_face.matches, hugging_face.read),
    "go-emotions": (go_emotions.matches, go_emotions.read),
    "lewidi": (lewidi.matches, lewidi.read),
    "detox": (detox.matches, detox.read),
    "verdicts": (nested_verdicts.matches, nested_verdicts.read),
}
"""Formats of annotation tools and research data sets: whether a file has it, and how it is read."""
FORMATS = ("table", *CONTAINERS, *EXPORTS)


def read(path: str | Path, **arguments: Any) -> Annotations:
    """Read a file into `Annotations`, whatever tool wrote it.

    Args:
        path: a file, a zip of one, or a zip or a folder of doccano's files.
        format: one of `FORMATS`; by default the format is detected by its own signature.
        wide: the columns of annotators, in a table with one row per item; "rest" is every column without a role.
        ignore: columns that are neither an annotator's nor have a role, with `wide="rest"`.
        multi: several answers in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        rejected: whether assignments that the requester rejected (MTurk, Toloka) are dropped ("drop") or read ("keep").
        max_unpacked_gb: how many gigabytes a compressed file may unpack to; by default 2, and 200 times its size.
        trained: the columns of the run that the table is for: those that are not named are looked for under its names.
        **arguments: columns by role and the rest of what `realm.data.build.build` takes.
    """
    return _read(path, ANNOTATIONS, **arguments)


def read_test(path: str | Path, **arguments: Any) -> Annotations:
    """Read items with gold, to evaluate a model on; see `read`. Annotations are not read and need not be there."""
    return _read(path, TEST, **arguments)


def read_items(path: str | Path, **arguments: Any) -> Items:
    """Read the items of a file; see `read`. Neither annotations nor gold are read."""
    return _read(path, ITEMS, **arguments).items


def read_rows(
    path: str | Path,
    *,
    tasks: Sequence[Task],
    format: str | None = None,
    max_unpacked_gb: float | None = None,
    **columns: Any,
) -> tuple[pa.Table, Items]:
    """The columns of a table and the item that each of its rows shows; of an export, its items and their columns.

    `tasks` are those of the model that will answer; see `read` for the rest.
    """
    path = Path(path)
    check_word("format", format, (None, *FORMATS))
    request = replace(ITEMS, **columns)
    long, detected = _read_long(path, format, None, request, Limits(max_unpacked_gb))
    if detected not in EXPORTS:
        return long.table, build_rows(long.table, request, tasks=tasks, source=str(path), rows=long.rows)
    request = request.without_columns()
    items = build(long.table, request, tasks=tasks, source=str(path), rows=long.rows, ledger=long.ledger).items
    own = {"item": items.ids, "text": items.texts, "context": items.contexts, "options": items.options}
    return pa.table({name: column for name, column in own.items() if column is not None}), items


def _read(
    path: str | Path,
    request: ReadRequest,
    *,
    format: str | None = None,
    wide: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    multi: Multi | None = None,
    rejected: Literal["drop", "keep"] = "drop",
    max_unpacked_gb: float | None = None,
    trained: TrainedColumns | None = None,
    **arguments: Any,
) -> Annotations:
    path = Path(path)
    check_word("multi", multi, (None, "first", "drop"))
    check_word("rejected", rejected, ("drop", "keep"))
    check_word("format", format, (None, *FORMATS))
    columns_of_annotators = None if not wide else Wide.of(wide, ignore, arguments.get("threshold") is not None)
    if ignore and (columns_of_annotators is None or not columns_of_annotators.rest):
        raise RealmError(f'{path}: `ignore={", ".join(ignore)}`: only with `wide="rest"`; other columns are not read.')
    columns = {role: arguments.pop(role, None) for role in ROLES}
    request = replace(request, **columns, multi=multi, rejected=rejected, trained=trained)
    long, detected = _read_long(path, format, columns_of_annotators, request, Limits(max_unpacked_gb))
    long.ledger.format = detected
    if detected in EXPORTS:
        request = request.without_columns()
    if long.labels is not None and arguments.get("labels") is None and arguments.get("tasks") is None:
        arguments["labels"] = long.labels
    if long.label_form != "auto":
        arguments.setdefault("label_form", long.label_form)
    arguments.setdefault("source", str(path))
    table = build(long.table, request, ledger=long.ledger, rows=long.rows, **arguments)
    # the fields of an export have the roles' own names by now
    named = {role: columns[role] or name for role, name in table.columns.items()}
    return replace(table, columns=named)


def _read_long(
    path: Path, format: str | None, wide: Wide | None, request: ReadRequest, limits: Limits
) -> tuple[LongTable, str]:
    """The long table, and the format it was read as."""
    container = CONTAINERS.get(format or "")
    if not is_archive(path):
        return _read_file(open_file(path, container, limits), format, wide, request)
    files = open_archive(path, container, limits)
    if format == "doccano" or (format is None and not wide and _one_file_per_annotator(files, request)):
        return doccano.read_files(files, str(path), request.for_export("doccano")), "doccano"
    if len(files) > 1:
        names = ", ".join(file.member for file in files[:5]) + (", ..." if len(files) > 5 else "")
        raise RealmError(
            f"{path}: {len(files)} files ({names}), and one at a time can be read. Put them into one table with a "
            'column for the annotator; or, if each is one annotator\'s file from doccano, give `format="doccano"`.'
        )
    return _read_file(files[0], format, wide, request)


def _one_file_per_annotator(files: Sequence[SourceFile], request: ReadRequest) -> bool:
    """Whether these are doccano's files, each named for its annotator; one file alone is read as if it were not packed.

    A CSV of doccano's bears no other mark than its columns, and that no id is in it twice.
    """
    if request.annotator is not None or len(files) == 1:
        return False
    formats = [detect_format(file) for file in files]
    return all(
        format == "doccano" or (format is None and doccano.may_be(file))
        for format, file in zip(formats, files, strict=True)
    )


def _read_file(file: SourceFile, format: str | None, wide: Wide | None, request: ReadRequest) -> tuple[LongTable, str]:
    if wide and request.wants_annotations:
        return read_wide(file, request, wide), "table"
    if format in CONTAINERS or format == "table" or wide:
        return read_long(file, request), format or "table"
    detected = format or detect_format(file, request.annotator)
    if detected is None:
        nested_verdicts.refuse_nested(file, request)
        return read_long(file, request), "table"
    for role, column in request.columns(["weight", "group"]).items():
        raise RealmError(
            f'{file.source}: `{role}="{column}"`: not for this format, whose annotations have no {role}s. '
            'If it is a table of your own, use `format="table"`.'
        )
    _, read_export = EXPORTS[detected]
    return read_export(file, request.for_export(detected)), detected


def detect_format(file: SourceFile, annotator: str | None = None) -> str | None:
    """The format whose signature the file bears; None is a plain table.

    Where a column is named for the annotator it is not doccano's, whose annotator is the file's name.
    """
    candidates = [
        name
        for name, (matches, _) in EXPORTS.items()
        if matches(file) and not (name == "doccano" and annotator is not None)
    ]
    if len(candidates) > 1:
        raise RealmError(
            f"{file.source}: the file looks like the export of more than one tool: {', '.join(candidates)}. "
            "Say which with `format`."
        )
    return candidates[0] if candidates else None
