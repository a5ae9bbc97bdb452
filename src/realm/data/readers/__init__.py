"""Reading files: plain tables and the exports of annotation tools, all into `Annotations` or `Items`.

Each export format has a signature of its own, by which it is detected: a file that bears two is an error, one that
bears none is a plain table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from realm.data.annotations import Annotations
from realm.data.build import build
from realm.data.columns import frame_columns
from realm.data.items import Items
from realm.data.long_table import LongTable, join
from realm.data.read_options import ReadOptions, checked
from realm.data.readers import (
    argilla,
    crowd_platforms,
    doccano,
    hugging_face,
    label_studio,
    nested_verdicts,
    one_hot,
    prodigy,
)
from realm.data.readers.files import CONTAINERS, SourceFile, open_unread
from realm.data.readers.tables import read_long, read_wide
from realm.data.roles import ALSO_CALLED, check_word
from realm.data.source import Source
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

EXPORTS: dict[str, tuple[Callable[[SourceFile], bool], Callable[[SourceFile, ReadOptions], LongTable]]] = {
    "label-studio": (label_studio.matches, label_studio.read),
    "label-studio-min": (label_studio.matches_min, label_studio.read_min),
    "argilla": (argilla.matches, argilla.read),
    "prodigy": (prodigy.matches, prodigy.read),
    "doccano": (doccano.matches, doccano.read),
    "mturk": (crowd_platforms.matches_mturk, crowd_platforms.read_mturk),
    "toloka": (crowd_platforms.matches_toloka, crowd_platforms.read_toloka),
    "hugging-face": (hugging_face.matches, hugging_face.read),
    "one-hot": (one_hot.matches, one_hot.read),
    "verdicts": (nested_verdicts.matches, nested_verdicts.read),
}
"""Formats of annotation tools and data sets: whether a file has it, and how it is read."""
FORMATS = ("table", *CONTAINERS, *EXPORTS)
Paths = str | Path | Sequence[str | Path]
ONE_EACH = ' If each file has the labels of one annotator, whose name it bears, give `format="doccano"`.'


def read(path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Annotations:
    """Read a file, or several that are one table, into `Annotations`, whatever tool wrote them.

    Args:
        path: a file; a list of files; a zip or a folder of one or several. Several must have one format and the same
            columns, or be doccano's, one for each annotator.
        read_options: how they are read.
        **arguments: fields of `ReadOptions`, in place of those of `read_options`.
    """
    return _read(path, checked(read_options, arguments, wants="annotations"))


def read_test(path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Annotations:
    """Read items with gold, to evaluate a model on; see `read`. Annotations are not read and need not be there."""
    return _read(path, checked(read_options, arguments, wants="gold"))


def read_items(path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Items:
    """Read the items of a file; see `read`. Neither annotations nor gold are read."""
    return _read(path, checked(read_options, arguments, wants="items")).items


def read_table(
    table: pd.DataFrame | pa.Table | Sequence[Mapping[str, Any]],
    source: str,
    read_options: ReadOptions | None = None,
    *,
    wants: str = "annotations",
    **arguments: Any,
) -> Annotations:
    """`Annotations` from a table or from records that are in memory, as `read` makes them of a file.

    Where there are columns for all that is needed it is a plain table, whatever other columns there are; otherwise the
    formats of annotation tools are recognised as in a file.
    """
    options = checked(read_options, arguments, wants=wants)
    check_word("format", options.format, (None, *FORMATS))
    frame: Any = table
    place = Source(source)
    content = frame_columns(frame, place) if hasattr(table, "iloc") else frame
    file = SourceFile(Path(source), place, content)
    if options.format is None and not options.wide:
        columns = [{getattr(options, role) or role, ALSO_CALLED.get(role)} for role in options.required]
        is_plain = options.trained is not None or all(file.names & each for each in columns)
        # doccano's annotator is the name of the file, and there is none
        detected = "table" if is_plain else detect_format(file, annotator="annotator")
        options = replace(options, format=detected or "table")
    return _built([file], options)


def export_rows(files: Sequence[SourceFile], options: ReadOptions, path: Path) -> Items:
    """The items of the export in a file."""
    if len(files) > 1 and not _is_doccano(files, options):
        names = ", ".join(file.member for file in files[:5]) + (", ..." if len(files) > 5 else "")
        raise RealmError(f"{path}: {len(files)} tables ({names}). Unpack them, and give one at a time.")
    return _built(files, options).items


def _read(path: Paths, options: ReadOptions) -> Annotations:
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    if not paths:
        raise RealmError("`path` is an empty list: give a file or more.")
    check_word("format", options.format, (None, *FORMATS))
    _refuse_repeated(paths)
    container = CONTAINERS.get(options.format or "")
    files = [
        unread.read()
        for each in paths
        for unread in open_unread(each, container, options.max_unpacked_gb, options.encoding)
    ]
    table = _built(files, options)
    table.ledger.file = paths[0].name + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return table


def _refuse_repeated(paths: Sequence[Path]) -> None:
    """Refuse a file that is given twice, by itself or in a folder that is given too."""
    seen: dict[str, Path] = {}
    for path in paths:
        place = os.path.realpath(path)
        if (first := seen.setdefault(place, path)) is not path:
            raise RealmError(f"{path}: given twice{f' (as {first} too)' if str(first) != str(path) else ''}.")
    for path in paths:
        for folder in Path(os.path.realpath(path)).parents:
            if str(folder) in seen:
                raise RealmError(f"{path}: given twice: it is in {seen[str(folder)]}, which is read too.")


def _built(files: Sequence[SourceFile], options: ReadOptions) -> Annotations:
    if options.ignore and list(options.wide or ()) != ["rest"]:
        raise files[0].source.error(
            f'`ignore={", ".join(options.ignore)}`: only with `wide="rest"`; other columns are not read.'
        )
    long, format = _long_table(files, options)
    long.ledger.format = format
    table = build(long, options)
    named = {role: getattr(options, role) or name for role, name in table.columns.items()}
    return replace(table, columns=named if format in EXPORTS else table.columns)


def _long_table(files: Sequence[SourceFile], options: ReadOptions) -> tuple[LongTable, str]:
    """The long table of the files, and the format they were read as."""
    if _is_doccano(files, options):
        return doccano.read_files(files, files[0].source, _of_export("doccano", files, options)), "doccano"
    if len(files) == 1:
        return _read_file(files[0], options)
    parts, formats = [], []
    for file in files:
        try:
            long, detected = _read_file(file, options)
        except RealmError as error:
            hint = f" It is one of {len(files)} files that are read as one table."
            if {options.text or "text", options.label or "label"} <= file.names and "annotator" not in file.names:
                hint += ONE_EACH
            raise RealmError(f"{error}{hint}") from None
        parts.append(long)
        formats.append(detected)
    return join(parts, [len(file.content) for file in files], formats, formats[0] in EXPORTS), formats[0]


def _is_doccano(files: Sequence[SourceFile], options: ReadOptions) -> bool:
    """Whether several files, or one in an archive, are to be read as doccano's, each named for its annotator.

    A CSV of doccano's bears no other mark than its columns, and that no id is in it twice.
    """
    if len(files) == 1 and not files[0].member:
        return False
    if options.format is not None or options.wide or options.annotator is not None or len(files) == 1:
        return options.format == "doccano"
    formats = [detect_format(file) for file in files]
    return all(
        format == "doccano" or (format is None and doccano.may_be(file))
        for format, file in zip(formats, files, strict=True)
    )


def _read_file(file: SourceFile, options: ReadOptions) -> tuple[LongTable, str]:
    format = options.format
    if options.wide and options.wants_annotations:
        return read_wide(file, options), "table"
    if format in CONTAINERS or format == "table" or options.wide:
        return read_long(file, options), format or "table"
    detected = format or detect_format(file, options.annotator)
    if detected is None:
        nested_verdicts.refuse_nested(file, options)
        return read_long(file, options), "table"
    for role, column in options.columns(["weight", "group"]).items():
        raise file.source.error(
            f'`{role}="{column}"`: not for this format, whose annotations have no {role}s. '
            'If it is a table of your own, use `format="table"`.'
        )
    _, read_export = EXPORTS[detected]
    return read_export(file, _of_export(detected, [file], options)), detected


def _of_export(format: str, files: Sequence[SourceFile], options: ReadOptions) -> ReadOptions:
    fields = frozenset().union(*(file.names for file in files))
    if options.optional or options.trained is not None:
        fields |= frozenset().union(*(file.nested_names() for file in files))
    return options.for_export(format, fields)


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
        raise file.source.error(
            f"the file looks like the export of more than one tool: {', '.join(candidates)}. Say which with `format`."
        )
    return candidates[0] if candidates else None
