"""Columns of a source table in Arrow: as text, and as codes into their distinct values so that each is seen once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
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
UUID_BYTES = 16  # 128 bits, by its definition (RFC 9562)
EXACT_IN_FLOAT64 = 2**53
"""Whole numbers below it are exact in a float64 column."""
NO_LABEL_WORDS = ("nan", "NaN", "#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!")
"""What pandas and Excel write where a label is missing."""
_WHOLE = re.compile(r"^-?[0-9]+(\.0+)?$")


def frame_columns(frame: pd.DataFrame, source: Source) -> pa.Table:
    """All columns of a DataFrame in Arrow, by their names as text; one of mixed types becomes text."""
    names = [str(name) for name in frame.columns]
    columns = []
    for position, name in enumerate(names):
        series = frame.iloc[:, position]
        if series.dtype == object:
            columns.append(column_of(list(series), name, source))
            continue
        try:
            columns.append(pa.array(series, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            columns.append(pa.array([cell_text(value) for value in series], pa.large_string()))
        except UnicodeEncodeError as error:
            raise source.error(f"column '{name}' has text that is not valid Unicode: {error.reason}.") from None
    return pa.Table.from_arrays(columns, names=names)


def column_of(values: list[Any], name: str, source: Source) -> pa.Array:
    """Python values as one Arrow column; mixed types become text, as JSON would write them."""
    try:
        try:
            column = pa.array(values, from_pandas=True)
            if not pa.types.is_floating(column.type) or not any(map(_is_lost_in_floats, values)):
                return column
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass
        return pa.array([cell_text(value) for value in values], pa.large_string())
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values, 1) if not is_unicode(value))
        raise source.error(f"field '{name}' holds half a character (a lone surrogate).", [row]) from None
    except RecursionError:
        raise source.error(f"field '{name}' is nested too deeply.") from None


def _is_lost_in_floats(value: Any) -> bool:
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


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The length of each list, 0 for null. Shape (rows,)."""
    return np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int64)


