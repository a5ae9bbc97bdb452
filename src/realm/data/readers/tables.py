"""Plain tables: one row per annotation (long), or one row per item and one column per annotator (wide)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Codes, Mask, as_text, blank, encode, number
from realm.data.ledger import Ledger
from realm.data.long_table import NO_ANNOTATIONS, LongTable, columns_of
from realm.data.options import MAX_OPTIONS
from realm.data.read_options import REST, ReadOptions
from realm.data.readers.files import SourceFile
from realm.data.roles import (
    ANNOTATION_COLUMNS,
    ANNOTATION_ROLES,
    ITEM_ROLES,
    ROLES,
    listed,
    resolve_columns,
    split_columns,
)
from realm.data.source import Source

HEADER_AGAIN = "header in the middle of the table"
TEXTLESS = (
    "the table has no texts: its items are told apart, and shown, by the column '{}'. To train a model or to look at "
    "items, name the column with the texts with `text`."
)
MOSTLY = 0.5
"""The share of a column's cells unlike those of all others above which it is no annotator's."""
NOBODYS = {"confidence", "date", "difficulty", "domain", "fold", "length", "source", "split", "time", "timestamp"}
"""What columns of numbers or words are called that `wide="rest"` does not take for an annotator's."""


def read_long(file: SourceFile, options: ReadOptions) -> LongTable:
    """One row per annotation."""
    table, source = file.table(), file.source
    ledger, columns, names = _columns(table, options, source, ROLES)
    used = {part for name in names.values() for part in split_columns(name, table.column_names)}
    others = [position for position, name in enumerate(table.column_names) if name not in used]
    rows = np.arange(1, len(table) + 1, dtype=np.int64)
    long = LongTable(columns, rows, source, ledger, names, table.select(others) if others else None)
    is_header = _is_header(columns, names)
    if is_header.any() and options.wants != "items":  # what `cat a.csv b.csv` makes
        ledger.add(HEADER_AGAIN, rows[is_header])
        long = long.take(~is_header)
    return long


def _columns(
    table: pa.Table, options: ReadOptions, source: Source, roles: tuple[str, ...]
) -> tuple[Ledger, dict[str, pa.Array], dict[str, str]]:
    ledger = Ledger()
    columns, names = columns_of(table, options, source, roles)
    if names.get("text") == "":
        ledger.warn(TEXTLESS.format(names["item"]))
    return ledger, columns, names


def _is_header(columns: Mapping[str, pa.Array], names: Mapping[str, str]) -> Mask:
    """Where every cell of a row that has a role is the name of its column. Shape (rows,)."""
    is_header = np.full(len(next(iter(columns.values()))), len(columns) > 1)
    for role, column in columns.items():
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if not is_text or not is_header.any():
            return np.zeros(len(is_header), dtype=bool)
        is_header &= np.asarray(pc.equal(column, names[role] or names["item"]).fill_null(False))
    return is_header


# ---------------------------------------------------------------- wide


