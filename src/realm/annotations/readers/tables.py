"""Plain tables: CSV, TSV, JSONL, JSON and Parquet, compressed with gzip or not."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.errors import RealmError

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
BOM = b"\xef\xbb\xbf"


def read_bytes(path: Path) -> bytes:
    """The file's bytes, decompressed."""
    if path.is_dir():
        raise RealmError(f"{path} is a folder, not a file.")
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise RealmError(f"{path}: there is no such file.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RealmError(f"{path}: the gzip file is damaged or cut short ({error}).") from None
    except OSError as error:
        raise RealmError(f"{path}: cannot be read ({error.strerror}).") from None
    if not data.strip():
        raise RealmError(f"{path}: the file is empty.")
    return data


def read_table(path: Path, format: str | None = None) -> pa.Table:
    """A table of the file's records, every CSV cell as text."""
    data = read_bytes(path)
    kind = format or SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "csv")
    if kind == "parquet":
        try:
            return pq.read_table(io.BytesIO(data))
        except (pa.ArrowException, OSError) as error:
            raise RealmError(f"{path}: not a readable Parquet file ({error}).") from None
    data = data.removeprefix(BOM)
    check_utf8(data, path)
    if kind in ("csv", "tsv"):
        return _read_csv(data, "\t" if kind == "tsv" else ",", path)
    return table_of(_records(data, kind, path), path)


def check_utf8(data: bytes, path: Path) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RealmError(
            f"{path}, line {line}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8 text. "
            "Save the file as UTF-8."
        ) from None


def _read_csv(data: bytes, delimiter: str, path: Path) -> pa.Table:
    header = next(csv.reader(io.StringIO(data.decode("utf-8")), delimiter=delimiter))
    bad: list[Any] = []

    def note(row: Any) -> str:
        bad.append(row)
        return "skip"

    try:
        table = pa_csv.read_csv(
            io.BytesIO(data),
            pa_csv.ReadOptions(block_size=max(1 << 24, len(data)), use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
            pa_csv.ConvertOptions(column_types={name: pa.large_string() for name in header}, strings_can_be_null=False),
        )
    except pa.ArrowException as error:
        raise RealmError(f"{path}: not a readable CSV file ({error}).") from None
    if bad:
        row = bad[0]
        where = "" if row.number is None else f", row {row.number - 1}"
        raise RealmError(f"{path}{where}: {row.actual_columns} cells where the header has {row.expected_columns}.")
    return table


def _records(data: bytes, kind: str, path: Path) -> list[Any]:
    if kind == "json":
        try:
            records = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RealmError(f"{path}: not readable JSON ({error}).") from None
    else:
        records = []
        for number, line in enumerate(data.decode("utf-8").split("\n"), 1):
            if line.strip():
                try:
                    records.append(json.loads(line))
                except (ValueError, RecursionError) as error:
                    raise RealmError(f"{path}, line {number}: not readable JSON ({error}).") from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise RealmError(f"{path}: must hold a list of objects.")
    return records


def table_of(records: list[dict[str, Any]], path: Path) -> pa.Table:
    """Records as columns; a field that is absent is null, and a field of mixed types becomes text."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return pa.table({name: _column([record.get(name) for record in records], name, path) for name in names})


def _column(values: list[Any], name: str, path: Path) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        cells = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        return pa.array(cells, pa.large_string())
    except UnicodeEncodeError as error:
        raise RealmError(f"{path}: field '{name}' has text that is not valid Unicode ({error.reason}).") from None
