"""CSV and TSV, every cell as text, with nothing lost on the way: bad quoting and ragged rows are errors."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from realm.data.readers.encodings import USUAL
from realm.data.readers.unpacking import in_arrow
from realm.errors import RealmError

BLOCK = 1 << 23
"""Bytes parsed at a time: 8 MB keeps all of Arrow's threads busy, and a longer row is read with a larger block."""
MAX_BLOCK = (1 << 31) - 1
"""The largest block that Arrow takes: its size is an int32."""
QUOTE, NEWLINE, RETURN = b'"\n\r'
Bytes = npt.NDArray[np.uint8]
_RECORD = re.compile(rb'[\r\n]*((?:[^"\r\n]+|"[^"]*"?)*)')


def read_delimited(data: pa.Buffer, kind: str, source: str) -> pa.Table:
    """The table with every column as text. `data` is in Arrow's own memory and has lost its byte order mark."""
    check_utf8(data, source)
    header = first_record(data)
    delimiter = _delimiter(header, kind)
    quoted = _check_quotes(data, delimiter, source)
    names = _names(header, delimiter, source)
    try:
        return _parse(data, delimiter, quoted, names, source)
    except RealmError:
        _refuse_ragged(data, delimiter, quoted, names, source)
        raise


def _refuse_ragged(data: pa.Buffer, delimiter: str, quoted: bool, names: list[str], source: str) -> None:
    """Name the rows that have another number of cells than the header."""
    ragged: list[Any] = []

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    try:
        _parse(data, delimiter, quoted, names, source, skip=skip)
    except RealmError:
        return
    if ragged:
        row = ragged[0]
        more = f" ({len(ragged):,} such rows)" if len(ragged) > 1 else ""
        raise RealmError(
            f"{source}, row {row.number - 1}: {row.actual_columns} cells where the header has {row.expected_columns}"
            f"{more}. A text with a separator in it must be quoted."
        )


def check_utf8(data: bytes | pa.Buffer, source: str) -> None:
    """Refuse bytes that are not UTF-8, naming the first of them."""
    whole = pa.py_buffer(np.array([0, len(data)], dtype=np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, whole, pa.py_buffer(data)).validate(full=True)
        return
    except pa.ArrowInvalid:
        pass
    try:
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        line = bytes(data[: error.start]).count(b"\n") + 1
        raise RealmError(
            f"{source}, line {line}: byte {error.start:,} (0x{error.object[error.start]:02x}) is not UTF-8 text. "
            f"Name its encoding with `encoding` ({USUAL}), or save the file as UTF-8."
        ) from None


def first_record(data: bytes | pa.Buffer) -> bytes:
    """The bytes of the first record: up to the first line end that is not within quotes."""
    match = _RECORD.match(data)
    assert match is not None  # the pattern matches nothing at all, too
    return match[1]


def _delimiter(header: bytes, kind: str) -> str:
    """A .csv may well be separated by semicolons or tabs: the header says."""
    return "\t" if kind == "tsv" else max(",\t;", key=lambda mark: header.count(mark.encode()))


def _names(header: bytes, delimiter: str, source: str) -> list[str]:
    try:
        head = pa_csv.read_csv(
            pa.BufferReader(in_arrow(header + b"\n")),
            pa_csv.ReadOptions(block_size=len(header) + 2, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        )
        return list(head.column_names)
    except pa.ArrowException as error:
        raise RealmError(f"{source}: the header cannot be read ({error}).") from None


def _parse(
    data: pa.Buffer,
    delimiter: str,
    quoted: bool,
    names: list[str],
    source: str,
    *,
    skip: Callable[[Any], str] | None = None,
    block: int = BLOCK,
) -> pa.Table:
    """The table. Rows with another number of cells than the header are an error, or left to `skip`.

    Where Python is asked, one thread reads: others could still hold the function when the interpreter ends.
    """
    try:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(block_size=block, use_threads=skip is None),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted, invalid_row_handler=skip),
            pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=False, check_utf8=False
            ),
        )
    except pa.ArrowException as error:
        if "straddling" in str(error) and block <= len(data):
            larger = min(len(data) + 1, MAX_BLOCK)
            return _parse(data, delimiter, quoted, names, source, skip=skip, block=larger)
        if "Empty CSV file" in str(error):
            raise RealmError(f"{source}: a header and no rows.") from None
        raise RealmError(f"{source}: cannot be read as a table ({error}).") from None


def _check_quotes(data: pa.Buffer, delimiter: str, source: str) -> bool:
    """Whether there are quotes; ones that would make rows run together are refused.

    Well-formed quoting is recognised by counting alone.
    """
    count = _count_quotes(np.frombuffer(data, dtype=np.uint8), ord(delimiter))
    if count is not None:
        return count > 0
    limit = csv.field_size_limit(len(data) + 1)
    reader = csv.reader(io.StringIO(str(data, "utf-8"), newline=""), delimiter=delimiter, strict=True)
    row = -1
    try:
        for cells in reader:
            row += bool(cells)
    except csv.Error as error:
        raise RealmError(
            f"{source}, row {row + 1}: a quote that begins a cell is not closed as it should be ({error}). "
            'Write a quote within a quoted cell twice (""), or mend the file if it is cut short.'
        ) from None
    finally:
        csv.field_size_limit(limit)
    return True


def row_ends(rows: bytes, header: bytes, kind: str) -> npt.NDArray[np.int64] | None:
    """Where each row but a last unfinished one ends, behind its line end; None where counting quotes cannot tell."""
    data = np.frombuffer(rows, dtype=np.uint8)
    quotes = np.cumsum(data == QUOTE, dtype=np.uint8)  # it may wrap: only odd or even counts
    lines = np.flatnonzero(data == NEWLINE)
    ends = lines[quotes[lines] % 2 == 0] + 1
    whole = data[: ends[-1]] if len(ends) else data[:0]
    return None if _count_quotes(whole, ord(_delimiter(header, kind))) is None else ends


def _count_quotes(data: Bytes, delimiter: int) -> int | None:
    """How many quotes there are; None unless every odd one opens a cell or follows a quote, and every even one closes
    a cell or precedes one."""
    ends = np.zeros(256, dtype=bool)  # one entry for every value of a byte
    ends[[QUOTE, delimiter, NEWLINE, RETURN]] = True
    count = 0
    for start in range(0, len(data), BLOCK):
        at = np.flatnonzero(data[start : start + BLOCK] == QUOTE) + start
        opening = at[count % 2 :: 2]
        closing = at[1 - count % 2 :: 2]
        before, after = opening[opening > 0] - 1, closing[closing < len(data) - 1] + 1
        if not (ends[data[before]].all() and ends[data[after]].all()):
            return None
        count += len(at)
    return count if count % 2 == 0 else None
