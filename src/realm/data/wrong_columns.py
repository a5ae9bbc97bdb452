"""Columns that were taken for what they are not: a text or a task for the item's id, the annotator for the label.

Nothing in a single row shows it. What shows it is the whole table: one item with two golds while a column beside it has
ids; annotators who contradict themselves while the labels, taken for annotators, never do.
"""

from __future__ import annotations

import numpy as np

from realm.data.columns import Categorical, Codes, combine
from realm.data.rows import SourceRows
from realm.errors import RealmError

ID_WORDS = ("id", "uid", "uuid", "key", "pair", "idx", "index", "item", "example", "question", "hit", "sentence")
"""What columns of ids are called: of several that would do, one of these is suggested."""
SOME = 0.1
"""The share of annotations that contradict another above which annotators and labels may be swapped."""
HARDLY = 0.01
"""The share that may contradict another in the right order: people now and then change their mind."""
MANY_TIMES = 10
"""How many times as many labels as annotators are many more."""
ENOUGH_ITEMS = 10
"""Items that several annotators labelled: if they never agree on one of so many, what they gave are no labels."""
MANY_TASKS = 10
"""Tasks of so many that as many as half of the items have one each are no tasks."""


def refuse_items_as_tasks(rows: SourceRows, n_tasks: int, n_items: int) -> None:
    """Refuse a column of tasks that has about as many as there are items: tables for crowd-kit call an item a task."""
    if n_tasks < MANY_TASKS or 2 * n_tasks <= n_items:
        return
    name = rows.names["task"]
    other = next((role for role in ("text", "item") if role in rows.names), "text")
    raise rows.source.error(
        f"the column '{name}' makes {n_tasks:,} tasks of {n_items:,} items, and a task is a set of items with one "
        f'label set. If it is the id of the item, give `item="{name}"`; if it is no role of the table, rename it, or '
        f'name the column of tasks with `task`. (The {other} is the column "{rows.names.get(other, other)}".)'
    )


def refuse_merged_items(rows: SourceRows, task_of_row: Codes, item_of_row: Codes) -> None:
    """Refuse items that were told apart by their text where their gold differs and a column of ids stands beside it."""
    if "gold" not in rows.columns or "item" in rows.columns or rows.others is None:
        return
    gold = rows.columns["gold"]
    golden = np.flatnonzero(~gold.missing(label=True))
    conflict = _conflict(item_of_row[golden], gold.codes[golden])
    if conflict is None:
        return
    first, second = golden[list(conflict)]
    names = [name for name in rows.others.column_names if _is_id(rows, name, task_of_row, item_of_row, golden)]
    if not names:
        return
    column = min(names, key=lambda name: not set(name.lower().replace("-", "_").split("_")) & set(ID_WORDS))
    raise RealmError(
        f"{rows.source.both(rows.numbers[first], rows.numbers[second])}: they were taken for one item, because their "
        f"text is the same, but the gold of one is '{gold.at(first)}' and of the other '{gold.at(second)}'. The "
        f"column '{column}' tells them apart: name it with `item=\"{column}\"`. If one text is one item whatever its "
        f'gold, say so with `item="{rows.names["text"]}"`.'
    )


def _conflict(group: Codes, value: Codes) -> tuple[int, int] | None:
    """The positions of two entries of one group with different values, the first there are; None where none differ."""
    first = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    differing = np.flatnonzero(value != value[first[group]])
    return (int(first[group[differing[0]]]), int(differing[0])) if len(differing) else None


def _is_id(rows: SourceRows, name: str, task_of_row: Codes, item_of_row: Codes, golden: Codes) -> bool:
    """Whether a column has ids of items: each means one text and one gold. One that numbers annotations is none."""
    assert rows.others is not None
    if rows.others.column_names.count(name) > 1:
        return False
    try:
        column = Categorical.of(rows.others.column(name), name, rows.source)
    except RealmError:  # lists, bytes: no ids
        return False
    if column.missing().any():
        return False
    ids, _ = combine([task_of_row, column.codes])
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
    if n_annotators == 1:
        return
    columns = f'`annotator="{rows.names["label"]}"` and `label="{rows.names["annotator"]}"`'
    counts = f"{n_labels:,} labels by {n_annotators:,} annotators"
    contradicted = _contradictions(item, annotator, label)
    if not contradicted:
        if n_labels > MANY_TIMES * n_annotators and len(np.unique(item)) == len(item):
            rows.ledger.warn(f"{counts}: are annotator and label swapped? If so, give {columns}.")
        return
    # An agreement, two annotators with one label, would be a contradiction if they were swapped.
    if contradicted > SOME * len(item) and _contradictions(item, label, annotator) <= HARDLY * len(item):
        message = (
            f"{counts}, and {contradicted:,} of {len(item):,} annotations contradict another by the same annotator"
        )
        _, first = combine([item, annotator])
        if (np.bincount(item[first]) > 1).sum() >= ENOUGH_ITEMS:
            raise rows.source.error(
                f"{message}, while hardly two annotators agree on any item: annotator and label are swapped. Give "
                f"{columns}."
            )
        if n_labels > n_annotators:
            rows.ledger.warn(f"{message}: are annotator and label swapped? If so, give {columns}.")


def _contradictions(item: Codes, annotator: Codes, label: Codes) -> int:
    """How many annotations have a later one by the same annotator on the same item that says something else."""
    _, first = combine([item, annotator, label])
    pair, _ = combine([item[first], annotator[first]])
    return len(first) - (int(pair.max(initial=-1)) + 1)
