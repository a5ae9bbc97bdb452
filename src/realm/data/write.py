"""Annotations handed on: the canonical table, to be read back, and tasks for Label Studio's import."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.columns import list_lengths
from realm.data.items import Items
from realm.data.label_sets import sorted_labels
from realm.data.options import LABEL_FORMS, read_labels
from realm.data.read_options import LabelForm
from realm.data.roles import OWN_NAMES
from realm.data.source import Source
from realm.data.times import written
from realm.errors import RealmError
from realm.files import replacing

Index = npt.NDArray[np.int64]


def write_table(annotations: Annotations, path: str | Path) -> None:
    """Write a .csv or .parquet file that `Annotations.read`, with `exact_labels`, reads back as the same table.

    Spreadsheets would run a cell that begins with =, +, - or @: this file is for reading back, not for opening there.
    """
    path = Path(path)
    writers: dict[str, Callable[[pa.Table, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise RealmError(f"{path}: the name of the file must end in {' or '.join(writers)}.")
    table, write = to_arrow(annotations), writers[path.suffix.lower()]
    try:
        with replacing(path) as partial:
            write(table, partial)
    except OSError as error:
        raise RealmError(f"{path}: cannot be written ({error.strerror or error}).") from None


def _write_csv(table: pa.Table, path: Path) -> None:
    if "options" in table.column_names:
        lists = [None if o is None else json.dumps(o, ensure_ascii=False) for o in table.column("options").to_pylist()]
        position = table.column_names.index("options")
        table = table.set_column(position, "options", pa.array(lists, pa.large_string()))
    with path.open("wb") as file:
        pa_csv.write_csv(table, file)


def _write_parquet(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")


def to_arrow(annotations: Annotations, label_form: LabelForm = "auto") -> pa.Table:
    """One row per annotation, and one with neither annotator nor label for an item without any; canonical columns.

    `label_form` is how labels point at an item's own options; "auto" is a form that is read back without doubt.
    """
    items = annotations.items
    unlabelled = np.flatnonzero(annotations.annotations_per_item == 0)
    item = np.concatenate([annotations.item.astype(np.int64), unlabelled])
    order = np.argsort(item, kind="stable")
    item = item[order]
    nobody = np.full(len(unlabelled), UNKNOWN, dtype=np.int64)
    label = np.concatenate([annotations.label.astype(np.int64), nobody])[order]
    annotator = np.concatenate([annotations.annotator.astype(np.int64), nobody])[order]
    rows = pa.array(item)
    columns = {"item": items.ids.take(rows)}
    columns["task"] = _named([task.name for task in items.tasks], items.item_tasks[item].astype(np.int64))
    columns["text"] = items.texts.take(rows)
    if items.contexts is not None:
        columns["context"] = items.contexts.take(rows)
    if items.options is not None:
        columns["options"] = items.options.take(rows)
    columns["annotator"] = _named(list(annotations.annotators), annotator)
    if annotations.groups is not None:
        columns[OWN_NAMES["group"]] = _named(list(annotations.groups), annotator)
    gold = None if annotations.gold is None else annotations.gold[item].astype(np.int64)
    if label_form == "auto":
        label_form = _readable_form(items, item, label, gold)
    columns["label"] = _labels(items, item, label, label_form)
    if annotations.weight is not None:
        weight = np.concatenate([annotations.weight, np.full(len(unlabelled), np.nan)])[order]
        columns["weight"] = pa.array(weight, mask=annotator == UNKNOWN)
    for name, seconds in (("created_at", annotations.created_at), ("lead_time", annotations.lead_time)):
        if seconds is not None:
            values = np.concatenate([seconds, np.full(len(unlabelled), np.nan)])[order]
            columns[name] = written(values) if name == "created_at" else pa.array(values, mask=np.isnan(values))
    if gold is not None:
        columns["gold"] = _labels(items, item, gold, label_form)
    return pa.table(columns)


def _named(names: list[str], codes: Index) -> pa.LargeStringArray:
    return pa.array(names, pa.large_string()).take(pa.array(codes, mask=codes == UNKNOWN))


def _labels(items: Items, item: Index, label: Index, form: LabelForm) -> pa.LargeStringArray:
    """Labels by name; those that point at an item's own options in this form. Shape (rows,)."""
    label_sets = [task.labels or () for task in items.tasks]
    names = pa.array([name for label_set in label_sets for name in label_set], pa.large_string())
    starts = np.concatenate([[0], np.cumsum([len(label_set) for label_set in label_sets])])[:-1].astype(np.int64)
    position = starts[items.item_tasks[item]] + label
    if items.options is not None:
        own = np.asarray(items.options.is_valid())[item]
        counts = list_lengths(items.options)
        if form == "text":
            values, first = items.options.flatten(), (np.cumsum(counts) - counts)[item]
        else:
            numbers = range(int(counts.max(initial=0)))
            values = pa.array([chr(ord("A") + k) if form == "letter" else str(k) for k in numbers], pa.large_string())
            first = np.zeros(len(item), dtype=np.int64)
        position = np.where(own, len(names) + first + label, position)
        names = pa.concat_arrays([names, values.cast(pa.large_string())])
    return names.take(pa.array(position, mask=label == UNKNOWN))


