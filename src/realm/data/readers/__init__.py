"""Reading files: plain tables and the exports of annotation tools, all into `Annotations` or `Items`.

Each export format has a signature of its own, by which it is detected: a file that bears two is an error, one that
bears none is a plain table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    prodigy,
)
from realm.data.readers.exports import Export
from realm.data.readers.files import SourceFile, files_of, open_bytes
from realm.data.readers.tables import read_long, read_wide
from realm.data.roles import ALSO_CALLED, ITEM_ROLES, check_word
from realm.data.source import Source
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Format:
    """The export of a tool: how a file of it is recognised and read, and where it has roles that no flag can name."""

    matches: Callable[[SourceFile], bool]
    read: Callable[[Export], LongTable]
    fixed: Mapping[str, str] = field(default_factory=dict)


EXPORTS = {
    "label-studio": Format(label_studio.matches, label_studio.read, {"annotator": "completed_by"}),
    "label-studio-min": Format(label_studio.matches_min, label_studio.read_min),
    "argilla": Format(argilla.matches, argilla.read, {"annotator": "<question>.responses.users"}),
    "prodigy": Format(prodigy.matches, prodigy.read, {"label": "in accept or label"}),
    "doccano": Format(doccano.matches, doccano.read, {"annotator": "the name of the file"}),
    "mturk": Format(crowd_platforms.matches_mturk, crowd_platforms.read_mturk),
    "toloka": Format(crowd_platforms.matches_toloka, crowd_platforms.read_toloka),
    "hugging-face": Format(hugging_face.matches, hugging_face.read),
    "one-hot": Format(hugging_face.matches_one_hot, hugging_face.read_one_hot),
    "verdicts": Format(nested_verdicts.matches, nested_verdicts.read),
}
"""Formats of annotation tools and data sets."""
FORMATS = ("table", *EXPORTS)
Paths = str | Path | Sequence[str | Path]


def read(path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Annotations:
    """Read a file, a folder of files or a list of these into `Annotations`, whatever tool wrote them.

    Several must have one format and the same columns, or be doccano's, one for each annotator. `arguments` are fields
    of `ReadOptions`, in place of those of `read_options`.
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
    """`Annotations` from a table or records in memory: a plain table where it has all columns, or else an export."""
    options = checked(read_options, arguments, wants=wants)
    frame: Any = table
    content = frame_columns(frame, Source(source)) if hasattr(table, "iloc") else frame
    file = SourceFile(Path(source), Source(source), content)
    if options.format is None and not options.wide:
        columns = [{getattr(options, role) or role, ALSO_CALLED.get(role)} for role in options.required]
        is_plain = options.trained is not None or all(file.names & each for each in columns)
        # doccano's annotator is the name of the file, and there is none
        detected = "table" if is_plain else detect_format(file, annotator="annotator")
        options = replace(options, format=detected or "table")
    return build_files([file], options)


def _read(path: Paths, options: ReadOptions) -> Annotations:
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    if not paths:
        raise RealmError("`path` is an empty list: give a file or more.")
    files = [open_bytes(each, options.encoding, options.max_unpacked_gb).read() for each in files_of(paths)]
    table = build_files(files, options)
    table.ledger.file = paths[0].name + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return table


def build_files(files: Sequence[SourceFile], options: ReadOptions) -> Annotations:
    """`Annotations` of files that were opened."""
    check_word("format", options.format, (None, *FORMATS))
    if options.ignore and list(options.wide or ()) != ["rest"]:
        raise files[0].source.error(
            f'`ignore={", ".join(options.ignore)}`: only with `wide="rest"`; other columns are not read.'
        )
    long, format = _long_table(files, options)
    long.ledger.format = format
    table = build(long, options)
    if format not in EXPORTS:
        return table
    return replace(table, columns={role: getattr(options, role) or name for role, name in table.columns.items()})


def _long_table(files: Sequence[SourceFile], options: ReadOptions) -> tuple[LongTable, str]:
    """The long table of the files, and the format they were read as."""
    if len(files) == 1:
        return _read_file(files[0], options)
    if _are_doccanos(files, options):
        return doccano.read(Export(files[0], _of_export("doccano", files, options)), files[1:]), "doccano"
    parts = [_read_file(file, options) for file in files]
    formats = [format for _, format in parts]
    counts = [len(file.content) for file in files]
    return join([long for long, _ in parts], counts, formats, formats[0] in EXPORTS), formats[0]


def _are_doccanos(files: Sequence[SourceFile], options: ReadOptions) -> bool:
    """Whether several files are doccano's, each named for its annotator, though a CSV of it bears no other mark."""
    if options.format is not None or options.wide or options.annotator is not None:
        return options.format == "doccano"
    formats = [(detect_format(file), file) for file in files]
    return all(format == "doccano" or (format is None and doccano.may_be(file)) for format, file in formats)


def _read_file(file: SourceFile, options: ReadOptions) -> tuple[LongTable, str]:
    if options.wide and options.wants_annotations:
        return read_wide(file, options), "table"
    if options.format == "table" or options.wide:
        return read_long(file, options), "table"
    format = options.format or detect_format(file, options.annotator)
    if format is None:
        nested_verdicts.refuse_unnamed(file, options)
        return read_long(file, options), "table"
    return EXPORTS[format].read(Export(file, _of_export(format, [file], options))), format


def _of_export(format: str, files: Sequence[SourceFile], options: ReadOptions) -> ReadOptions:
    """The options for an export; a column that is named for what the format has elsewhere, or not, is refused."""
    fields = frozenset().union(*(file.names | file.inner_names for file in files))
    options = options.for_export(format, fields)
    nowhere = {"weight": "not in it", "group": "not in it"}
    for role, place in (nowhere | dict(EXPORTS[format].fixed)).items():
        for column in options.columns([role]).values():
            raise files[0].source.error(
                f'`{role}="{column}"`: not for this format: the {role} is {place}. '
                'If it is a table of your own, use `format="table"`.'
            )
    for role, column in options.columns((*ITEM_ROLES, "annotator")).items():
        if column not in fields:
            raise Export(files[0], options).no_field(role, column, sorted(fields))
    return options


def detect_format(file: SourceFile, annotator: str | None = None) -> str | None:
    """The format whose signature the file bears; None is a plain table.

    Where a column is named for the annotator it is not doccano's, whose annotator is the file's name.
    """
    is_known = {name: name != "doccano" or annotator is None for name in EXPORTS}
    candidates = [name for name, each in EXPORTS.items() if is_known[name] and each.matches(file)]
    if len(candidates) > 1:
        raise file.source.error(
            f"the file looks like the export of more than one tool: {', '.join(candidates)}. Say which with `format`."
        )
    return candidates[0] if candidates else None
