"""Times and durations of annotations, as exports write them: seconds, NaN where there is none or it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import encode

Floats = npt.NDArray[np.float64]
SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""A number above the first is in so many parts of a second: as seconds it would lie thousands of years ahead."""
EARLIEST, LATEST = 0.0, 4102444800.0
"""1970 to 2100: a time outside is none."""
DATE_DIGITS = 8
"""A text of so many digits is a date, 20260304, and no number of seconds."""
_WORDS = re.compile(r"^\w{3} (\w{3} \d{1,2} \d\d:\d\d:\d\d) (\w+) (\d{4})$")
_ZONES = {"UTC": 0, "GMT": 0, "PDT": -7, "PST": -8}
"""The zones that Amazon Mechanical Turk writes, in hours."""


def read_times(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Seconds since 1970 (UTC) of every cell: a date, an ISO 8601 text, or a number of seconds or parts of them.

    A time without a zone is taken to be UTC: only differences are looked at.
    """
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        whole = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        seconds = _floats(whole.cast(pa.float64(), safe=False)) / 1e6
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        seconds = _in_seconds(_floats(column.cast(pa.float64(), safe=False)))
    else:
        seconds = _by_distinct(column, _time)
    with np.errstate(invalid="ignore"):
        return np.where((seconds >= EARLIEST) & (seconds <= LATEST), seconds, np.nan)


def read_durations(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Seconds of every cell: a number that is not negative."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        seconds = _floats(column.cast(pa.float64(), safe=False))
    else:
        seconds = _by_distinct(column, _number)
    return np.where(np.isfinite(seconds) & (seconds >= 0), seconds, np.nan)


def written(seconds: Floats) -> pa.LargeStringArray:
    """Times as ISO 8601 texts, null where there is none; `read_times` reads them back to the microsecond."""
    known = np.isfinite(seconds)
    micros = np.round(np.where(known, seconds, 0.0) * 1e6).astype(np.int64)
    texts = pc.strftime(pa.array(micros).cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%SZ")
    return pc.if_else(pa.array(known), texts.cast(pa.large_string()), pa.scalar(None, pa.large_string()))


def _by_distinct(column: pa.Array, read: Callable[[Any], float]) -> Floats:
    """What is read of each cell, of equal texts once."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return np.array([read(cell) for cell in column.to_pylist()], dtype=np.float64)
    codes, values = encode(column)
    return np.array([*(read(cell) for cell in values.to_pylist()), np.nan], dtype=np.float64)[codes]


def _floats(column: pa.Array) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _in_seconds(numbers: Floats) -> Floats:
    for above, parts in SCALES:
        numbers = np.where(numbers >= above, numbers / parts, numbers)
    return numbers


def _number(cell: Any) -> float:
    try:
        return float("nan") if cell is None or isinstance(cell, bool) else float(str(cell))
    except ValueError:
        return float("nan")


def _time(cell: Any) -> float:
    if cell is None or isinstance(cell, bool):
        return float("nan")
    if isinstance(cell, int | float):
        return float(_in_seconds(np.array([float(cell)]))[0])
    if isinstance(cell, datetime):
        return _seconds(cell)
    text = str(cell).strip()
    if text.replace(".", "", 1).isdecimal() and len(text) != DATE_DIGITS:
        return float(_in_seconds(np.array([float(text)]))[0])
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:
        pass
    if (match := _WORDS.match(text)) and match[2] in _ZONES:
        try:
            time = datetime.strptime(f"{match[1]} {match[3]}", "%b %d %H:%M:%S %Y")
        except ValueError:
            return float("nan")
        return _seconds(time.replace(tzinfo=timezone(timedelta(hours=_ZONES[match[2]]))))
    return float("nan")


def _seconds(time: datetime) -> float:
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
