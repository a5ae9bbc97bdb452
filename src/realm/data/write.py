"""The canonical table, written exactly as it is: one row per annotation, to be read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.choices import FORMS, LabelForm, read_labels
from realm.data.comma_lists import join_list
from realm.data.inventory import in_order
from realm.errors import RealmError

Index = npt.NDArray[np.int64]
SUFFIXES = (".csv", ".parquet")


def write_table(annotations: Annotations, path: str | Path) -> None:
    """Write a .csv or .parquet file that `Annotations.read` reads back as the same table.

    Spreadsheets would run a cell that begins with =, +, - or @: this file is for reading back, not for opening there.
    """
    path = Path(path)
    writers: dict[str, Callable[[pa.Table, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise RealmError(f"--output {path}: must end in {' or '.join(SUFFIXES)}.")
    table = to_arrow(annotations)
    beside = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix.lower()](table, beside)
        os.replace(beside, path)
    except OSError as error:
        raise RealmError(f"--output {path}: cannot be written ({error.strerror or error}).") from None
    finally:
        with suppress(OSError):
            beside.unlink()


def _write_csv(table: pa.Table, path: Path) -> None:
    if "options" in table.column_names:
        lists = [None if o is None else json.dumps(o, ensure_ascii=False) for o in table.column("options").to_pylist()]
        place = table.column_names.index("options")
        table = table.set_column(place, "options", pa.array(lists, pa.large_string()))
    with path.open("wb") as file:
        pa_csv.write_csv(table, file)


def _write_parquet(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")


def to_arrow(annotations: Annotations) -> pa.Table:
    """One row per annotation, and one with neither annotator nor label for an item without any; canonical columns."""
    bare = np.flatnonzero(annotations.annotations_per_item == 0)
    item = np.concatenate([annotations.item.astype(np.int64), bare])
    order = np.argsort(item, kind="stable")
    nobody = np.full(len(bare), UNKNOWN, dtype=np.int64)
    item = item[order]
    label = np.concatenate([annotations.label.astype(np.int64), nobody])[order]
    person = np.concatenate([annotations.annotator.astype(np.int64), nobody])[order]
    rows = pa.array(item)
    columns = {"item": annotations.item_ids.take(rows)}
    columns["task"] = _named([task.name for task in annotations.tasks], annotations.item_tasks[item].astype(np.int64))
    columns["text"] = annotations.texts.take(rows)
    if annotations.contexts is not None:
        columns["context"] = annotations.contexts.take(rows)
    if annotations.options is not None:
        columns["options"] = annotations.options.take(rows)
    columns["annotator"] = _named(list(annotations.annotators), person)
    gold = None if annotations.gold is None else annotations.gold[item].astype(np.int64)
    form = _form(annotations, item, label, gold)
    columns["label"] = _labels(annotations, item, label, form)
    if gold is not None:
        columns["gold"] = _labels(annotations, item, gold, form)
    return pa.table(columns)


def _named(names: list[str], codes: Index) -> pa.LargeStringArray:
    return pa.array(names, pa.large_string()).take(pa.array(codes, mask=codes == UNKNOWN))


def _labels(annotations: Annotations, item: Index, label: Index, form: LabelForm) -> pa.LargeStringArray:
    """Labels by name; those that point at an item's own options in the given form. Shape (rows,)."""
    inventories = [task.labels or () for task in annotations.tasks]
    names = pa.array([name for inventory in inventories for name in inventory], pa.large_string())
    starts = np.concatenate([[0], np.cumsum([len(inventory) for inventory in inventories])])[:-1].astype(np.int64)
    at = starts[annotations.item_tasks[item]] + label
    if annotations.options is not None:
        own = annotations.options.is_valid().to_numpy(zero_copy_only=False)[item]
        counts = annotations.options.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if form == "text":
            values, first = annotations.options.flatten(), (np.cumsum(counts) - counts)[item]
        else:
            places = range(int(counts.max(initial=0)))
            values = pa.array([chr(ord("A") + k) if form == "letter" else str(k) for k in places], pa.large_string())
            first = np.zeros(len(item), dtype=np.int64)
        at = np.where(own, len(names) + first + label, at)
        names = pa.concat_arrays([names, values.cast(pa.large_string())])
    return names.take(pa.array(at, mask=label == UNKNOWN))


def _form(annotations: Annotations, item: Index, label: Index, gold: Index | None) -> LabelForm:
    """The form in which labels of multiple choice are read back right: text where it can be."""
    if annotations.options is None:
        return "text"
    options = annotations.options.take(pa.array(item))
    own = options.is_valid().to_numpy(zero_copy_only=False)
    for form in reversed(FORMS):
        if all(
            _reads_back(annotations, item, codes, own, options, form) for codes in (label, gold) if codes is not None
        ):
            return form
    raise RealmError("the labels cannot be written so that they are read back without doubt: the options are numbers.")


def _reads_back(
    annotations: Annotations, item: Index, codes: Index, own: npt.NDArray[np.bool_], options: pa.Array, form: LabelForm
) -> bool:
    given = own & (codes != UNKNOWN)
    column = _labels(annotations, item, codes, form)
    try:
        read = read_labels(column, given, options, item, form="auto", role="label", source="the table")
    except RealmError:
        return False
    return bool((read[given] == codes[given]).all())


def inventory_hint(annotations: Annotations) -> str | None:
    """The --labels that must be given when the table is read back, where they do not follow from the labels met."""
    task_of = annotations.item_tasks[annotations.item]
    for index, task in enumerate(annotations.tasks):
        if task.labels is not None:
            met = np.unique(annotations.label[task_of == index])
            if in_order([task.labels[label] for label in met]) != task.labels:
                return join_list(task.labels)
    return None
