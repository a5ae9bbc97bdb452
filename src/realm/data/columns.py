"""Columns of a source table in Arrow, as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
ROWS_NAMED = 5
"""Rows that a message names: enough to see what is wrong, and one line long."""
UUID_BYTES = 16  # 128 bits, by its definition (RFC 9562)
EXACT_IN_FLOAT64 = 2**53
"""Whole numbers below it are exact in a float64 column."""
NOT_WHOLE = 0.5
"""Stands in for infinities where whole numbers are looked for: any fraction would do."""


def take_column(table: pd.DataFrame | pa.Table, name: str, source: str) -> pa.Array | pa.ChunkedArray:
    """One column in Arrow; a DataFrame column of mixed types becomes text."""
    if isinstance(table, pa.Table):
        return table.column(name)
    position = [str(column) for column in table.columns].index(name)
    return _in_arrow(table.iloc[:, position], name, source)


def frame_columns(frame: pd.DataFrame, source: str) -> pa.Table:
    """All columns of a DataFrame in Arrow, by their names as text."""
    names = [str(name) for name in frame.columns]
    columns = [_in_arrow(frame.iloc[:, position], name, source) for position, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names=names)


def _in_arrow(series: pd.Series[Any], name: str, source: str) -> pa.Array | pa.ChunkedArray:
    try:
        try:
            return pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return pa.array([cell_text(value) for value in series], pa.large_string())
    except UnicodeEncodeError as error:
        raise RealmError(f"{source}: column '{name}' has text that is not valid Unicode: {error.reason}.") from None


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as a single array; text of any size fits."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The length of each list, 0 for null. Shape (rows,)."""
    return np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int64)


def cell_text(value: Any) -> str | None:
    """What a cell of a mixed column says, in the same words as a column of its own type would; lists as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return None if value != value else str(int(value)) if value.is_integer() else str(value)
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


def as_text(column: pa.Array | pa.ChunkedArray, name: str, source: str) -> pa.LargeStringArray:
    """A column as text: 1.0 of a float column reads "1", True reads "True", NaN is null."""
    column = as_array(column)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.dictionary_decode(), name, source)
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        values = np.asarray(column)
        finite = np.where(np.isfinite(values), values, NOT_WHOLE)
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
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == UUID_BYTES:
        uuids = (None if cell is None else str(UUID(bytes=cell)) for cell in column.to_pylist())
        return pa.array(uuids, pa.large_string())
    try:
        if pa.types.is_fixed_size_binary(kind):
            column = column.cast(pa.large_binary())
        return column.cast(pa.large_string())
    except pa.ArrowException:
        if "binary" in str(kind):
            raise RealmError(f"{source}: column '{name}' holds bytes that are not UTF-8 text.") from None
        raise RealmError(
            f"{source}: column '{name}' has type {kind}, which cannot be read as text. Write it as text."
        ) from None


def blank(column: pa.LargeStringArray, *, nan_words: bool = False) -> Mask:
    """Where a text column is null or blank; with `nan_words` also "nan" and "NaN". Shape (rows,)."""
    empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
    if nan_words:
        empty = pc.or_(empty, pc.is_in(column, value_set=pa.array(["nan", "NaN"], pa.large_string())))
    return np.asarray(pc.fill_null(empty, True), dtype=bool)


def number(text: str) -> float:
    """The number that a text says; NaN where it says none (Python alone reads 1_0 as 10)."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return float("nan")


def name_rows(rows: Rows) -> str:
    """Rows as a message names them: "row 3", "rows 3, 8 and 12 more"."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    more = f" and {len(rows) - ROWS_NAMED:,} more" if len(rows) > ROWS_NAMED else ""
    return f"rows {', '.join(str(int(row)) for row in rows[:ROWS_NAMED])}{more}"
