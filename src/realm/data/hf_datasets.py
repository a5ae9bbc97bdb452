"""Tables of the `datasets` library: annotations read from one, and tables written as one, labels with their names.

A `ClassLabel` column holds numbers, and its feature the names they stand for; -1 is how published data sets write a
label that is not there. Read as plain numbers such a column would lose the names, and -1 would be a label of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import Annotations
from realm.data.items import Task
from realm.data.read_options import ReadOptions
from realm.data.roles import listed
from realm.errors import RealmError


def read_dataset(
    dataset: Any, split: str | None = None, read_options: ReadOptions | None = None, **arguments: Any
) -> Annotations:
    """Annotations from a `datasets.Dataset` with one row per annotation; see `Annotations.from_dataset`."""
    import datasets

    from realm.data.readers import read_table

    if isinstance(dataset, Mapping):
        split = next(iter(dataset)) if split is None and len(dataset) == 1 else split
        if split not in dataset:
            splits = listed(sorted(map(str, dataset)))
            raise RealmError(f"the data set has no single split `{split}`. Name one with `split`; there are: {splits}.")
        dataset = dataset[split]
    elif split is not None:
        raise RealmError(f'`split="{split}"` is for a DatasetDict; this is {type(dataset).__name__}.')
    if not isinstance(dataset, datasets.Dataset):
        raise RealmError(f"`dataset` is {type(dataset).__name__}: give a datasets.Dataset or a DatasetDict.")
    table = dataset.with_format("arrow")[:]
    names_of: dict[str, list[str]] = {}
    for position, (column, feature) in enumerate(dataset.features.items()):
        if isinstance(feature, datasets.ClassLabel) and feature.names:
            names_of[column] = list(feature.names)
            numbers = pc.cast(table.column(column), pa.int64())
            numbers = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
            texts = pc.take(pa.array(feature.names, pa.large_string()), numbers)
            table = table.set_column(position, column, texts)
    task = arguments.get("task") or "task"
    has_tasks = task in table.column_names and pc.count_distinct(table.column(task), mode="all").as_py() > 1
    if arguments.get("labels") is None and arguments.get("tasks") is None and not has_tasks:
        arguments["labels"] = names_of.get(str(arguments.get("label") or "label"))
    return read_table(table, "the data set", read_options, **arguments)


def with_class_labels(table: pa.Table, tasks: Sequence[Task], columns: Sequence[str]) -> Any:
    """A `datasets.Dataset` of a table whose `columns` are names of labels.

    Where there is one task and it has a label set, they become `ClassLabel` columns; else they stay text.
    """
    import datasets

    labels = list(tasks[0].labels or ()) if len(tasks) == 1 else []
    features = datasets.Features.from_arrow_schema(table.schema)
    for column in columns:
        if labels and column in table.column_names:
            texts = table.column(column)
            numbers = pc.index_in(texts, value_set=pa.array(labels, texts.type), skip_nulls=True)
            table = table.set_column(table.column_names.index(column), column, pc.cast(numbers, pa.int64()))
            features[column] = datasets.ClassLabel(names=labels)
    return datasets.Dataset(table.replace_schema_metadata(None).cast(features.arrow_schema))
