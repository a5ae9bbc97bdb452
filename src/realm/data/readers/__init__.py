"""Reading files: plain tables and the exports of annotation tools, all into `Annotations` or `Items`.

Each export format has a signature of its own, by which it is detected: a file that bears two is an error, one that
bears none is a plain table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from realm.data.annotations import Annotations
from realm.data.build import build, build_rows, refuse_unknown
from realm.data.columns import frame_columns
from realm.data.items import Items, Task
from realm.data.readers import (
    argilla,
    crowd_platforms,
    crowdflower,
    detox,
    doccano,
    go_emotions,
    hugging_face,
    label_studio,
    lewidi,
    nested_verdicts,
    prodigy,
)
from realm.data.readers.encodings import check_encoding
from realm.data.readers.files import Container, SourceFile, is_archive, open_archive, open_file
from realm.data.readers.long_table import LongTable
from realm.data.readers.several_files import join, refuse_repeated
from realm.data.readers.tables import Wide, read_long, read_wide
from realm.data.readers.unpacking import Limits
from realm.data.roles import ANNOTATIONS, ITEMS, ROLES, TEST, Multi, ReadRequest, TrainedColumns, check_word
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CONTAINERS", "EXPORTS", "FORMATS", "detect_format", "read", "read_items", "read_rows", "read_table"]
__all__ += ["read_test"]

CONTAINERS: dict[str, Container] = {name: name for name in get_args(Container)}
EXPORTS: dict[str, tuple[Callable[[SourceFile], bool], Callable[[SourceFile, ReadRequest], LongTable]]] = {
    "label-studio": (label_studio.matches, label_studio.read),
    "label-studio-min": (label_studio.matches_min, label_studio.read_min),
    "argilla": (argilla.matches, argilla.read),
    "prodigy": (prodigy.matches, prodigy.read),
    "doccano": (doccano.matches, doccano.read),
    "mturk": (crowd_platforms.matches_mturk, crowd_platforms.read_mturk),
    "toloka": (crowd_platforms.matches_toloka, crowd_platforms.read_toloka),
    "crowdflower": (crowdflower.matches, crowdflower.read),
    "hugging-face": (hugging_face.matches, hugging_face.read),
    "go-emotions": (go_emotions.matches, go_emotions.read),
    "lewidi": (lewidi.matches, lewidi.read),
    "detox": (detox.matches, detox.read),
    "verdicts": (nested_verdicts.matches, nested_verdicts.read),
}
"""Formats of annotation tools and research data sets: whether a file has it, and how it is read."""
JOINING = ("mturk", "toloka")
"""Exports that join several answers of one annotation in a cell; the others list them."""
FORMATS = ("table", *CONTAINERS, *EXPORTS)
Paths = str | Path | Sequence[str | Path]
ONE_EACH = ' If each file has the labels of one annotator, whose name it bears, give `format="doccano"`.'


def read(path: Paths, **arguments: Any) -> Annotations:
    """Read a file, or several that are one table, into `Annotations`, whatever tool wrote them.

    Args:
        path: a file; a list of files; a zip or a folder of one or several. Several must have one format and the same
            columns, or be doccano's, one for each annotator.
        format: one of `FORMATS`; by default the format is detected by its own signature.
        encoding: the encoding of the text, such as "cp1252"; by default UTF-8, or UTF-16 with a byte order mark.
        wide: the columns of annotators, in a table with one row per item; "rest" is every column without a role.
        ignore: columns that are neither an annotator's nor have a role, with `wide="rest"`.
        multi: several answers in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        rejected: whether assignments that the requester or the platform rejected (MTurk, Toloka, CrowdFlower) are
            dropped ("drop") or read ("keep").
        max_unpacked_gb: how many gigabytes a compressed file may unpack to; by default 2, and 200 times its size.
        trained: the columns of the run that the table is for: those that are not named are looked for under its names.
        **arguments: columns by role and the rest of what `realm.data.build.build` takes: `labels`, `exclude`,
            `map_labels`, `unanswered`, `threshold` and others.
    """
    return _read(path, ANNOTATIONS, **arguments)


def read_table(
    table: pd.DataFrame | pa.Table | Sequence[Mapping[str, Any]], source: str, **arguments: Any
) -> Annotations:
    """`Annotations` from a table or from records that are in memory, as `read` makes them of a file.

    Where there are columns for text, annotator and label it is a plain table, whatever other columns there are;
    otherwise the formats of annotation tools are recognised as in a file.
    """
    format, wide = arguments.pop("format", None), arguments.pop("wide", None)
    check_word("format", format, (None, *FORMATS))
    frame: Any = table
    file = SourceFile(Path(source), source, frame_columns(frame, source) if hasattr(table, "iloc") else frame)
    if format is None and not wide:
        columns = (str(arguments.get(role) or role) for role in ANNOTATIONS.required)
        is_plain = file.names.issuperset(columns)
        format = "table" if is_plain else detect_format(file, annotator="annotator")  # there is no file to name one
    return _read_opened(lambda: [file], source, ANNOTATIONS, format=format or "table", wide=wide, **arguments)


def read_test(path: Paths, **arguments: Any) -> Annotations:
    """Read items with gold, to evaluate a model on; see `read`. Annotations are not read and need not be there.

    `optional` lists roles whose column need not be there though it is named, such as the id of the items that a model
    is trained on: without it, task and text identify an item.
    """
    return _read(path, TEST, **arguments)


def read_items(path: Paths, **arguments: Any) -> Items:
    """Read the items of a file; see `read_test`. Neither annotations nor gold are read."""
    return _read(path, ITEMS, **arguments).items


def read_rows(
    path: str | Path,
    *,
    tasks: Sequence[Task],
    format: str | None = None,
    max_unpacked_gb: float | None = None,
    encoding: str | None = None,
    **columns: Any,
) -> tuple[pa.Table, Items]:
    """The columns of a table and the item that each of its rows shows; of an export, its items and their columns.

    `tasks` are those of the model that will answer; see `read` for the rest.
    """
    path = Path(path)
    check_word("format", format, (None, *FORMATS))
    check_encoding(encoding)
    request = replace(ITEMS, **columns)
    files = _open([path], format, Limits(max_unpacked_gb), encoding)
    if len(files) > 1 and not _is_doccano(files, format, None, request):
        names = ", ".join(file.member for file in files[:5]) + (", ..." if len(files) > 5 else "")
        raise RealmError(f"{path}: {len(files)} tables ({names}). Unpack them, and give one at a time.")
    long, detected = _read_files(files, str(path), format, None, request)
    if detected not in EXPORTS:
        return long.table, build_rows(long.table, request, tasks=tasks, source=str(path), rows=long.rows)
    request = request.without_columns()
    items = build(long.table, request, tasks=tasks, source=str(path), rows=long.rows, ledger=long.ledger).items
    own = {"item": items.ids, "text": items.texts, "context": items.contexts, "options": items.options}
    return pa.table({name: column for name, column in own.items() if column is not None}), items


def _read(
    path: Paths,
    request: ReadRequest,
    *,
    format: str | None = None,
    wide: Sequence[str] | str | None = None,
    max_unpacked_gb: float | None = None,
    encoding: str | None = None,
    **arguments: Any,
) -> Annotations:
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    if not paths:
        raise RealmError("`path` is an empty list: give a file or more.")
    check_word("format", format, (None, *FORMATS))
    check_encoding(encoding)
    limits = Limits(max_unpacked_gb)
    refuse_repeated(paths)
    table = _read_opened(
        lambda: _open(paths, format, limits, encoding), str(paths[0]), request, format=format, wide=wide, **arguments
    )
    table.ledger.file = paths[0].name + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return table


def _read_opened(
    open_all: Callable[[], list[SourceFile]],
    source: str,
    request: ReadRequest,
    *,
    format: str | None = None,
    wide: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    multi: Multi | None = None,
    rejected: Literal["drop", "keep"] = "drop",
    trained: TrainedColumns | None = None,
    optional: Sequence[str] = (),
    **arguments: Any,
) -> Annotations:
    refuse_unknown(arguments)
    check_word("multi", multi, (None, "first", "drop"))
    check_word("rejected", rejected, ("drop", "keep"))
    columns_of_annotators = None if not wide else Wide.of(wide, ignore, arguments.get("threshold") is not None)
    if ignore and (columns_of_annotators is None or not columns_of_annotators.rest):
        raise RealmError(
            f'{source}: `ignore={", ".join(ignore)}`: only with `wide="rest"`; other columns are not read.'
        )
    given = {role: arguments.pop(role, None) for role in ROLES}
    columns: dict[str, Any] = {role: None if name is None else str(name) for role, name in given.items()}
    request = replace(request, **columns, multi=multi, rejected=rejected, trained=trained, optional=tuple(optional))
    long, detected = _read_files(open_all(), source, format, columns_of_annotators, request)
    long.ledger.format = detected
    if detected in EXPORTS:
        request = replace(request.without_columns(), joins_answers=detected in JOINING)
    if long.labels is not None and arguments.get("labels") is None and arguments.get("tasks") is None:
        arguments["labels"] = long.labels
    if long.label_form != "auto":
        arguments.setdefault("label_form", long.label_form)
    arguments.setdefault("source", long.ledger.files or source)
    table = build(long.table, request, ledger=long.ledger, rows=long.rows, **arguments)
    # the fields of an export have the roles' own names by now
    named = {role: columns[role] or name for role, name in table.columns.items()}
    return replace(table, columns=named)


def _open(paths: Sequence[Path], format: str | None, limits: Limits, encoding: str | None) -> list[SourceFile]:
    """Every file that the paths name, those in zips and folders too."""
    container = CONTAINERS.get(format or "")
    files: list[SourceFile] = []
    for path in paths:
        if is_archive(path):
            files += open_archive(path, container, limits, encoding)
        else:
            files.append(open_file(path, container, limits, encoding))
    return files


def _read_files(
    files: Sequence[SourceFile], source: str, format: str | None, wide: Wide | None, request: ReadRequest
) -> tuple[LongTable, str]:
    """The long table of the files, and the format they were read as."""
    if _is_doccano(files, format, wide, request):
        return doccano.read_files(files, source, _for_export(files, "doccano", request)), "doccano"
    if len(files) == 1:
        return _read_file(files[0], format, wide, request)
    parts, formats = [], []
    for file in files:
        try:
            long, detected = _read_file(file, format, wide, request)
        except RealmError as error:
            hint = f" It is one of {len(files)} files that are read as one table."
            if {request.text or "text", request.label or "label"} <= file.names and "annotator" not in file.names:
                hint += ONE_EACH
            raise RealmError(f"{error}{hint}") from None
        parts.append(long)
        formats.append(detected)
    named = request.without_columns() if formats[0] in EXPORTS else request
    return join(files, formats, parts, named), formats[0]


def _is_doccano(files: Sequence[SourceFile], format: str | None, wide: Wide | None, request: ReadRequest) -> bool:
    """Whether several files, or one in an archive, are to be read as doccano's, each named for its annotator."""
    if len(files) == 1 and not files[0].member:
        return False
    return format == "doccano" or (format is None and not wide and _one_file_per_annotator(files, request))


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
    return read_export(file, _for_export([file], detected, request)), detected


def _for_export(files: Sequence[SourceFile], format: str, request: ReadRequest) -> ReadRequest:
    """The request for files of this format, without optional fields that none of them has."""
    request = request.for_export(format)
    if not request.columns(request.optional):
        return request
    return request.without_absent(frozenset().union(*(file.names | file.nested_names() for file in files)))


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
