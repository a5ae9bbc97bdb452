"""Columns that were taken for what they are not: a text or a task for the item's id, the annotator for the label.

Nothing in a single row shows it. What shows it is the whole table: one item with two golds while a column beside it has
ids; annotators who contradict themselves while the labels, taken for annotators, never do.
"""

from __future__ import annotations

import numpy as np

from realm.data.columns import Categorical, Codes, combine
from realm.data.long_table import SourceRows
from realm.errors import RealmError

ID_WORDS = {"id", "uid", "uuid", "key", "pair", "idx", "index", "item", "example", "question", "hit"}
"""What columns of ids are called: of several that would do, one of these is suggested."""
SOME, HARDLY = 0.1, 0.01
"""Shares of annotations that contradict another: above the first they are too many, below the second people change
their mind now and then."""
MANY_TIMES = 10
"""How many times as many labels as annotators are many more."""
MANY = 10
"""Items on which nobody agrees, or tasks of which half of the items have one each: more than chance makes."""


def refuse_items_as_tasks(rows: SourceRows, n_tasks: int, n_items: int) -> None:
    """Refuse a column of tasks that has about as many as there are items: tables for crowd-kit call an item a task."""
    if n_tasks >= MANY and 2 * n_tasks > n_items:
        name = rows.name("task")
        fix = f'If it is the id of the item, give `item="{name}"`; else name the column of tasks with `task`.'
        raise rows.source.error(f"the column '{name}' makes {n_tasks:,} tasks of {n_items:,} items. {fix}")


def refuse_merged_items(rows: SourceRows, item_of_row: Codes) -> None:
    """Refuse items that were told apart by their text where their gold differs and a column of ids stands beside it."""
    others = rows.long.others
    if "gold" not in rows.columns or "item" in rows.columns or others is None:
        return
    gold = rows.columns["gold"]
    golden = np.flatnonzero(~gold.missing(label=True))
    if (conflict := _conflict(item_of_row[golden], gold.codes[golden])) is None:
        return
    first, second = golden[list(conflict)]
    names = [name for name in others.column_names if _is_id(rows, name, item_of_row, golden)]
    for name in sorted(names, key=lambda name: not set(name.lower().replace("-", "_").split("_")) & ID_WORDS)[:1]:
        both = rows.source.both(rows.numbers[first], rows.numbers[second])
        raise RealmError(
            f"{both}: their text is the same, but the gold of one is '{gold.at(first)}' and of the other "
            f"'{gold.at(second)}'. The column '{name}' tells them apart: name it with `item=\"{name}\"`. If one text "
            f'is one item whatever its gold, give `item="{rows.name("text")}"`.'
        )


def _conflict(group: Codes, value: Codes) -> tuple[int, int] | None:
    """The positions of two entries of one group with different values, the first there are; None where none differ."""
    first = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    differing = np.flatnonzero(value != value[first[group]])
    return (int(first[group[differing[0]]]), int(differing[0])) if len(differing) else None


def _is_id(rows: SourceRows, name: str, item_of_row: Codes, golden: Codes) -> bool:
    """Whether a column has ids of items: each means one text and one gold. One that numbers annotations is none."""
    assert rows.long.others is not None
    try:
        column = Categorical.of(rows.long.others.column(name), name, rows.source).take(rows.position)
    except (RealmError, KeyError):  # lists, bytes, or a name that several columns have
        return False
    ids, gold = column.codes, rows.columns["gold"].codes
    numbers_rows = len(np.unique(ids)) == len(ids) > len(np.unique(item_of_row)) and rows.options.wants_annotations
    is_one = _conflict(ids, item_of_row) is None and _conflict(ids[golden], gold[golden]) is None
    return is_one and not numbers_rows and not column.missing().any()


def refuse_swapped(rows: SourceRows, item_of_row: Codes) -> None:
    """Refuse a table in which annotators and labels must be swapped; warn of one in which they may be."""
    if not rows.options.wants_annotations:
        return
    annotated = np.flatnonzero(rows.annotated)
    item = item_of_row[annotated]
    annotator, label = (rows.columns[role].codes[annotated] for role in ("annotator", "label"))
    n_annotators, n_labels = (int(np.count_nonzero(np.bincount(codes))) for codes in (annotator, label))
    n_items = int(np.count_nonzero(np.bincount(item)))
    if not {"item", "options"} & rows.columns.keys() and n_labels > MANY_TIMES * n_items:
        fix = f'`text="{rows.name("label")}"` and `label="{rows.name("text")}"`'
        rows.ledger.warn(f"{n_labels:,} labels of {n_items:,} texts: are text and label swapped? If so, give {fix}.")
    contradicted = _contradictions(item, annotator, label)
    is_one_each = np.bincount(item).max() == 1 and n_labels > MANY_TIMES * n_annotators
    # An agreement, two annotators with one label, would be a contradiction if they were swapped.
    is_swapped = contradicted > SOME * len(item) and _contradictions(item, label, annotator) <= HARDLY * len(item)
    if n_annotators == 1 or not (is_one_each or is_swapped):
        return
    message = f"{n_labels:,} labels by {n_annotators:,} annotators, and {contradicted:,} of {len(item):,} annotations "
    message += "contradict another by the same annotator"
    fix = f'`annotator="{rows.name("label")}"` and `label="{rows.name("annotator")}"`'
    _, first = combine([item, annotator])
    if is_swapped and (np.bincount(item[first]) > 1).sum() >= MANY:
        message += ", while hardly two annotators agree on any item: annotator and label are swapped"
        raise rows.source.error(f"{message}. Give {fix}.")
    if is_one_each or n_labels > n_annotators:
        rows.ledger.warn(f"{message}: are annotator and label swapped? If so, give {fix}.")


def _contradictions(item: Codes, annotator: Codes, label: Codes) -> int:
    """How many annotations have a later one by the same annotator on the same item that says something else."""
    _, first = combine([item, annotator, label])
    return len(first) - len(combine([item[first], annotator[first]])[1])
