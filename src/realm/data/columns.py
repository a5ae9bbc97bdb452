"""From the columns of a source table to columns of text: which column has which role, and what a cell says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.request import ROLES
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
ROWS_NAMED = 5
"""Rows that a message names: enough to see what is wrong, and one line long."""
NAMES_SHOWN = 40
"""Columns that a message lists: all of a usual table, and not the thousands of a broken one."""
UUID_BYTES = 16
EXACT_IN_FLOAT64 = 2**53
"""Whole numbers below it are exact in a float64 column."""


def resolve(named: Mapping[str, str], required: Sequence[str], names: Sequence[str], source: str) -> dict[str, str]:
    """The column of each role that is there: the one `named` for it, or else the one with the role's own name."""
    columns: dict[str, str] = {}
    for role in ROLES:
        column = named.get(role)
        if column is not None:
            for part in column.split(",") if role == "options" and column not in names else [column]:
                if part.strip() not in names and part not in names:
                    raise RealmError(
                        f'{source}: `{role}="{part.strip()}"`: there is no such column. {_there_are(names)}'
                    )
            columns[role] = column
        elif role in names:
            columns[role] = role
        elif role in required:
            raise RealmError(
                f"{source}: there is no column '{role}'. {_there_are(names)} Name the right one with `{role}`."
            )
    for name in {part.strip() for column in columns.values() for part in (column, *column.split(","))}:
        if list(names).count(name) > 1:
            raise RealmError(f"{source}: the column '{name}' appears {list(names).count(name)} times. Rename one.")
    return columns


def _there_are(names: Sequence[str]) -> str:
    shown = ", ".join(str(name) for name in names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
    return f"The columns are: {shown}." if len(names) else "It has no columns."


def take_column(table: pd.DataFrame | pa.Table, name: str, source: str) -> pa.Array | pa.ChunkedArray:
    """One column in Arrow; a DataFrame column of mixed types becomes text."""
    try:
        if isinstance(table, pa.Table):
            return table.column(name)
        series = table[name]
        try:
            return pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return pa.array([_cell(value) for value in series], pa.large_string())
    except UnicodeEncodeError as error:
        raise RealmError(f"{source}: column '{name}' has text that is not valid Unicode: {error.reason}.") from None


def in_one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as a single array; text of any size fits."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _cell(value: Any) -> str | None:
    """What a cell of a mixed column says, in the same words as a column of its own type would."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def as_text(column: pa.Array | pa.ChunkedArray, name: str, source: str) -> pa.LargeStringArray:
    """A column as text: 1.0 of a float column reads "1", True reads "True", NaN is null."""
    column = in_one(column)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.dictionary_decode(), name, source)
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        values = column.to_numpy(zero_copy_only=False)
        finite = np.where(np.isfinite(values), values, 0.5)
        whole = (np.abs(finite) < EXACT_IN_FLOAT64) & (finite % 1 == 0)
        as_whole = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.large_string())
        text = pc.if_else(pa.array(whole), as_whole, column.cast(pa.large_string()))
        return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.large_string()), text)
    if pa.types.is_boolean(kind):
        return pc.if_else(column, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
    if pa.types.is_nested(kind):
        raise RealmError(
            f"{source}: column '{name}' holds lists or objects, not one value per row. "
            "Name another column, or give the format of the export with `format`."
        )
    if pa.types.is_fixed_size_binary(kind):
        if kind.byte_width == UUID_BYTES:
            values = (None if cell is None else str(UUID(bytes=cell)) for cell in column.to_pylist())
            return pa.array(values, pa.large_string())
        column, kind = column.cast(pa.large_binary()), pa.large_binary()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:
            raise RealmError(f"{source}: column '{name}' holds bytes that are not UTF-8 text.") from None
    try:
        return column.cast(pa.large_string())
    except pa.ArrowException:
        raise RealmError(
            f"{source}: column '{name}' has type {kind}, which cannot be read as text. Write it as text."
        ) from None


def blank(column: pa.LargeStringArray, *, nan_words: bool = False) -> Mask:
    """Where a text column is null or blank; with `nan_words` also "nan" and "NaN". Shape (rows,)."""
    empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
    if nan_words:
        empty = pc.or_(empty, pc.is_in(column, value_set=pa.array(["nan", "NaN"], pa.large_string())))
    return np.asarray(pc.fill_null(empty, True).to_numpy(zero_copy_only=False), dtype=bool)


def name_rows(rows: Rows) -> str:
    """Rows as a message names them: "row 3", "rows 3, 8 and 12 more"."""
    shown = [str(int(row)) for row in rows[:ROWS_NAMED]]
    more = len(rows) - len(shown)
    if len(rows) == 1:
        return f"row {shown[0]}"
    return f"rows {', '.join(shown)}" + (f" and {more:,} more" if more else "")
