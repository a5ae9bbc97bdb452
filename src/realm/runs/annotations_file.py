"""The annotations of a run as a parquet file: one row per item with its annotations, read back exactly as written.

Tasks and annotators are numbers; their names are in `scorer.json` and `annotators.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from realm.data import Annotations, Items, Task
from realm.files import reading, replacing


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write the table. Columns: item, task, text, [context,] [options,] annotators, labels, [weights,] [gold]."""
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
        "gold": None if gold is None else pa.array(gold),
    }
    with replacing(path) as partial, partial.open("wb") as file:
        table = pa.table({name: column for name, column in columns.items() if column is not None})
        pq.write_table(table, file, compression="zstd")


def read_annotations(path: Path, tasks: Sequence[Task], annotators: Sequence[str]) -> Annotations:
    """The table that `write_annotations` wrote."""
    with reading(path, "the annotations of a run", KeyError, pa.ArrowException):
        table = pq.read_table(path)
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        return _annotations(columns, tasks, annotators)


def _lists(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def _annotations(columns: dict[str, pa.Array], tasks: Sequence[Task], annotators: Sequence[str]) -> Annotations:
    counts = columns["labels"].value_lengths().to_numpy(zero_copy_only=False)
    weight, gold = columns.get("weights"), columns.get("gold")
    return Annotations(
        items=Items(
            ids=columns["item"].cast(pa.large_string()),
            texts=columns["text"].cast(pa.large_string()),
            contexts=columns["context"].cast(pa.large_string()) if "context" in columns else None,
            options=columns["options"].cast(pa.large_list(pa.large_string())) if "options" in columns else None,
            item_tasks=columns["task"].to_numpy(zero_copy_only=False),
            tasks=tuple(tasks),
        ),
        annotators=tuple(annotators),
        item=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        annotator=columns["annotators"].flatten().to_numpy(zero_copy_only=False),
        label=columns["labels"].flatten().to_numpy(zero_copy_only=False),
        weight=None if weight is None else weight.flatten().to_numpy(zero_copy_only=False),
        gold=None if gold is None else gold.to_numpy(zero_copy_only=False),
    )