def _readable_form(items: Items, item: Index, label: Index, gold: Index | None) -> LabelForm:
    """The form in which labels that point at an item's own options are read back right: text where it can be."""
    if items.options is None:
        return "text"
    for form in reversed(LABEL_FORMS):
        if all(_reads_back(items, item, codes, form) for codes in (label, gold) if codes is not None):
            return form
    raise RealmError("the labels cannot be written so that they are read back without doubt: the options are numbers.")


def _reads_back(items: Items, item: Index, codes: Index, form: LabelForm) -> bool:
    assert items.options is not None
    options = items.options.take(pa.array(item))
    mask = np.asarray(options.is_valid()) & (codes != UNKNOWN)
    column = _labels(items, item, codes, form)
    try:
        labels = read_labels(column, mask, options, item, label_form="auto", role="label", source=Source("the table"))
    except RealmError:
        return False
    return bool((labels[mask] == codes[mask]).all())


def labels_follow(annotations: Annotations) -> bool:
    """Whether every task's labels follow from the annotations alone, so that a table read back has them again."""
    task_of = annotations.item_tasks[annotations.item]
    for index, task in enumerate(annotations.tasks):
        if task.labels is not None:
            labels = np.unique(annotations.label[task_of == index])
            if sorted_labels([task.labels[label] for label in labels]) != task.labels:
                return False
    return True


def label_studio_tasks(
    rows: Iterable[tuple[str, str, str, float | None]],
    contexts: Iterable[str | None] | None = None,
    *,
    control: str = "label",
    text: str = "text",
    to_name: str = "text",
    model_version: str = "realm",
) -> list[dict[str, Any]]:
    """Tasks to import, each with one prediction that annotators see as the pre-filled answer.

    Args:
        rows: (item id, text, label, confidence) of each item; the confidence is None where it is not known.
        contexts: the passage that each text refers to, for the data field `context`.
        control: name of the project's Choices tag.
        text: the data field that the project shows, `$text` in its labelling interface.
        to_name: name of the tag that shows it.
        model_version: what Label Studio calls the source of the predictions.

    Examples:
        >>> label_studio_tasks([("7", "A joy.", "Positive", 0.97)], control="sentiment")[0]["predictions"][0]["score"]
        0.97
    """
    taken = ("item",) if contexts is None else ("item", "context")
    if text in taken:
        raise RealmError(f"`text={text}`: this data field holds the item's {text.replace('item', 'id')}. Name another.")
    return [
        {
            "data": {text: item_text, "item": item, **({} if context is None else {"context": context})},
            "predictions": [
                {
                    "model_version": model_version,
                    **({} if confidence is None else {"score": float(confidence)}),
                    "result": [
                        {
                            "id": f"realm{number}",
                            "from_name": control,
                            "to_name": to_name,
                            "type": "choices",
                            "value": {"choices": [label]},
                        }
                    ],
                }
            ],
        }
        for number, ((item, item_text, label, confidence), context) in enumerate(
            zip(rows, repeat(None) if contexts is None else contexts, strict=contexts is not None), 1
        )
    ]
