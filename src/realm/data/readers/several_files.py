"""Several files as one table: crowds come in batches. Like tables are joined, and rows keep their file.

All files must have one format and the same columns for what is read. Gold and times may be in some of them only; what a
file does not have is blank there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from realm.data.columns import as_array, as_text, is_list
from realm.data.ledger import Ledger
from realm.data.options import LabelForm
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import LongTable
from realm.data.roles import TIME_ROLES, ReadRequest, split_columns
from realm.data.sources import Files
from realm.errors import RealmError

MAY_BE_ABSENT = ("gold", *TIME_ROLES)
"""Roles without which a file says the same of its items and annotations, only less."""


def refuse_repeated(paths: Sequence[Path]) -> None:
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


def join(
    files: Sequence[SourceFile], formats: Sequence[str], parts: Sequence[LongTable], request: ReadRequest
) -> LongTable:
    """One long table of those of several files, rows numbered through them. `request` names their columns."""
    names = [file.source for file in files]
    for name, format in zip(names, formats, strict=True):
        if format != formats[0]:
            raise RealmError(
                f"{names[0]} was read as {_in_words(formats[0])} and {name} as {_in_words(format)}: files that are "
                "read together must have one format. Write each as a table with `realm import`, and give the tables."
            )
    source = Files.of(names, [_n_rows(file, part) for file, part in zip(files, parts, strict=True)])
    ledger = _join_ledgers(source, [part.ledger for part in parts])
    tables = [part.table for part in parts]
    roles = [request.resolve(table.column_names, name) for table, name in zip(tables, names, strict=True)]
    is_export = formats[0] not in ("table", "csv", "tsv", "json", "jsonl", "parquet")
    columns = _common_columns(names, tables, roles, ledger, is_export)
    needed = {part for by_role in roles for name in by_role.values() for part in split_columns(name, columns)}
    joined = {}
    for column in columns:
        arrays = [_column(table, column) for table in tables]
        if (whole := _concatenated(arrays, column, names, column in needed)) is not None:
            joined[column] = whole
    rows = np.concatenate([part.rows + start for part, start in zip(parts, source.starts, strict=True)])
    return LongTable(pa.table(joined), rows, ledger, _labels(parts), _form(parts))


def _in_words(format: str) -> str:
    return "a plain table" if format == "table" else format


def _n_rows(file: SourceFile, part: LongTable) -> int:
    """Rows of a file: as many as it has records, and no fewer than any row that is named."""
    named = [int(part.rows.max(initial=0)), *(row for rows in part.ledger.rows.values() for row in rows)]
    return max(len(file.content), *named)


def _join_ledgers(source: Files, ledgers: Sequence[Ledger]) -> Ledger:
    joined = Ledger(files=source)
    for start, ledger in zip(source.starts, ledgers, strict=True):
        for reason, count in ledger.counts.items():
            joined.add(reason, [row + int(start) for row in ledger.rows[reason]], count)
    for name, ledger in zip(source.names, ledgers, strict=True):
        for message in ledger.warnings:
            in_all = all(message in other.warnings for other in ledgers)
            joined.warn(message if in_all else f"{name}: {message}")
    return joined


def _common_columns(
    names: Sequence[str],
    tables: Sequence[pa.Table],
    roles: Sequence[Mapping[str, str]],
    ledger: Ledger,
    is_export: bool,
) -> list[str]:
    """The columns of all files, and those of roles that some of them may do without."""
    by_role = {role: column for each in roles for role, column in each.items()}
    owners = {role: name for name, each in zip(names, roles, strict=True) for role in reversed(list(each))}
    optional = []
    for role, column in by_role.items():
        without = [name for name, each in zip(names, roles, strict=True) if role not in each]
        if not without:
            continue
        if not is_export and role not in MAY_BE_ABSENT:
            raise RealmError(
                f"{without[0]}: there is no column '{column}' for the {role}, which {owners[role]} has. Files that are "
                "read together must have the same columns."
            )
        optional.append(column)
        if not is_export:  # of an export a field is left out where it is blank throughout
            ledger.warn(f"{', '.join(without)}: no column '{column}', so that the {role} is not known there.")
    shared = [
        column
        for column in tables[0].column_names
        if all(table.column_names.count(column) == 1 for table in tables) and column not in optional
    ]
    return [*shared, *optional]


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(len(table))
    column = as_array(table.column(name))
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _concatenated(arrays: Sequence[pa.Array], column: str, names: Sequence[str], needed: bool) -> pa.Array | None:
    """One column of those of the files, as text where their types differ; None for one that cannot be and need not."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) <= 1:
        kind = next(iter(kinds), pa.null())
        arrays = [pa.nulls(len(array), kind) if pa.types.is_null(array.type) else array for array in arrays]
        return pa.concat_arrays(arrays)
    nested = [pa.types.is_nested(array.type) for array in arrays]
    if any(nested):
        if not needed:
            return None
        if all(is_list(array.type) or pa.types.is_null(array.type) for array in arrays):
            texts = pa.large_list(pa.large_string())
            return pa.concat_arrays(
                [pa.nulls(len(a), texts) if pa.types.is_null(a.type) else a.cast(texts) for a in arrays]
            )
        with_lists, plain = names[nested.index(True)], names[nested.index(False)]
        raise RealmError(
            f"the column '{column}' holds lists or objects in {with_lists} and single values in {plain}. Files that "
            "are read together must have the same columns."
        )
    try:
        return pa.concat_arrays([as_text(array, column, name) for array, name in zip(arrays, names, strict=True)])
    except RealmError:
        if needed:
            raise
        return None


def _labels(parts: Sequence[LongTable]) -> list[str] | None:
    """The label sets that exports list, together; None where one of them lists none."""
    sets = [part.labels for part in parts]
    if any(labels is None for labels in sets):
        return None
    return list(dict.fromkeys(label for labels in sets for label in labels or ()))


def _form(parts: Sequence[LongTable]) -> LabelForm:
    return next((part.label_form for part in parts if part.label_form != "auto"), "auto")