def lists_as_json(column: pa.Array) -> pa.LargeStringArray:
    """A column of lists as text: one value as itself, several as JSON, none as null."""
    texts = []
    for cell in column.to_pylist():
        values = [value for value in cell or () if value is not None and value != ""]
        texts.append(None if not values else cell_text(values[0] if len(values) == 1 else values))
    return pa.array(texts, pa.large_string())


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
    if pa.types.is_nested(kind):
        raise source.error(
            f"column '{name}' holds lists or objects, not one value per row. "
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
            raise source.error(f"column '{name}' holds bytes that are not UTF-8 text.") from None
        raise source.error(
            f"column '{name}' has type {kind}, which cannot be read as text. Write it as text."
        ) from None


def _floats_as_text(column: pa.Array) -> pa.LargeStringArray:
    """Each number in the fewest digits that mean it in its own precision."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    values = np.asarray(column.cast(pa.float64()))
    finite = np.where(np.isfinite(values), values, 0.5)  # any fraction would do
    whole = (np.abs(finite) < EXACT_IN_FLOAT64) & (finite % 1 == 0)
    as_whole = pa.array(np.where(whole, finite, 0).astype(np.int64)).cast(pa.large_string())
    text = pc.if_else(pa.array(whole), as_whole, column.cast(pa.large_string()))
    return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.large_string()), text)


def blank(column: pa.LargeStringArray, *, label: bool = False) -> Mask:
    """Where a text column is null or blank; of a `label` also "nan" and the errors of Excel. Shape (rows,)."""
    trimmed = pc.utf8_trim_whitespace(column)
    empty = pc.equal(trimmed, "")
    if label:
        empty = pc.or_(empty, pc.is_in(trimmed, value_set=pa.array(NO_LABEL_WORDS, pa.large_string())))
    return np.asarray(pc.fill_null(empty, True), dtype=bool)


def number(text: str) -> float:
    """The number that a text says; NaN where it says none (Python alone reads 1_0 as 10)."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return float("nan")


# ---------------------------------------------------------------- codes


@dataclass(frozen=True)
class Categorical:
    """A text column (pandas: Categorical).

    | field | shape | meaning |
    |---|---|---|
    | codes | (rows,) | index into `values`, in order of first appearance; -1 is null |
    | values | (distinct,) | the distinct texts; after rows were left out some may be without any |
    """

    codes: Codes
    values: pa.LargeStringArray

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray, name: str, source: Source) -> Categorical:
        kind = column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            column = as_text(column, name, source)
        codes, values = encode(column)
        return cls(codes, values.cast(pa.large_string()))

    def at(self, row: int) -> str:
        return str(self.values[int(self.codes[row])].as_py())

    def text(self, rows: Codes | slice = slice(None)) -> pa.LargeStringArray:
        """The texts of these rows, by default of all."""
        codes = self.codes[rows]
        return self.values.take(pa.array(codes, mask=codes == NULL))

    def filter(self, mask: Mask) -> Categorical:
        """The rows where `mask` is true."""
        return Categorical(self.codes[mask], self.values)

    def null_where(self, mask: Mask) -> Categorical:
        """The same column with null where `mask` is true."""
        return Categorical(np.where(mask, NULL, self.codes), self.values)

    def occurring(self) -> list[str | None]:
        """The distinct texts by code, None for those that no row has. Shape (distinct,)."""
        counts = self.counts()
        return [text if count else None for text, count in zip(self.values.to_pylist(), counts, strict=True)]

    def counts(self) -> Codes:
        """How many rows have each of the distinct texts. Shape (distinct,)."""
        return np.bincount(self.codes[self.codes != NULL], minlength=len(self.values))

    def is_valid(self) -> Mask:
        return np.asarray(self.codes != NULL)

    def missing(self, *, label: bool = False) -> Mask:
        """Where the column is null or blank; see `blank`. Shape (rows,)."""
        return np.append(blank(self.values, label=label), True)[self.codes]

    def renamed(self, rename: Callable[[str], str | None]) -> tuple[Categorical, Mask]:
        """The column with other texts (None: null) for its distinct ones, and which rows changed. Shape (rows,)."""
        old = self.values.to_pylist()
        new = [rename(text) for text in old]
        if new == old:
            return self, np.zeros(len(self.codes), dtype=bool)
        codes, values = encode(pa.array(new, pa.large_string()))
        changed = np.array([*(before != after for before, after in zip(old, new, strict=True)), False])
        return Categorical(np.append(codes, NULL)[self.codes], values), changed[self.codes]

    def whole_numbers(self, exceptions: Collection[str] = ()) -> tuple[Categorical, Mask]:
        """Where every cell is a whole number, "1.0" becomes "1". Returns the column and which rows changed.

        A spreadsheet or a column with gaps turns 1 into 1.0; as labels they are one. A column in which any cell is
        something else ("1.5", "v1.0") is left alone, and so are the spellings in `exceptions`.
        """
        texts = {text for text in self.occurring() if text is not None and text not in exceptions}
        if not any("." in text for text in texts) or not all(_WHOLE.match(text) for text in texts):
            return self, np.zeros(len(self.codes), dtype=bool)
        return self.renamed(lambda text: text.split(".")[0] if text in texts else text)


def encode(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Codes in order of first appearance (null is -1) and the distinct values. Shapes (rows,), (values,)."""
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], encoded.type)
    return np.asarray(encoded.indices.fill_null(NULL), dtype=np.int64), encoded.dictionary


def renumber(codes: Codes) -> tuple[Codes, Codes]:
    """Codes without gaps, in order of first appearance, and the old code of each. Shapes (rows,), (distinct,)."""
    highest = np.maximum.accumulate(codes)
    if len(codes) and codes[0] == 0 and codes.min() == 0 and (np.diff(highest) <= 1).all():
        return codes, np.arange(int(highest[-1]) + 1)
    dense, old_codes = encode(pa.array(codes))
    return dense, np.asarray(old_codes, dtype=np.int64)


def combine(codes: Sequence[Codes]) -> tuple[Codes, Codes]:
    """One code per distinct combination, in order of first appearance, and the row of each's first appearance."""
    varying = [code for code in codes if code.any()] or [codes[0]]
    combined = renumber(varying[0])[0]
    for code in varying[1:]:
        combined = renumber(combined * (int(code.max(initial=0)) + 2) + code + 1)[0]
    first = np.empty(int(combined.max(initial=-1)) + 1, dtype=np.int64)
    first[combined[::-1]] = np.arange(len(combined) - 1, -1, -1)
    return combined, first
