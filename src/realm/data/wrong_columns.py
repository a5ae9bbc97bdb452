"""Columns that were taken for what they are not: a text for the item's id, the annotator for the label.

Nothing in a single row shows it. What shows it is the whole table: one item with two golds while a column beside it has
ids; annotators who contradict themselves on most items while the labels, taken for annotators, never do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.categorical import Categorical, Codes, combine
from realm.data.columns import take_column
from realm.data.rows import SourceRows
from realm.data.sources import place_of_two
from realm.errors import RealmError

ID_WORDS = ("id", "uid", "uuid", "key", "pair", "idx", "index", "item", "example", "question", "hit", "sentence")
"""What columns of ids are called: of several that would do, one of these is suggested."""
MOST, SOME = 0.5, 0.1
"""Shares of annotations that contradict another: above the first a table is not believed, and above the second one in
which there are many more labels than annotators."""
MANY_TIMES = 10
"""How many times as many labels as annotators are many more."""
ENOUGH_ITEMS = 10
"""Items that several annotators labelled: if they never agree on one of so many, what they gave are no labels."""


def refuse_merged_items(rows: SourceRows, table: Any, task_of_row: Codes, item_of_row: Codes) -> None:
    """Refuse items that were told apart by their text where their gold differs and a column of ids stands beside it."""
    if "gold" not in rows.columns or "item" in rows.columns:
        return
    gold = rows.columns["gold"]
    golden = np.flatnonzero(~gold.missing(nan_words=True))
    conflict = _conflict(item_of_row[golden], gold.codes[golden])
    if conflict is None:
        return
    first, second = golden[list(conflict)]
    names = column_names(table)
    candidates = [
        name
        for name in names
        if names.count(name) == 1
        and name not in rows.names.values()
        and _is_id(rows, table, name, task_of_row, item_of_row, golden)
    ]
    if not candidates:
        return
    column = min(candidates, key=lambda name: not set(name.lower().replace("-", "_").split("_")) & set(ID_WORDS))
    both = place_of_two(rows.source, rows.numbers[first], rows.numbers[second])
    raise RealmError(
        f"{both}: they were taken for one item, because their text is the same, but the gold of one "
        f"is '{gold.at(first)}' and of the other '{gold.at(second)}'. The "
        f"column '{column}' tells them apart: name it with `item=\"{column}\"`. If one text is one item whatever its "
        f'gold, say so with `item="{rows.names["text"]}"`.'
    )


def column_names(table: Any) -> list[str]:
    """The names of a table's columns, in Arrow or in pandas."""
    return list(table.column_names) if isinstance(table, pa.Table) else [str(name) for name in table.columns]


def _conflict(group: Codes, value: Codes) -> tuple[int, int] | None:
    """The positions of two entries of one group with different values, the first there are; None where none differ."""
    first = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    differing = np.flatnonzero(value != value[first[group]])
    return (int(first[group[differing[0]]]), int(differing[0])) if len(differing) else None


def _is_id(rows: SourceRows, table: Any, name: str, task_of_row: Codes, item_of_row: Codes, golden: Codes) -> bool:
    """Whether a column has ids of items: each means one text and one gold. One that numbers annotations is none."""
    try:
        column = Categorical.of(take_column(table, name, rows.source), name, rows.source)
    except RealmError:  # lists, bytes: no ids
        return False
    if column.missing()[rows.positions].any():
        return False
    ids, _ = combine([task_of_row, column.codes[rows.positions]])
    if (
        _conflict(ids, item_of_row) is not None
        or _conflict(ids[golden], rows.columns["gold"].codes[golden]) is not None
    ):
        return False
    has_several_rows = len(np.unique(item_of_row[rows.annotated])) < int(rows.annotated.sum())
    is_row_number = len(np.unique(ids)) == len(ids)
    return not (rows.wants_annotations and has_several_rows and is_row_number)


def refuse_swapped(rows: SourceRows, item_of_row: Codes) -> None:
    """Refuse a table in which annotators and labels must be swapped; warn of one in which they may be."""
    if not rows.wants_annotations:
        return
    annotated = np.flatnonzero(rows.annotated)
    item = item_of_row[annotated]
    annotator, label = (rows.columns[role].codes[annotated] for role in ("annotator", "label"))
    n_annotators, n_labels = (int(np.count_nonzero(np.bincount(codes))) for codes in (annotator, label))
    if n_labels <= n_annotators or n_annotators == 1:
        return
    columns = f'`annotator="{rows.names["label"]}"` and `label="{rows.names["annotator"]}"`'
    counts = f"{n_labels:,} labels by {n_annotators:,} annotators"
    contradicted = _contradictions(item, annotator, label)
    has_many_labels = n_labels > MANY_TIMES * n_annotators
    if not contradicted:
        if has_many_labels and len(np.unique(item)) == len(item):
            rows.ledger.warn(f"{counts}: are annotator and label swapped? If so, give {columns}.")
        return
    # An agreement, two annotators with one label, would be a contradiction if they were swapped.
    if contradicted > (SOME if has_many_labels else MOST) * len(item) and not _contradictions(item, label, annotator):
        message = (
            f"{counts}, and {contradicted:,} of {len(item):,} annotations contradict another by the same annotator"
        )
        if _items_of_several(item, annotator) >= ENOUGH_ITEMS:
            raise RealmError(
                f"{rows.source}: {message}, while no two annotators agree on any item: annotator and label are "
                f"swapped. Give {columns}."
            )
        rows.ledger.warn(f"{message}: are annotator and label swapped? If so, give {columns}.")


def _items_of_several(item: Codes, annotator: Codes) -> int:
    """How many items have annotations by more than one annotator."""
    _, first = combine([item, annotator])
    return int((np.bincount(item[first]) > 1).sum())


def _contradictions(item: Codes, annotator: Codes, label: Codes) -> int:
    """How many annotations have a later one by the same annotator on the same item that says something else."""
    _, first = combine([item, annotator, label])
    pair, _ = combine([item[first], annotator[first]])
    return len(first) - len(np.unique(pair))