def read_wide(file: SourceFile, options: ReadOptions) -> LongTable:
    """One row per item, one column per annotator; a blank is an annotator who did not label the item."""
    table, source = file.table(), file.source
    wide = _annotators(table, options, source)
    own = table.select([name for name in table.column_names if name not in (*wide, *ANNOTATION_COLUMNS)])
    ledger, columns, names = _columns(own, options, source, ("text", *ITEM_ROLES))
    n_rows, n_annotators = len(table), len(wide)
    cells = pa.concat_arrays([as_text(table.column(name), name, source) for name in wide])
    labels = cells.take(pa.array(np.arange(n_rows * n_annotators).reshape(n_annotators, n_rows).T.ravel()))
    has_label = ~blank(labels, label=True)
    cell = np.flatnonzero(has_label)
    if not len(cell):
        raise source.error("the columns of `wide` are blank on every row.")
    unlabelled = ~has_label.reshape(n_rows, n_annotators).any(1)
    has_gold = np.zeros(n_rows, dtype=bool)
    if "gold" in columns:
        has_gold = ~blank(as_text(columns["gold"], names["gold"], source), label=True)
    ledger.add(NO_ANNOTATIONS, np.flatnonzero(unlabelled & ~has_gold) + 1)
    # An item with gold stays though nobody labelled it, in its place, with neither annotator nor label.
    row = np.concatenate([cell // n_annotators, np.flatnonzero(unlabelled & has_gold)])
    nobody = np.arange(len(row)) >= len(cell)
    cell = np.concatenate([cell, np.zeros(len(row) - len(cell), dtype=np.int64)])
    order = np.argsort(row, kind="stable")
    row, cell, nobody = row[order], cell[order], nobody[order]
    columns = {role: column.take(pa.array(row)) for role, column in columns.items()}
    columns["annotator"] = pa.array(wide, pa.large_string()).take(pa.array(cell % n_annotators, mask=nobody))
    columns["label"] = labels.take(pa.array(cell, mask=nobody))
    return LongTable(columns, row + 1, source, ledger, names)


def _annotators(table: pa.Table, options: ReadOptions, source: Source) -> list[str]:
    """The columns of annotators, checked against what is there."""
    for role, column in options.columns(ANNOTATION_ROLES).items():
        raise source.error(f'`{role}="{column}"`: not with `wide`, whose columns are the annotators.')
    wide, there = list(options.wide or ()), table.column_names
    is_rest = wide == [REST]
    for argument, names in (("wide", [] if is_rest else wide), ("ignore", list(options.ignore or ()))):
        if absent := [name for name in names if name not in there]:
            raise source.error(
                f"`{argument}={', '.join(absent)}`: there is no such column. The columns are: {listed(there)}."
            )
        if len(set(names)) < len(names):
            raise source.error(f"`{argument}` lists a column twice.")
    return _rest(table, options, source) if is_rest else wide


def _rest(table: pa.Table, options: ReadOptions, source: Source) -> list[str]:
    """Every column without a role; what does not look like an annotator's is refused."""
    there, ignored = table.column_names, set(options.ignore or ())
    if ambiguous := [name for name in there if name in (REST, *ANNOTATION_COLUMNS) and name not in ignored]:
        raise source.error(
            f"`wide={REST}`: the column '{ambiguous[0]}' is called as in a table with one row per annotation. If it "
            f'has one, leave `wide` out; if not, leave the column out with `ignore="{ambiguous[0]}"`, or list the '
            "columns of annotators."
        )
    roles = resolve_columns(options, there, source, ("text", *ITEM_ROLES))
    taken = {part for name in roles.values() for part in split_columns(name, there)}
    names = [name for name in there if name not in taken and name not in ignored]
    if not names:
        raise source.error(f"`wide={REST}`: no column is left. The columns are: {listed(there)}.")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise source.error(f"the column '{repeated}' appears {names.count(repeated)} times. Rename one.")
    texts = {name: as_text(table.column(name), name, source) for name in names}
    cells = {name: encode(text.filter(pa.array(~blank(text, label=True)))) for name, text in texts.items()}
    odd = _unlike_all_others(cells, has_scores=options.threshold is not None)
    if odd := [name for name in names if name in odd or name.lower() in NOBODYS]:
        columns = listed(odd)
        raise source.error(
            f"`wide={REST}`: most cells of {columns} are like those of no other column, or it is called as a column "
            f"of no annotator is. Name the item's id with `item`; leave out what else is no annotator's with "
            f"`ignore={columns}`; or list the columns of annotators. If they are scores, make two options of them "
            "with `threshold`."
        )
    return names


def _unlike_all_others(cells: Mapping[str, tuple[Codes, pa.Array]], *, has_scores: bool) -> list[str]:
    """The columns most of whose cells are in no other column, or as scores out of all others' range: a note, an id."""
    distinct = {name: values.to_pylist() for name, (_, values) in cells.items()}
    odd = []
    for name, own in distinct.items():
        others = {value for other, values in distinct.items() if other != name for value in values}
        scores = [number(value) for value in others]
        if has_scores:
            low, high = np.nanmin(scores, initial=np.inf), np.nanmax(scores, initial=-np.inf)
            is_unlike = [not low <= number(value) <= high for value in own]
        else:
            is_unlike = [value not in others for value in own]
        codes = cells[name][0]
        if len(cells) > 1 and len(codes) and np.array(is_unlike)[codes].mean() > MOSTLY:
            odd.append(name)
    values = {value for own in distinct.values() for value in own}
    are_scores = not odd and len(values) > MAX_OPTIONS and not np.isnan([number(value) for value in values]).any()
    return list(cells) if are_scores and not has_scores else odd
