"""Machine files of a run, mutated by what they are: JSON and YAML by their nodes, safetensors by header and numbers,
parquet by its columns, and all of them by their bytes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.faults.mutations import mutate_bytes, mutate_document

SIZES = (-1, 0, 1, 2, 10**9, 10**18, 2**63, "3", None, 1.5)
"""What a header may say of a shape or a place: the right number is any other."""
OPTIONAL = (
    *("generation_config.json", "tokenizer_config.json"),
    *("channel.safetensors", "summary.safetensors", "trajectory.safetensors"),
)
"""Files that a run may be without."""
UNREAD = ("channel.safetensors", "generation_config.json")
"""Files that nothing reads to the end: the state of a channel is there for people's own code."""
NEEDED = ("model.safetensors", "estimate.safetensors", "predictions.safetensors")
"""Files that need every tensor they have, and no value in them that is no number."""
LATE = ("exponent", "shared_error")
"""Arrays that a file may be without, because runs of its format once were."""
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "C64", "", "X", None)
CODES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "BOOL": "|u1"}


@dataclass(frozen=True)
class Mutation:
    """What was done to a file; `is_harm` where no reader of the file may take it for whole."""

    story: str
    is_harm: bool = False


def mutate_file(path: Path, generator: random.Random) -> Mutation:
    """Change a file in place."""
    content = path.read_bytes()
    if path.suffix == ".safetensors" and generator.random() < 0.3:
        path.write_bytes(_harmed(content, generator))
        return Mutation(f"{path.name} with a tensor less or a number that is none", is_harm=path.name in NEEDED)
    kind = {".json": _json, ".yaml": _yaml, ".safetensors": _safetensors, ".parquet": _parquet}.get(path.suffix)
    if kind is not None and generator.random() < 0.7:
        path.write_bytes(kind(content, generator))
        return Mutation(f"{path.name} by its structure")
    if (way := generator.random()) < 0.05:
        path.unlink()
        return Mutation(f"{path.name} taken away", is_harm=path.name not in OPTIONAL)
    if way < 0.1:
        path.write_bytes(b"")
        return Mutation(f"{path.name} emptied", is_harm=path.name not in UNREAD)
    if way < 0.15:
        path.unlink()
        path.mkdir()
        return Mutation(f"{path.name} made a folder", is_harm=path.name not in OPTIONAL)
    path.write_bytes(mutate_bytes(content, generator))
    return Mutation(f"{path.name} by its bytes")


def _json(content: bytes, generator: random.Random) -> bytes:
    box = [json.loads(content)]  # so that the document as a whole can be replaced
    mutate_document(box, generator)
    return json.dumps(box[0] if box else None, indent=generator.choice((None, 2))).encode()


def _yaml(content: bytes, generator: random.Random) -> bytes:
    box = [yaml.safe_load(content)]
    mutate_document(box, generator)
    try:
        return yaml.safe_dump(box[0] if box else None, sort_keys=False, allow_unicode=True).encode()
    except UnicodeEncodeError:  # a lone surrogate, which YAML can write in ASCII alone
        return yaml.safe_dump(box[0] if box else None, sort_keys=False).encode()


# ---------------------------------------------------------------- safetensors


def _opened(content: bytes) -> tuple[dict[str, Any], bytearray, list[str]]:
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    return header, bytearray(content[8 + length :]), [name for name in header if name != "__metadata__"]


def _closed(header: dict[str, Any], data: bytearray) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def _harmed(content: bytes, generator: random.Random) -> bytes:
    """The file without one of its tensors, or with a number in it that is none: whole by its form."""
    header, data, names = _opened(content)
    name = generator.choice([each for each in names if each not in LATE])
    code = CODES.get(header[name]["dtype"], "")
    if "f" not in code or generator.random() < 0.5:
        _taken_out(header, data, name)
    else:
        start, end = header[name]["data_offsets"]
        array = np.frombuffer(bytes(data[start:end]), code).copy()
        array[generator.randrange(len(array))] = np.nan
        data[start:end] = array.tobytes()
    return _closed(header, data)


