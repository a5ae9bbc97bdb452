"""What bytes say: CSV and TSV with every cell as text, JSON, JSON lines, Parquet and Arrow; whole or in parts.

Nothing is lost on the way: bad quoting, ragged rows, bytes that are not UTF-8 and half characters are errors that say
where they are.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.data.columns import column_of, is_unicode
from realm.data.source import Source
from realm.errors import RealmError
from realm.files import parse_json

USUAL = 'often "cp1252" for files that Excel saved on Windows, or "utf-16"'
"""What an encoding often is."""
BLOCK = 1 << 23
"""Bytes parsed at a time: 8 MB keeps all of Arrow's threads busy, and a longer row is read with a larger block."""
PART_BLOCK = 1 << 20
"""Bytes parsed at a time where a table is read in parts: Arrow reads some blocks ahead."""
MAX_BLOCK = (1 << 31) - 1
"""The largest block that Arrow takes: its size is an int32."""
QUOTE, NEWLINE, RETURN = b'"\n\r'
PARQUET_ROWS = 1 << 16
"""Rows of Parquet that are unpacked at a time: those that Arrow itself takes."""
ARROW_FILE, ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""How the two forms of Arrow's own files begin."""
_FIRST_RECORD = re.compile(rb'[\r\n]*((?:[^"\r\n]+|"[^"]*"?)*)')


def in_arrow(data: bytes) -> pa.Buffer:
    """A copy of the bytes in Arrow's own memory, which its threads may release whenever they are done."""
    stream = pa.BufferOutputStream()
    stream.write(data)
    return stream.getvalue()


def check_size(unpacked: int, limit: float, name: str) -> None:
    """Refuse what unpacks to more bytes than are allowed."""
    if unpacked > limit:
        raise RealmError(
            f"{name}: unpacks to more than {limit / 1e9:g} GB, and may be made to fill the memory. If you know where "
            "it is from, allow more with `max_unpacked_gb`."
        )


def check_utf8(data: bytes | pa.Buffer, source: Source) -> None:
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


# ---------------------------------------------------------------- CSV and TSV


