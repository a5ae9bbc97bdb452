"""A text column as codes into its distinct values (pandas: Categorical), so that each value is looked at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.data.columns import Mask, as_text, blank

Codes = npt.NDArray[np.int64]
NULL = -1
"""The code of a null; it also indexes the last entry of a table by code, which is kept for nulls."""
_WHOLE = re.compile(r"^-?[0-9]+(\.0+)?$")


@dataclass(frozen=True)
class Categorical:
    """A text column.

    | field | shape | meaning |
    |---|---|---|
    | codes | (rows,) | index into `values`, in order of first appearance; -1 is null |
    | values | (distinct,) | the distinct texts; after rows were left out some may be without any |
    """

    codes: Codes
    values: pa.LargeStringArray

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray, name: str, source: str) -> Categorical:
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

    def is_valid(self) -> Mask:
        return np.asarray(self.codes != NULL)

    def missing(self, *, nan_words: bool = False) -> Mask:
        """Where the column is null or blank; with `nan_words` also "nan" and "NaN". Shape (rows,)."""
        return np.append(blank(self.values, nan_words=nan_words), True)[self.codes]

    def without_blanks(self, *, nan_words: bool = False) -> Categorical:
        """The same column with null for blanks."""
        return Categorical(np.where(self.missing(nan_words=nan_words), NULL, self.codes), self.values)

    def whole_numbers(self, exceptions: Collection[str] = ()) -> tuple[Categorical, Mask]:
        """Where every cell is a whole number, "1.0" becomes "1". Returns the column and which rows changed.

        A spreadsheet or a column with gaps turns 1 into 1.0; as labels they are one. A column in which any cell is
        something else ("1.5", "v1.0") is left alone, and so are the spellings in `exceptions`.
        """
        occurs = np.zeros(len(self.values) + 1, dtype=bool)
        occurs[self.codes] = True
        texts = self.values.to_pylist()
        candidates = {text for code, text in enumerate(texts) if occurs[code] and text not in exceptions}
        if not any("." in text for text in candidates) or not all(_WHOLE.match(text) for text in candidates):
            return self, np.zeros(len(self.codes), dtype=bool)
        whole = [text.split(".")[0] if text in candidates else text for text in texts]
        changed = np.array([*(old != new for old, new in zip(texts, whole, strict=True)), False])
        codes, values = encode(pa.array(whole, pa.large_string()))
        return Categorical(np.append(codes, NULL)[self.codes], values), changed[self.codes]


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
