"""Plain tables: one row per annotation (long), or one row per item and one column per annotator (wide)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from realm.data.categorical import Codes, encode
from realm.data.columns import as_array, as_text, blank, is_list, list_lengths, number
from realm.data.ledger import Ledger
from realm.data.options import MAX_OPTIONS
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANNOTATIONS, LongTable, resolve_multiple
from realm.data.roles import ANNOTATION_COLUMNS, ANNOTATION_ROLES, ITEM_ROLES, ReadRequest, listed, split_columns
from realm.errors import RealmError

REST = "rest"
"""In place of a list of columns: every one that has no role."""
MOSTLY_OWN = 0.5
"""The share of a column's cells whose answer no other column has, above which it is no annotator's."""
NOBODY = -1
"""The cell of a row for an item that no annotator labelled."""


def read_long(file: SourceFile, request: ReadRequest) -> LongTable:
    """One row per annotation. A label that is a list of one is that one; of several, as `multi` says."""
    table, source, ledger = file.table(), file.source, Ledger()
    columns = request.resolve(table.column_names, source)
    rows = np.arange(1, len(table) + 1, dtype=np.int64)
    if "label" in columns and len(table) and is_list(table.column(columns["label"]).type):
        lists = as_array(table.column(columns["label"]))
        counts = list_lengths(lists)
        resolve_multiple(rows[counts > 1], request.multi, ledger, source)
        labels = lists.flatten().take(pa.array(np.cumsum(counts) - counts, mask=counts == 0))
        table = table.set_column(table.column_names.index(columns["label"]), columns["label"], labels)
        if request.multi == "drop":
            single = np.flatnonzero(counts < 2)
            table, rows = table.take(pa.array(single)), rows[single]
    return LongTable(table, rows, ledger)


def _select(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """The columns of these roles, once each; several may stand in one name (options), comma separated."""
    names = table.column_names
    return table.select(list(dict.fromkeys(part for name in columns.values() for part in split_columns(name, names))))


@dataclass(frozen=True)
class Wide:
    """The columns of annotators in a table with one row per item.

    | field | meaning |
    |---|---|
    | columns | their names; with `rest` empty |
    | rest | every column that has no role and is not in `ignore` is an annotator's |
    | scores | the cells are scores, which a threshold will cut |
    """

    columns: tuple[str, ...]
    rest: bool = False
    ignore: tuple[str, ...] = ()
    scores: bool = False

    @classmethod
    def of(cls, wide: Sequence[str] | str, ignore: Sequence[str] | None, scores: bool = False) -> Wide:
        columns = (wide,) if isinstance(wide, str) else tuple(wide)
        return cls((), True, tuple(ignore or ()), scores) if columns == (REST,) else cls(columns)

    def names(self, table: pa.Table, request: ReadRequest, source: str) -> list[str]:
        """The columns of annotators, checked against what is there."""
        for role, column in request.columns(ANNOTATION_ROLES).items():
            raise RealmError(f'{source}: `{role}="{column}"`: not with `wide`, whose columns are the annotators.')
        there = table.column_names
        for argument, names in (("wide", self.columns), ("ignore", self.ignore)):
            if absent := [name for name in names if name not in there]:
                raise RealmError(
                    f"{source}: `{argument}={', '.join(absent)}`: there is no such column. The columns are: "
                    f"{listed(there)}."
                )
            if len(set(names)) < len(names):
                raise RealmError(f"{source}: `{argument}` lists a column twice.")
        return self._rest(table, request, source) if self.rest else list(self.columns)

    def _rest(self, table: pa.Table, request: ReadRequest, source: str) -> list[str]:
        there = table.column_names
        if REST in there:
            raise RealmError(f"{source}: `wide={REST}`: a column is called so. List the columns of annotators.")
        if ambiguous := [name for name in there if name in ANNOTATION_COLUMNS and name not in self.ignore]:
            raise RealmError(
                f"{source}: `wide={REST}`: the column '{ambiguous[0]}' is called as in a table with one row per "
                f"annotation. If it has one, leave `wide` out; if not, leave the column out with "
                f'`ignore="{ambiguous[0]}"`, or list the columns of annotators.'
            )
        roles = request.resolve(there, source, roles=("text", *ITEM_ROLES))
        taken = {part for name in roles.values() for part in split_columns(name, there)}
        names = [name for name in there if name not in taken and name not in self.ignore]
        if not names:
            raise RealmError(f"{source}: `wide={REST}`: no column is left. The columns are: {listed(there)}.")
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise RealmError(f"{source}: the column '{repeated}' appears {names.count(repeated)} times. Rename one.")
        _refuse_odd_columns(table, names, self.scores, source)
        return names


def _refuse_odd_columns(table: pa.Table, names: Sequence[str], scores: bool, source: str) -> None:
    """Refuse a column most of whose cells are like nobody else's: a note, an id, a time.

    Scores are unlike if they lie outside the range of all the others, labels if no other column has them.
    """
    if len(names) < 2:
        return
    texts = [as_text(table.column(name), name, source) for name in names]
    columns = [encode(text.filter(pa.array(~blank(text, nan_words=True)))) for text in texts]
    odd = _out_of_range(columns) if scores else _unshared(columns)
    numbers = {answer: number(answer) for _, values in columns for answer in values.to_pylist()}
    if (
        not scores
        and (sum(odd) > len(names) / 2 or (not any(odd) and len(numbers) > MAX_OPTIONS))
        and not any(map(math.isnan, numbers.values()))
    ):
        raise RealmError(
            f"{source}: `wide={REST}`: the columns have {len(numbers):,} different numbers. If they are scores, make "
            "two options of them with `threshold`, or round them to a few."
        )
    if not any(odd):
        return
    columns_named = listed([name for name, is_odd in zip(names, odd, strict=True) if is_odd])
    raise RealmError(
        f"{source}: `wide={REST}`: most cells of {columns_named} are like those of no other column. What is no "
        f"annotator's is left out with `ignore={columns_named}`."
    )


def _unshared(columns: Sequence[tuple[Codes, pa.Array]]) -> list[bool]:
    """Which columns have mostly answers that no other has, from the codes and the distinct values of each."""
    seen = Counter(answer for _, values in columns for answer in values.to_pylist())
    own = [np.array([seen[answer] == 1 for answer in values.to_pylist()], dtype=bool) for _, values in columns]
    return [len(codes) > 0 and own[i][codes].mean() > MOSTLY_OWN for i, (codes, _) in enumerate(columns)]


def _out_of_range(columns: Sequence[tuple[Codes, pa.Array]]) -> list[bool]:
    """Which columns have mostly numbers below or above all those of the others, or no numbers at all."""
    cells = [np.array([number(answer) for answer in values.to_pylist()])[codes] for codes, values in columns]
    odd = []
    for index, own in enumerate(cells):
        others = np.concatenate([other for at, other in enumerate(cells) if at != index])
        others = others[np.isfinite(others)]
        inside = (own >= others.min()) & (own <= others.max()) if len(others) else np.zeros(len(own), dtype=bool)
        odd.append(len(own) > 0 and bool((~inside).mean() > MOSTLY_OWN))
    return odd


def read_wide(file: SourceFile, request: ReadRequest, columns_of_annotators: Wide) -> LongTable:
    """One row per item, one column per annotator; a blank is an annotator who did not label the item."""
    table, source, ledger = file.table(), file.source, Ledger()
    wide = columns_of_annotators.names(table, request, source)
    names = [name for name in table.column_names if name not in (*wide, *ANNOTATION_COLUMNS)]
    columns = request.resolve(names, source, roles=("text", *ITEM_ROLES))
    n_rows, n_annotators = len(table), len(wide)
    cells = pa.concat_arrays([as_text(table.column(name), name, source) for name in wide])
    row_by_row = pa.array(np.arange(n_rows * n_annotators).reshape(n_annotators, n_rows).T.ravel())
    labels = cells.take(row_by_row)
    has_label = ~blank(labels, nan_words=True)
    cell = np.flatnonzero(has_label)
    if not len(cell):
        raise RealmError(f"{source}: the columns of `wide` are blank on every row.")
    unlabelled = ~has_label.reshape(n_rows, n_annotators).any(1)
    has_gold = np.zeros(n_rows, dtype=bool)
    if gold := columns.get("gold"):
        has_gold = ~blank(as_text(table.column(gold), gold, source), nan_words=True)
    ledger.add(NO_ANNOTATIONS, np.flatnonzero(unlabelled & ~has_gold) + 1)
    # An item with gold stays though nobody labelled it, in its place, with neither annotator nor label.
    row = np.concatenate([cell // n_annotators, np.flatnonzero(unlabelled & has_gold)])
    cell = np.concatenate([cell, np.full(len(row) - len(cell), NOBODY)])
    order = np.argsort(row, kind="stable")
    row, cell = row[order], cell[order]
    annotators = pa.array(list(wide), pa.large_string()).take(pa.array(cell % n_annotators, mask=cell == NOBODY))
    long = _select(table, columns).take(pa.array(row))
    long = long.append_column("annotator", annotators)
    long = long.append_column("label", labels.take(pa.array(cell, mask=cell == NOBODY)))
    return LongTable(long, row + 1, ledger)
