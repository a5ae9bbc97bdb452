"""The canonical table: annotations with all corrections applied, to be read back by every command without flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.label_sets import sorted_labels
from realm.data.options import Options, read_choices, written
from realm.data.read_options import LabelForm
from realm.data.roles import OWN_NAMES
from realm.data.times import written as written_times
from realm.errors import RealmError
from realm.files import replacing

Index = npt.NDArray[np.integer]


def write_table(annotations: Annotations, path: str | Path) -> None:
    """Write a .csv or .parquet file that `Annotations.read`, with `exact_labels`, reads back as the same table.

    Spreadsheets would run a cell that begins with =, +, - or @: this file is for reading back, not for opening there.
    """
    path, table = Path(path), to_arrow(annotations)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise RealmError(f"{path}: the name of the file must end in .csv or .parquet.")
    if suffix == ".csv" and "options" in table.column_names:
        texts = [each and json.dumps(each, ensure_ascii=False) for each in table.column("options").to_pylist()]
        position = table.column_names.index("options")
        table = table.set_column(position, "options", pa.array(texts, pa.large_string()))
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            if suffix == ".csv":
                pa_csv.write_csv(table, file)
            else:
                pq.write_table(table, file, compression="zstd")
    except OSError as error:
        raise RealmError(f"{path}: cannot be written ({error.strerror or error}).") from None


def to_arrow(annotations: Annotations, label_form: LabelForm = "auto") -> pa.Table:
    """One row per annotation, and one with neither annotator nor label for an item without any; canonical columns.

    `label_form` is how labels point at an item's own options; "auto" is a form that is read back without doubt.
    """
    items = annotations.items
    unlabelled = np.flatnonzero(annotations.annotations_per_item == 0)
    item = np.concatenate([annotations.item.astype(np.int64), unlabelled])
    order = np.argsort(item, kind="stable")
    item, rows = item[order], pa.array(item[order])

    def of_annotations(values: npt.NDArray[Any], nothing: float = UNKNOWN) -> npt.NDArray[Any]:
        """Values of annotations by row, and what rows without one have. Shape (rows,)."""
        return np.concatenate([values, np.full(len(unlabelled), nothing, dtype=values.dtype)])[order]

    annotator, label = of_annotations(annotations.annotator), of_annotations(annotations.label)
    gold = None if annotations.gold is None else annotations.gold[item]
    if label_form == "auto":
        label_form = _readable_form(annotations, item, label, gold)
    columns = {"item": items.ids.take(rows)}
    columns["task"] = _named([task.name for task in items.tasks], items.item_tasks[item])
    columns["text"] = items.texts.take(rows)
    if items.contexts is not None:
        columns["context"] = items.contexts.take(rows)
    if items.options is not None:
        columns["options"] = items.options.take(rows)
    columns["annotator"] = _named(list(annotations.annotators), annotator)
    if annotations.groups is not None:
        columns[OWN_NAMES["group"]] = _named(list(annotations.groups), annotator)
    columns["label"] = _labels(annotations, item, label, label_form)
    if annotations.weight is not None:
        columns["weight"] = pa.array(of_annotations(annotations.weight), mask=annotator == UNKNOWN)
    if annotations.created_at is not None:
        columns["created_at"] = written_times(of_annotations(annotations.created_at, np.nan))
    if annotations.lead_time is not None:
        columns["lead_time"] = pa.array(of_annotations(annotations.lead_time, np.nan), from_pandas=True)
    if gold is not None:
        columns["gold"] = _labels(annotations, item, gold, label_form)
    return pa.table(columns)


def _named(names: list[str], codes: npt.NDArray[Any]) -> pa.LargeStringArray:
    return pa.array(names, pa.large_string()).take(pa.array(codes, mask=codes == UNKNOWN))


def _labels(annotations: Annotations, item: Index, label: Index, form: LabelForm) -> pa.LargeStringArray:
    """Labels by name; those that point at an item's own options in this form. Shape (rows,)."""
    label_sets = [list(task.labels or ()) for task in annotations.tasks]
    starts = np.cumsum([0, *map(len, label_sets)])[:-1]
    names = [name for labels in label_sets for name in labels]
    codes = np.where(label < 0, UNKNOWN, starts[annotations.item_tasks[item]] + label)
    for row, options in _own_options(annotations, item, label):
        codes[row] = len(names)
        names.append(written(options, label[row], form))
    return _named(names, codes)


def _own_options(annotations: Annotations, item: Index, label: Index) -> list[tuple[int, Options]]:
    """The rows with a label that points at the item's own options, and these options."""
    lists = annotations.items.options
    own = [] if lists is None else [each and tuple(each) for each in lists.to_pylist()]
    return [(int(row), own[item[row]]) for row in np.flatnonzero(label >= 0) if own[item[row]]] if own else []


def _readable_form(annotations: Annotations, item: Index, label: Index, gold: Index | None) -> LabelForm:
    """The form in which labels that point at an item's own options are read back right: text where it can be."""
    columns = [(each, _own_options(annotations, item, each)) for each in (label, gold) if each is not None]
    forms: tuple[LabelForm, ...] = ("text", "letter", "index")
    for form in forms:
        for labels, own in columns:
            texts = [(options, written(options, labels[row], form)) for row, options in own]
            numbers, wrong, _ = read_choices(texts, "auto")
            if wrong is not None or numbers != [labels[row] for row, _ in own]:
                break
        else:
            return form
    raise RealmError("the labels cannot be written so that they are read back without doubt: the options are numbers.")


def labels_follow(annotations: Annotations) -> bool:
    """Whether every task's labels follow from the annotations alone, so that a table read back has them again."""
    task_of = annotations.item_tasks[annotations.item]
    for index, task in enumerate(annotations.tasks):
        if task.labels is not None:
            labels = np.unique(annotations.label[task_of == index])
            if sorted_labels([task.labels[label] for label in labels]) != task.labels:
                return False
    return True