class _Delimited:
    """A CSV or TSV: its header, its separator and whether there are quotes in it, all checked."""

    def __init__(self, data: pa.Buffer, kind: str, source: Source) -> None:
        self.data, self.source = data, source
        check_utf8(data, source)
        match = _FIRST_RECORD.match(data)
        header = match[1] if match else b""
        # a .csv may well be separated by semicolons or tabs: the header says
        self.delimiter = "\t" if kind == "tsv" else max(",\t;", key=lambda mark: header.count(mark.encode()))
        self.has_quotes = self._check_quotes()
        try:
            head = pa_csv.read_csv(
                pa.BufferReader(in_arrow(header + b"\n")),
                pa_csv.ReadOptions(block_size=len(header) + 2, use_threads=False),
                pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            )
        except pa.ArrowException as error:
            raise source.error(f"the header cannot be read ({error}).") from None
        self.names = list(head.column_names)

    def whole(self, block: int = BLOCK) -> pa.Table:
        try:
            return pa_csv.read_csv(pa.BufferReader(self.data), *self._options(block))
        except pa.ArrowException as error:
            if "straddling" in str(error) and block <= len(self.data):
                return self.whole(min(len(self.data) + 1, MAX_BLOCK))
            raise self._error(error) from None

    def parts(self, rows: int) -> Iterator[pa.Table]:
        n_rows = 0
        try:
            batches = pa_csv.open_csv(pa.BufferReader(self.data), *self._options(PART_BLOCK))
            for table in _regrouped(batches, rows):
                yield table
                n_rows += len(table)
        except pa.ArrowException as error:
            if "straddling" not in str(error):
                raise self._error(error) from None
            rest = self.whole().slice(n_rows)
            yield from (rest.slice(start, rows) for start in range(0, len(rest), rows))

    def _options(self, block: int, skip: Callable[[Any], str] | None = None) -> tuple[Any, ...]:
        return (
            pa_csv.ReadOptions(block_size=block, use_threads=skip is None),
            pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.has_quotes, invalid_row_handler=skip),
            pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in self.names}, strings_can_be_null=False, check_utf8=False
            ),
        )

    def _error(self, error: Exception) -> RealmError:
        """What Arrow could not read: a row with another number of cells than the header, by its number, or else.

        Where Python is asked, one thread reads: others could still hold the function when the interpreter ends.
        """
        if "Empty CSV file" in str(error):
            return self.source.error("a header and no rows.")
        ragged: list[Any] = []

        def skip(row: Any) -> str:
            ragged.append(row)
            return "skip"

        try:
            pa_csv.read_csv(pa.BufferReader(self.data), *self._options(min(len(self.data) + 1, MAX_BLOCK), skip))
        except pa.ArrowException:
            ragged = []
        if not ragged:
            return self.source.error(f"cannot be read as a table ({error}).")
        row, more = ragged[0], f" ({len(ragged):,} such rows)" if len(ragged) > 1 else ""
        message = (
            f"{row.actual_columns} cells where the header has {row.expected_columns}{more}. A text with a separator "
            "in it must be quoted."
        )
        return self.source.error(message, None if row.number is None else [row.number - 1])

    def _check_quotes(self) -> bool:
        """Whether there are quotes; ones that would make rows run together are refused.

        Well-formed quoting is recognised by counting alone.
        """
        count = _count_quotes(np.frombuffer(self.data, dtype=np.uint8), ord(self.delimiter))
        if count is not None:
            return count > 0
        limit = csv.field_size_limit(len(self.data) + 1)
        text = io.StringIO(str(self.data, "utf-8"), newline="")
        row = -1
        try:
            for cells in csv.reader(text, delimiter=self.delimiter, strict=True):
                row += bool(cells)
        except csv.Error as error:
            message = (
                f"a quote that begins a cell is not closed as it should be ({error}). "
                'Write a quote within a quoted cell twice (""), or mend the file if it is cut short.'
            )
            raise self.source.error(message, [row + 1]) from None
        finally:
            csv.field_size_limit(limit)
        return True


def _count_quotes(data: npt.NDArray[np.uint8], delimiter: int) -> int | None:
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


def read_delimited(data: pa.Buffer, kind: str, source: Source) -> pa.Table:
    """The table with every column as text."""
    return _Delimited(data, kind, source).whole()


def delimited_parts(data: pa.Buffer, kind: str, source: Source, rows: int) -> Iterator[pa.Table]:
    """The same in parts of so many rows."""
    return _Delimited(data, kind, source).parts(rows)


