"""Tables of the `datasets` library: annotations read from one and written as one, labels with their names.

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
from realm.data.write import to_arrow
from realm.errors import RealmError


def read_dataset(
    dataset: Any, split: str | None = None, read_options: ReadOptions | None = None, **arguments: Any
) -> Annotations:
    """Annotations from a `datasets.Dataset` with one row per annotation; see `Annotations.from_dataset`."""
    dataset = _one_split(dataset, split)
    names_of = _class_names(dataset)
    table = dataset.with_format("arrow")[:]
    for column, names in names_of.items():
        table = _with_names(table, column, names)
    if arguments.get("labels") is None and arguments.get("tasks") is None:
        arguments["labels"] = _label_set(table, names_of, arguments)
    from realm.data.readers import read_table

    return read_table(table, "the data set", read_options, **arguments)


def _one_split(dataset: Any, split: str | None) -> Any:
    """The data set itself, or the split of a `DatasetDict` that is asked for."""
    import datasets

    if isinstance(dataset, Mapping):
        if split is None and len(dataset) == 1:
            split = next(iter(dataset))
        if split not in dataset:
            splits = listed(sorted(map(str, dataset)))
            what = "has several splits" if split is None else f'`split="{split}"`: there is no such split'
            raise RealmError(f"the data set: {what}. Name one with `split`; there are: {splits}.")
        dataset = dataset[split]
    elif split is not None:
        raise RealmError(f'`split="{split}"` is for a DatasetDict; this is {type(dataset).__name__}.')
    if not isinstance(dataset, datasets.Dataset):
        raise RealmError(
            f"`dataset` is {type(dataset).__name__}: give a datasets.Dataset or a DatasetDict (one that is streamed "
            "must be loaded whole)."
        )
    return dataset


def _class_names(dataset: Any) -> dict[str, list[str]]:
    """The names of each `ClassLabel` column, by column."""
    import datasets

    return {
        column: list(feature.names)
        for column, feature in dataset.features.items()
        if isinstance(feature, datasets.ClassLabel) and feature.names
    }


def _with_names(table: pa.Table, column: str, names: Sequence[str]) -> pa.Table:
    """The table with the names of a `ClassLabel` column in place of its numbers; -1 becomes a missing cell."""
    numbers = pc.cast(table.column(column), pa.int64())
    numbers = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
    texts = pc.take(pa.array(names, pa.large_string()), numbers)
    return table.set_column(table.column_names.index(column), column, texts)


def _label_set(table: pa.Table, names_of: Mapping[str, list[str]], arguments: Mapping[str, Any]) -> list[str] | None:
    """The label set that a `ClassLabel` column of labels declares; None where several tasks share the column."""
    task = arguments.get("task") or "task"
    if task in table.column_names and pc.count_distinct(table.column(task), mode="all").as_py() > 1:
        return None
    return names_of.get(str(arguments.get("label") or "label"))


def to_dataset(annotations: Annotations) -> Any:
    """The annotations as a `datasets.Dataset`; see `Annotations.to_dataset`."""
    return with_class_labels(to_arrow(annotations), annotations.tasks, ("label", "gold"))


def with_class_labels(table: pa.Table, tasks: Sequence[Task], columns: Sequence[str]) -> Any:
    """A `datasets.Dataset` of a table whose `columns` are names of labels.

    Where there is one task and it has a label set, they become `ClassLabel` columns; else they stay text.
    """
    import datasets

    labels = tasks[0].labels if len(tasks) == 1 else None
    features = datasets.Features.from_arrow_schema(table.schema)
    for column in columns if labels else ():
        if column in table.column_names:
            texts = table.column(column)
            numbers = pc.index_in(texts, value_set=pa.array(labels, texts.type), skip_nulls=True)
            position = table.column_names.index(column)
            table = table.set_column(position, column, pc.cast(numbers, pa.int64()))
            features[column] = datasets.ClassLabel(names=list(labels or ()))
    return datasets.Dataset(table.replace_schema_metadata(None).cast(features.arrow_schema))
