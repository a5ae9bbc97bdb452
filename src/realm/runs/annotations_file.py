"""The annotations of a run as a parquet file: one row per item with its annotations, read back exactly as written.

Tasks and annotators are numbers; their names are in `scorer.json` and `annotators.json`. Groups of annotators, where
there are any, are in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from realm.data import Annotations, Items, Task
from realm.data.annotations import UNKNOWN
from realm.data.columns import list_lengths
from realm.errors import RealmError
from realm.files import reading, replacing
from realm.runs.folder import ANNOTATORS, SCORER

COLUMNS = {
    "item": pa.large_string(),
    "task": pa.int32(),
    "text": pa.large_string(),
    "context": pa.large_string(),
    "options": pa.large_list(pa.large_string()),
    "annotators": pa.large_list(pa.int32()),
    "labels": pa.large_list(pa.int32()),
    "weights": pa.large_list(pa.float64()),
    "created_at": pa.large_list(pa.float64()),
    "lead_time": pa.large_list(pa.float64()),
    "gold": pa.int32(),
}
"""The columns of the file and their types."""
TIMES = ("created_at", "lead_time")
GROUPS = b"realm groups"
"""The key of the groups in the metadata of the file: a JSON list with one for each annotator."""
REQUIRED = ("item", "task", "text", "annotators", "labels")
MOST_TIMES, SURELY_FINE = 200, 64_000_000
"""A file may unpack to this many times its size, as compressed tables that people give may; and to so many bytes in
any case."""


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write the table. Columns: item, task, text, annotators, labels, and what it has of the others of `COLUMNS`."""
    items, weight, gold = annotations.items, annotations.weight, annotations.gold
    columns = {
        "item": items.ids,
        "task": pa.array(items.item_tasks),
        "text": items.texts,
        "context": items.contexts,
        "options": items.options,
        "annotators": _lists(annotations.annotator, annotations.offsets),
        "labels": _lists(annotations.label, annotations.offsets),
        "weights": None if weight is None else _lists(weight, annotations.offsets),
        **{
            name: _lists(times, annotations.offsets)
            for name in TIMES
            if (times := getattr(annotations, name)) is not None
        },
        "gold": None if gold is None else pa.array(gold),
    }
    with replacing(path) as partial, partial.open("wb") as file:
        table = pa.table({name: column for name, column in columns.items() if column is not None})
        if annotations.groups is not None:
            table = table.replace_schema_metadata({GROUPS: json.dumps(annotations.groups)})
        pq.write_table(table, file, compression="zstd")


def read_annotations(path: Path, tasks: Sequence[Task], annotators: Sequence[str]) -> Annotations:
    """The table that `write_annotations` wrote: typed columns, and numbers that stand for a task, a name, an option."""
    with reading(path, "the annotations of a run", pa.ArrowException):
        with pq.ParquetFile(path) as file:  # and not `read_table`, which takes a folder for a data set
            _check_size(path, file.metadata)
            table = file.read()
        table.validate(full=True)
    columns = {name: _column(path, table, name) for name in COLUMNS if name in table.column_names}
    if missing := [name for name in REQUIRED if name not in columns]:
        raise _damaged(path, f"lacks the column {missing[0]}")
    annotations = _annotations(path, columns, tasks, annotators)
    annotations = replace(annotations, groups=_groups(path, table.schema.metadata or {}, len(annotators)))
    _check_numbers(path, annotations)
    return annotations


def _damaged(path: Path, problem: str) -> RealmError:
    return RealmError(f"{path}: {problem}. {path.name} is damaged, or was not written by this version of realm.")