def _regrouped(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Tables of exactly so many rows, but for the last."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        while n_waiting + len(batch) >= rows:
            yield pa.Table.from_batches([*waiting, batch.slice(0, rows - n_waiting)])
            batch = batch.slice(rows - n_waiting)
            waiting, n_waiting = [], 0
        if len(batch):
            waiting.append(batch)
            n_waiting += len(batch)
    if waiting:
        yield pa.Table.from_batches(waiting)


# ---------------------------------------------------------------- JSON


def read_json(data: bytes, kind: str, source: Source) -> list[Any] | dict[str, Any]:
    """A JSON document or JSON lines, told apart by what is there rather than by the name alone."""
    check_utf8(data, source)
    try:
        if kind == "json" or data.lstrip()[:1] == b"[":
            content = parse_json(data)
            if not isinstance(content, list | dict):
                raise source.error(f"not a list of records but {type(content).__name__} {str(content)[:40]!r}.")
            return content
    except json.JSONDecodeError as error:
        if not (error.msg == "Extra data" and data.lstrip()[:1] == b"{"):
            at = f"line {error.lineno}, column {error.colno}"
            raise RealmError(f"{source}, {at}: not readable JSON ({error.msg}). Is the file cut short?") from None
    except (ValueError, RecursionError) as error:
        raise source.error(f"not readable JSON ({_reason(error)}).") from None
    return list(_json_lines(data, source))


def json_line_parts(data: pa.Buffer, source: Source, rows: int) -> Iterator[pa.Table]:
    """JSON lines in parts of so many records, each with every field that some record of the file has."""
    check_utf8(data, source)
    names: dict[str, None] = {}
    for record in _json_lines(data, source):
        names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
    records = _json_lines(data, source)
    n_rows = 0
    while part := list(islice(records, rows)):
        for row, record in enumerate(part, n_rows + 1):
            if not isinstance(record, dict):
                raise source.error(f"not a record with named fields but {type(record).__name__}.", [row])
        yield table_of(part, names, source)
        n_rows += len(part)


def table_of(records: list[dict[str, Any]], names: Iterable[str], source: Source) -> pa.Table:
    """Records as columns; a field that is absent is null, and one of mixed types becomes text."""
    if wrong := [name for name in names if not is_unicode(name)]:
        raise source.error(f"the name of a field, {wrong[0]!a}, holds half a character (a lone surrogate).")
    return pa.table({name: column_of([each.get(name) for each in records], name, source) for name in names})


def _lines(data: bytes | pa.Buffer) -> Iterator[bytes]:
    rest = b""
    for start in range(0, len(data), PART_BLOCK):
        *lines, rest = (rest + bytes(data[start : start + PART_BLOCK])).split(b"\n")
        yield from lines
    yield rest


def _json_lines(data: bytes | pa.Buffer, source: Source) -> Iterator[Any]:
    for number, line in enumerate(_lines(data), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise RealmError(f"{source}, line {number}: not readable JSON ({_reason(error)}).") from None
        yield record


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.msg if isinstance(error, json.JSONDecodeError) else _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200].rstrip(".")


# ---------------------------------------------------------------- Parquet and Arrow


def read_parquet(data: pa.Buffer, source: Source, limit: float) -> pa.Table:
    with _reading("Parquet", source):
        batches = list(_parquet_batches(data, PARQUET_ROWS, source, limit))
        return pa.Table.from_batches(batches) if batches else pq.read_schema(pa.BufferReader(data)).empty_table()


def parquet_parts(data: pa.Buffer, rows: int, source: Source, limit: float) -> Iterator[pa.Table]:
    with _reading("Parquet", source):
        for batch in _parquet_batches(data, rows, source, limit, each=True):
            yield pa.Table.from_batches([batch])


def _parquet_batches(
    data: pa.Buffer, rows: int, source: Source, limit: float, *, each: bool = False
) -> Iterator[pa.RecordBatch]:
    """The table in parts of so many rows, each of a size that is known before it is there.

    A text may stand in the file once for a million rows. All parts together are held to the limit, or `each` is.
    """
    schema = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
    texts = [field.name for field in schema if _is_bytes(field.type)]
    parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
    if not each:  # a cell is a byte or more
        check_size(parquet.metadata.num_rows * parquet.metadata.num_columns, limit, str(source))
    unpacked = 0
    for batch in parquet.iter_batches(batch_size=rows):
        unpacked = 0 if each else unpacked
        columns = []
        for column in batch.columns:
            if pa.types.is_dictionary(column.type) and _is_bytes(column.type.value_type):
                lengths = np.append(np.asarray(pc.binary_length(column.dictionary).fill_null(0), dtype=np.int64), 0)
                unpacked += int(lengths[np.asarray(column.indices.fill_null(-1), dtype=np.int64)].sum())
                check_size(unpacked, limit, str(source))
                column = column.dictionary_decode()
            else:
                unpacked += column.nbytes
            columns.append(column)
        check_size(unpacked, limit, str(source))
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def read_arrow(data: pa.Buffer, source: Source, limit: float) -> pa.Table:
    """Arrow's own files: `.arrow` as the datasets library keeps them, and `.feather`."""
    with _reading("Arrow", source):
        is_file = bytes(data[: len(ARROW_FILE)]) == ARROW_FILE
        reader = pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data)
        batches, unpacked = [], 0
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
            unpacked += batch.nbytes
            check_size(unpacked, limit, str(source))
            batch.validate(full=True)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


@contextmanager
def _reading(kind: str, source: Source) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise source.error(f"not a readable {kind} file ({_first_line(error)}).") from None
