"""The annotations of a run as a parquet file: one row per item with its annotations, read back exactly as written.

Tasks and annotators are numbers; their names are in `scorer.json` and `annotators.json`. What a table does not have is
no column.
"""

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

LISTS = {"annotators": "annotator", "labels": "label", "weights": "weight"}
"""The columns with one entry for each annotation, and what `Annotations` calls them."""
LISTS |= {name: name for name in ("created_at", "lead_time")}
GROUPS = b"realm groups"
"""The key of the groups in the metadata of the file: a JSON list with one for each annotator."""


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write the table."""
    items, offsets = annotations.items, pa.array(annotations.offsets, pa.int64())
    columns = {"item": items.ids, "task": pa.array(items.item_tasks), "text": items.texts}
    columns |= {"context": items.contexts, "options": items.options}
    for column, name in LISTS.items():
        if (values := getattr(annotations, name)) is not None:
            columns[column] = pa.LargeListArray.from_arrays(offsets, pa.array(values))
    columns["gold"] = None if annotations.gold is None else pa.array(annotations.gold)
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    if annotations.groups is not None:
        table = table.replace_schema_metadata({GROUPS: json.dumps(annotations.groups)})
    with replacing(path) as partial, partial.open("wb") as file:
        pq.write_table(table, file, compression="zstd")


def read_annotations(path: Path, tasks: Sequence[Task], annotators: Sequence[str]) -> Annotations:
    """The table that `write_annotations` wrote; its numbers stand for these tasks and annotators."""
    with reading(path, "the annotations of a run", pa.ArrowException, LookupError):
        with pq.ParquetFile(path) as file:  # and not `read_table`, which takes a folder for a data set
            table = file.read()
        groups = json.loads((table.schema.metadata or {}).get(GROUPS, "null"))
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        numbers: dict[str, Any] = {
            name: np.asarray((values.flatten() if name in LISTS else values).to_numpy(zero_copy_only=False))
            for name, values in columns.items()
            if name in (*LISTS, "task", "gold")
        }
        items = Items(
            ids=columns["item"],
            texts=columns["text"],
            contexts=columns.get("context"),
            options=columns.get("options"),
            item_tasks=numbers["task"],
            tasks=tuple(tasks),
        )
        return Annotations(
            items=items,
            annotators=tuple(annotators),
            item=np.repeat(np.arange(len(items), dtype=np.int32), list_lengths(columns["labels"])),
            gold=numbers.get("gold"),
            groups=None if groups is None else tuple(groups),
            **{name: numbers[column] for column, name in LISTS.items() if column in numbers},
        )
