"""Columns of a source table in Arrow: as text, and as codes into their distinct values so that each is seen once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.source import Source

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]
NULL = -1
"""The code of a null; it also indexes the last entry of a table by code, which is kept for nulls."""
EXACT_IN_FLOAT64 = 2**53
"""Whole numbers below it are exact in a float64 column."""
NO_LABEL_WORDS = ("nan", "NaN", "#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!")
"""What pandas and Excel write where a label is missing."""


def frame_columns(frame: pd.DataFrame, source: Source) -> pa.Table:
    """All columns of a DataFrame in Arrow, by their names as text; one of mixed types becomes text."""
    names = [str(name) for name in frame.columns]
    series = [frame.iloc[:, position] for position in range(len(names))]
    columns = [column_of(list(s) if s.dtype == object else s, n, source) for s, n in zip(series, names, strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def column_of(values: Any, name: str, source: Source) -> pa.Array:
    """Values as one Arrow column; mixed types become text, as JSON would write them."""
    try:
        try:
            column = pa.array(values, from_pandas=True)
            if not (isinstance(values, list) and pa.types.is_floating(column.type) and any(map(_is_lost, values))):
                return column
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass
        return pa.array([cell_text(value) for value in values], pa.large_string())
    except (UnicodeEncodeError, RecursionError) as error:
        raise source.error(f"field '{name}' cannot be read: {getattr(error, 'reason', error)}.") from None


def _is_lost(value: Any) -> bool:
    """Arrow takes a true among floats for a number, and rounds a large whole number there."""
    return isinstance(value, bool) or (isinstance(value, int | np.integer) and abs(int(value)) > EXACT_IN_FLOAT64)


def is_unicode(value: Any) -> bool:
    """Whether all text in a value can be written: it has no lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def cell_text(value: Any) -> str | None:
    """What a cell of a mixed column says, in the same words as a column of its own type would; lists as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return None if value != value else str(int(value)) if value.is_integer() else str(value)
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as a single array; text of any size fits."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The length of each list, 0 for null. Shape (rows,)."""
    return np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int64)


def as_text(column: pa.Array | pa.ChunkedArray, name: str, source: Source) -> pa.LargeStringArray:
    """A column as text: 1.0 of a float column reads "1", True reads "True", NaN is null."""
    column = as_array(column)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_floating(kind):
        return _floats_as_text(column)
    if pa.types.is_boolean(kind):
        return pc.if_else(column, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
    if kind == pa.binary(16):  # how Parquet holds a UUID
        return pa.array([cell and str(UUID(bytes=cell)) for cell in column.to_pylist()], pa.large_string())
    try:
        if not pa.types.is_nested(kind):
            return column.cast(pa.large_string())
    except pa.ArrowException:
        pass
    what = "lists or objects" if pa.types.is_nested(kind) else f"{kind}, which cannot be read as text"
    raise source.error(
        f"column '{name}' holds {what}. Name another column, or give the format of the export with `format`."
    )


def _floats_as_text(column: pa.Array) -> pa.LargeStringArray:
    """Each number in the fewest digits that mean it in its own precision."""
    values = np.asarray(column.cast(pa.float64()))
    finite = np.where(np.isfinite(values), values, 0.5)  # any fraction would do
    whole = (np.abs(finite) < EXACT_IN_FLOAT64) & (finite % 1 == 0)
    as_whole = pa.array(np.where(whole, finite, 0).astype(np.int64)).cast(pa.large_string())
    text = pc.if_else(pa.array(whole), as_whole, column.cast(pa.large_string()))
    return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.large_string()), text)


def blank(column: pa.LargeStringArray, *, label: bool = False) -> Mask:
    """Where a text column is null or blank; of a `label` also "nan" and the errors of Excel. Shape (rows,)."""
    words = ["", *(NO_LABEL_WORDS if label else ())]
    is_blank = pc.is_in(pc.utf8_trim_whitespace(column), value_set=pa.array(words, column.type))
    return np.asarray(pc.or_(is_blank, column.is_null()), dtype=bool)


def number(text: str) -> float:
    """The number that a text says; NaN where it says none (Python alone reads 1_0 as 10)."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return float("nan")


@dataclass(frozen=True)
class Categorical:
    """A column by its distinct values (pandas: Categorical)."""

    codes: Codes  # index into `values`, in order of first appearance; -1 is null. Shape (rows,)
    values: list[Any]  # texts, or tuples of options; after rows were left out some may be without any

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray, name: str, source: Source) -> Categorical:
        codes, values = encode(column if is_text(column.type) else as_text(column, name, source))
        return cls(codes, values.to_pylist())

    def at(self, row: int) -> str:
        return str(self.values[self.codes[row]])

    def text(self, rows: Codes) -> pa.LargeStringArray:
        """The texts of these rows."""
        codes = self.codes[rows]
        return pa.array(self.values, pa.large_string()).take(pa.array(codes, mask=codes == NULL))

    def take(self, rows: Codes | Mask) -> Categorical:
        return Categorical(self.codes[rows], self.values)

    def null_where(self, mask: Mask) -> Categorical:
        """The same column with null where `mask` is true."""
        return Categorical(np.where(mask, NULL, self.codes), self.values)

    def counts(self) -> dict[Any, int]:
        """How many rows have each of the distinct values, of those that some row has."""
        counts = np.bincount(self.codes[self.codes != NULL], minlength=len(self.values)).tolist()
        return {value: count for value, count in zip(self.values, counts, strict=True) if count}

    def missing(self, *, label: bool = False) -> Mask:
        """Where the column is null or blank; see `blank`. Shape (rows,)."""
        return np.append(blank(pa.array(self.values, pa.large_string()), label=label), True)[self.codes]

    def where(self, values: Mapping[Any, Any] | Sequence[Any] | set[Any]) -> Mask:
        """Which rows have one of these values. Shape (rows,)."""
        return np.array([*(value in values for value in self.values), False])[self.codes]

    def renamed(self, names: Mapping[str, str | None]) -> tuple[Categorical, Mask]:
        """The column with other texts (None: null) for some of its own, and which rows changed. Shape (rows,)."""
        names = {old: new for old, new in names.items() if old != new}
        changed = self.where(names)
        if not changed.any():
            return self, changed
        codes, values = encode(pa.array([names.get(each, each) for each in self.values], pa.large_string()))
        return Categorical(np.append(codes, NULL)[self.codes], values.to_pylist()), changed


def encode(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Codes in order of first appearance (null is -1) and the distinct values. Shapes (rows,), (values,)."""
    encoded = (as_array(column) if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    return np.asarray(encoded.indices.fill_null(NULL), dtype=np.int64), encoded.dictionary


def combine(codes: Sequence[Codes]) -> tuple[Codes, Codes]:
    """One code per distinct combination, in order of first appearance, and the row of each's first appearance."""
    varying = [code for code in codes if code.any()] or [codes[0]]
    combined = encode(pa.array(varying[0]))[0]
    for code in varying[1:]:
        combined = encode(pa.array(combined * (int(code.max()) + 2) + code + 1))[0]
    first = np.empty(int(combined.max(initial=-1)) + 1, dtype=np.int64)
    first[combined[::-1]] = np.arange(len(combined) - 1, -1, -1)
    return combined, first
