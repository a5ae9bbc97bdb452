"""Times and durations of annotations in seconds; NaN where there is none or it cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""A number above the first is in so many parts of a second: as seconds it would lie thousands of years ahead."""
LATEST = 4102444800.0
"""The year 2100: a time later than this, or before 1970, is none."""
DATE_DIGITS = 8
"""A text of so many digits is a date, 20260304, and no number of seconds."""
_MTURK = re.compile(r"^\w{3} (\w{3} \d{1,2} \d\d:\d\d:\d\d) (UTC|GMT|PDT|PST) (\d{4})$")
_HOURS = {"PDT": -7, "PST": -8}


def read_times(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Seconds since 1970 (UTC) of every cell: a date, an ISO 8601 text, or a number of seconds or parts of them.

    A time without a zone is taken to be UTC: only differences are looked at.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        seconds = _floats(column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())) / 1e6
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        seconds = _in_seconds(_floats(column))
    else:
        seconds = _by_distinct(column, _time)
    with np.errstate(invalid="ignore"):
        return np.where((seconds >= 0) & (seconds <= LATEST), seconds, np.nan)


def read_durations(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Seconds of every cell: a number that is not negative."""
    seconds = _by_distinct(column, _number)
    return np.where(np.isfinite(seconds) & (seconds >= 0), seconds, np.nan)


def written(seconds: Floats) -> pa.LargeStringArray:
    """Times as ISO 8601 texts, null where there is none; `read_times` reads them back to the microsecond."""
    known = np.isfinite(seconds)
    micros = pa.array(np.round(np.where(known, seconds, 0.0) * 1e6).astype(np.int64), mask=~known)
    return pc.strftime(micros.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%SZ").cast(pa.large_string())


def _floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64(), safe=False), dtype=np.float64)


def _by_distinct(column: pa.Array | pa.ChunkedArray, read: Callable[[str], float]) -> Floats:
    """What is read of the text of each cell, of equal ones once."""
    texts = [str(cell).strip() for cell in column.to_pylist()]
    seconds = {text: read(text) for text in set(texts)}
    return np.array([seconds[text] for text in texts], dtype=np.float64)


def _in_seconds(numbers: Floats) -> Floats:
    for above, parts in SCALES:
        numbers = np.where(numbers >= above, numbers / parts, numbers)
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _time(text: str) -> float:
    if len(text) != DATE_DIGITS and not math.isnan(seconds := _number(text)):
        return float(_in_seconds(np.array([seconds]))[0])
    try:
        if match := _MTURK.match(text):
            zone = timezone(timedelta(hours=_HOURS.get(match[2], 0)))
            time = datetime.strptime(f"{match[1]} {match[3]}", "%b %d %H:%M:%S %Y").replace(tzinfo=zone)
        else:
            time = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