def _check_size(path: Path, metadata: pq.FileMetaData) -> None:
    """Refuse a file that says it unpacks to far more than texts do, before it is unpacked."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    unpacked, size = sum(group.total_byte_size for group in groups), path.stat().st_size
    if unpacked > max(MOST_TIMES * size, SURELY_FINE):
        raise ValueError(f"it unpacks to {unpacked / 1e6:,.0f} MB, {unpacked / size:,.0f} times its size")


def _column(path: Path, table: pa.Table, name: str) -> pa.Array:
    if table.column_names.count(name) > 1:
        raise _damaged(path, f"has the column {name} twice")
    wanted = COLUMNS[name]
    column = table.column(name).combine_chunks()
    if not (column.type.equals(wanted) or (name == "item" and column.type == pa.string())):
        raise _damaged(path, f"the column {name} holds {column.type}, not {wanted}")
    if column.null_count and name not in ("context", "options"):
        raise _damaged(path, f"the column {name} has a row without a value")
    if pa.types.is_large_list(column.type) and column.flatten().null_count:
        raise _damaged(path, f"the column {name} has a list with an entry without a value")
    return column


def _lists(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def _annotations(
    path: Path, columns: dict[str, pa.Array], tasks: Sequence[Task], annotators: Sequence[str]
) -> Annotations:
    counts = list_lengths(columns["labels"])
    for name in ("annotators", "weights", *TIMES):
        if name in columns and not np.array_equal(list_lengths(columns[name]), counts):
            raise _damaged(path, f"an item has another number of {name} than of labels")
    weight, gold = columns.get("weights"), columns.get("gold")
    return Annotations(
        items=Items(
            ids=columns["item"],
            texts=columns["text"],
            contexts=columns.get("context"),
            options=columns.get("options"),
            item_tasks=columns["task"].to_numpy(zero_copy_only=False),
            tasks=tuple(tasks),
        ),
        annotators=tuple(annotators),
        item=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        annotator=columns["annotators"].flatten().to_numpy(zero_copy_only=False),
        label=columns["labels"].flatten().to_numpy(zero_copy_only=False),
        weight=None if weight is None else weight.flatten().to_numpy(zero_copy_only=False),
        gold=None if gold is None else gold.to_numpy(zero_copy_only=False),
        **{name: columns[name].flatten().to_numpy(zero_copy_only=False) for name in TIMES if name in columns},
    )


def _groups(path: Path, metadata: dict[bytes, bytes], n_annotators: int) -> tuple[str, ...] | None:
    """The group of each annotator; None where the run had no groups."""
    if GROUPS not in metadata:
        return None
    try:
        groups = json.loads(metadata[GROUPS])
    except ValueError:
        groups = None
    if not isinstance(groups, list) or len(groups) != n_annotators or not all(isinstance(name, str) for name in groups):
        raise _damaged(path, f"the groups are not one name for each of the {n_annotators:,} annotators of {ANNOTATORS}")
    return tuple(groups)


def _check_numbers(path: Path, annotations: Annotations) -> None:
    """Refuse numbers that stand for nothing."""
    items, tasks = annotations.items, len(annotations.tasks)
    if not _within(items.item_tasks, 0, tasks):
        raise _damaged(path, f"the column task has a number beyond the {tasks} tasks of {SCORER}")
    if not _within(annotations.annotator, 0, annotations.n_annotators):
        raise _damaged(
            path, f"the column annotators has a number beyond the {annotations.n_annotators:,} names of {ANNOTATORS}"
        )
    counts = items.option_counts
    if not _within(counts, 1, None):
        raise _damaged(path, f"an item has no options, and its task no labels in {SCORER}")
    if not _within(annotations.label, 0, counts[annotations.item]):
        raise _damaged(path, "the column labels has a number beyond the options of its item")
    if annotations.gold is not None and not _within(annotations.gold, UNKNOWN, counts):
        raise _damaged(path, "the column gold has a number beyond the options of its item")
    for name in TIMES:
        if (times := getattr(annotations, name)) is not None and np.isinf(times).any():
            raise _damaged(path, f"the column {name} has a time that is not finite")
    weight = annotations.weight
    if weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
        raise _damaged(path, "the column weights has a weight that is not a finite number above 0")


def _within(numbers: npt.NDArray[Any], low: int, end: Any) -> bool:
    """Whether all numbers lie from `low` up to and without `end`."""
    return bool((numbers >= low).all() and (end is None or (numbers < end).all()))
