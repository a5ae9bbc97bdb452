"""The annotations of a run as a parquet file: one row per item with its annotations, read back exactly as written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from realm.data import Annotations, Items, Task
from realm.data.columns import list_lengths
from realm.files import reading, replacing
from realm.schema import damaged

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
"""The columns of the file and their types; all but item, task, text, annotators and labels may be
absent. Tasks and annotators are numbers; their names are in `scorer.json` and `annotators.json`."""
LISTS = {"annotators": "annotator", "labels": "label", "weights": "weight"}
"""The columns with one entry for each annotation, and what `Annotations` calls them."""
LISTS |= {name: name for name in ("created_at", "lead_time")}
GROUPS = b"realm groups"
"""The key of the groups in the metadata of the file: a JSON list with one for each annotator."""


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write the table with the columns of `COLUMNS` that it has."""
    items, offsets = annotations.items, pa.array(annotations.offsets, pa.int64())
    columns = {"item": items.ids, "text": items.texts, "context": items.contexts, "options": items.options}
    columns["task"] = pa.array(items.item_tasks)
    columns["gold"] = None if annotations.gold is None else pa.array(annotations.gold)
    for column, name in LISTS.items():
        if (values := getattr(annotations, name)) is not None:
            columns[column] = pa.LargeListArray.from_arrays(offsets, pa.array(values))
    table = pa.table({name: columns[name] for name in COLUMNS if columns.get(name) is not None})
    if annotations.groups is not None:
        table = table.replace_schema_metadata({GROUPS: json.dumps(annotations.groups)})
    with replacing(path) as partial, partial.open("wb") as file:
        pq.write_table(table, file, compression="zstd")


def read_annotations(path: Path, tasks: Sequence[Task], annotators: Sequence[str]) -> Annotations:
    """The table that `write_annotations` wrote; its numbers stand for these tasks and annotators."""
    with reading(path, "the annotations of a run", pa.ArrowException, LookupError):
        with pq.ParquetFile(path) as file:  # and not `read_table`, which takes a folder for a data set
            table = file.read()
        table.validate(full=True)
        groups = json.loads((table.schema.metadata or {}).get(GROUPS, "null"))
        table = table.cast(pa.schema([(name, COLUMNS[name]) for name in table.column_names]))
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        numbers: dict[str, Any] = {
            name: np.asarray((values.flatten() if name in LISTS else values).to_numpy(zero_copy_only=False))
            for name, values in columns.items()
            if name in (*LISTS, "task", "gold")
        }
        lengths = list_lengths(columns["labels"])
        items = Items(
            ids=columns["item"],
            texts=columns["text"],
            contexts=columns.get("context"),
            options=columns.get("options"),
            item_tasks=numbers["task"],
            tasks=tuple(tasks),
        )
        annotations = Annotations(
            items=items,
            annotators=tuple(annotators),
            item=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
            gold=numbers.get("gold"),
            groups=None if groups is None else tuple(groups),
            **{name: numbers[column] for column, name in LISTS.items() if column in numbers},
        )
        n_options = items.option_counts[annotations.item]  # an IndexError of a task beyond those there are
    ends = ((annotations.annotator, len(annotators), "annotators"), (annotations.label, n_options, "labels"))
    for values, end, name in ends:
        if not ((values >= 0) & (values < end)).all():
            raise damaged(path, f"the column {name} has a number that stands for nothing")
    return annotations