def _safetensors(content: bytes, generator: random.Random) -> bytes:
    header, data, names = _opened(content)
    name = generator.choice(names)
    ways: list[Callable[[], Any]] = [
        lambda: header.pop(name),
        lambda: header.__setitem__(generator.choice(("x", "", "steps", "log_probs", "posterior")), header.pop(name)),
        lambda: header[name].__setitem__("dtype", generator.choice(DTYPES)),
        lambda: header[name]["shape"].append(1),
        lambda: header[name]["shape"].reverse(),
        lambda: header[name].__setitem__("shape", [int(np.prod(header[name]["shape"]))]),
        lambda: header[name].__setitem__("shape", [generator.choice(SIZES) for _ in header[name]["shape"]]),
        lambda: header[name].__setitem__("data_offsets", [generator.choice(SIZES), generator.choice(SIZES)]),
        lambda: header.__setitem__(name, generator.choice((None, [], {}, "x", 7))),
        lambda: _numbers(header[name], data, generator),
        lambda: _numbers(header[name], data, generator),
        lambda: _numbers(header[name], data, generator),
        lambda: data.extend(b"\0" * generator.randint(1, 40)),
        lambda: data.__delitem__(slice(generator.randrange(len(data) + 1), None)),
    ]
    generator.choice(ways)()
    changed = _closed(header, data)
    if generator.random() < 0.08:
        (stated,) = struct.unpack_from("<Q", changed)
        stated = generator.choice((0, 1, stated - 1, stated + 8, 10**9, 2**63 - 1, 2**64 - 1))
        changed = struct.pack("<Q", stated) + changed[8:]
    return changed


def _numbers(entry: Any, data: bytearray, generator: random.Random) -> None:
    """Put another number in place of one, or of all: no number, infinite, huge, negative."""
    code = CODES.get(entry["dtype"])
    if code is None:
        return
    start, end = entry["data_offsets"]
    array = np.frombuffer(bytes(data[start:end]), code).copy()
    value = generator.choice((np.nan, np.inf, -np.inf, 1e30, -1.0, 0.5, 2.0) if "f" in code else (-1, 0, 7, 100))
    if not len(array):
        return
    where = slice(None) if generator.random() < 0.3 else generator.randrange(len(array))
    array[where] = max(value, 0) if code == "|u1" else value
    data[start:end] = array.tobytes()


def _taken_out(header: dict[str, Any], data: bytearray, name: str) -> None:
    """Take a tensor out, and its numbers with it, so that the file is whole without it."""
    start, end = header.pop(name)["data_offsets"]
    del data[start:end]
    for key, entry in header.items():
        if key != "__metadata__" and entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [place - (end - start) for place in entry["data_offsets"]]


# ---------------------------------------------------------------- parquet


def _parquet(content: bytes, generator: random.Random) -> bytes:
    table = pq.read_table(pa.BufferReader(content))
    name = generator.choice(table.column_names)
    place, column, rows = table.column_names.index(name), table.column(name), table.num_rows
    values = column.to_pylist()
    kind = generator.randrange(7)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1:
        table = table.set_column(place, name, pa.nulls(rows, column.type))
    elif kind == 2:
        other = generator.choice(([1.5] * rows, ["x"] * rows, [[1]] * rows, [None] * rows, [{"a": 1}] * rows))
        table = table.set_column(place, name, pa.array(other))
    elif kind == 3:
        table = table.slice(0, generator.randrange(rows))
    elif kind == 4:
        table = table.append_column(name, column)
    else:
        values[generator.randrange(rows)] = _like(values, generator)
        table = table.set_column(place, name, pa.array(values, column.type))
    file = pa.BufferOutputStream()
    pq.write_table(table, file)
    return file.getvalue().to_pybytes()


def _like(values: list[Any], generator: random.Random) -> Any:
    """A value of the same type that has no business there."""
    example = next((value for value in values if value is not None), None)
    if isinstance(example, list):
        inside = example[0] if example else 0
        longer = generator.choice((-1, 99, 2**31 - 1)) if isinstance(inside, int) else generator.choice(("", "x"))
        longer = generator.choice((float("nan"), -1.0, float("inf"))) if isinstance(inside, float) else longer
        return generator.choice((None, [], [longer], [*example, longer], [None], example * 2))
    if isinstance(example, int):
        return generator.choice((None, -2, 99, 2**31 - 1))
    return generator.choice((None, "", values[0]))
