"""From a table with one row per annotation to `Annotations`: items, labels, weights, gold, and what was dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from realm.data.annotations import UNKNOWN, Annotations, Floats
from realm.data.answers import cut_scores, drop_unanswered, resolve_several, warn_of_refusals
from realm.data.columns import Categorical, Codes, Mask, combine, encode, frame_columns, number
from realm.data.corrections import correct_annotators, fold_labels, rename_labels, warn_of_look_alikes
from realm.data.items import Ints, Items, Task
from realm.data.label_sets import number_labels
from realm.data.ledger import Ledger
from realm.data.long_table import LongTable, SourceRows, columns_of
from realm.data.options import option_key
from realm.data.orders import join_orders
from realm.data.read_options import ReadOptions, checked
from realm.data.roles import REMEMBERED, listed
from realm.data.source import Rows, Source
from realm.data.wrong_columns import refuse_items_as_tasks, refuse_merged_items, refuse_swapped
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TASK = "default"
NO_LABEL = "no label"
NO_ANNOTATION = "item without an annotation: neither annotator nor label"
POINT_ZERO = "label written like 1.0, read as 1"
REPEATED = "repeated: the same annotator gave the same label to the same item again"
CONTRADICTED = "contradicted: the same annotator gave the item another label later, which is kept"
GOLD_CHANGED = "gold differs from that on a later row of the same item, which is kept"
_WHOLE = re.compile(r"^-?[0-9]+(\.0+)?$")


def drop_missing(rows: SourceRows) -> None:
    """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
    if rows.options.wants_annotations:
        no_annotator = rows.columns["annotator"].missing()
        no_label = rows.columns["label"].missing(label=True)
        of_excluded = ~rows.annotated  # rows of excluded annotators that have gold
        rows.annotated = ~(no_annotator & no_label)
        rows.record(NO_ANNOTATION, ~rows.annotated & ~of_excluded)
        _refuse(rows, no_annotator & ~no_label, "annotator", "Every label needs its annotator.")
        unlabelled = no_label & ~no_annotator
        if rows.options.missing != "drop":
            _refuse(rows, unlabelled, "label", 'Leave such rows out with `missing="drop"`.')
        rows.record(NO_LABEL, unlabelled)
        rows.leave_out(unlabelled)
        rows.refuse_no_annotation("missing")
    for role in ("text", "task", "item"):
        if role in rows.columns:
            _refuse(rows, rows.columns[role].missing(), role, f"Fill in the {role} or take the row out.")


def _refuse(rows: SourceRows, missing: Mask, role: str, remedy: str) -> None:
    if missing.any():
        raise rows.error(missing, f"no {role} ({int(missing.sum()):,} in all). {remedy}")


def normalise(rows: SourceRows) -> None:
    """Null for blank labels, gold and contexts, and 1 for 1.0 in labels, gold and ids, unless a label is "1.0".

    A spreadsheet or a column with gaps turns 1 into 1.0; as labels they are one. A column in which any cell is
    something else ("1.5", "v1.0") is left alone, and so are listed labels.
    """
    spellings = set(rows.known)
    if "options" in rows.columns:
        every = {option for options in rows.columns["options"].values for option in options if "." in option}
        spellings |= set(filter(_WHOLE.match, every))
    for role in ("item", "context", "label", "gold"):
        if role not in rows.columns:
            continue
        is_label = role in ("label", "gold")
        rows.columns[role] = rows.columns[role].null_where(rows.columns[role].missing(label=is_label))
        if role != "context" and any("." in text for text in rows.columns[role].values):
            texts = [text for text in rows.columns[role].counts() if not is_label or text not in spellings]
            if all(map(_WHOLE.match, texts)):
                reason = POINT_ZERO.replace("label", "item id" if role == "item" else role)
                rows.rename(role, {text: text.split(".")[0] for text in texts}, reason)
        if role == "label":  # gold is spelled as the labels are, where they are versions rather than numbers
            spellings |= set(rows.columns[role].values)


STEPS = (
    *(correct_annotators, resolve_several, rename_labels, drop_missing, drop_unanswered),
    *(cut_scores, normalise, fold_labels, warn_of_refusals),
)
"""What happens to the rows, in this order: each step sees what those before it have left."""


def build(long: LongTable, options: ReadOptions) -> Annotations:
    """Build the annotations table."""
    for role in options.required:
        if role not in long.columns:
            raise long.source.error(f"there is no column for the {role}. Name it with `{role}`.")
    table = _annotations(_after(STEPS, long, options))
    if options.order_suffix is None or options.keep_orders or not options.wants_annotations:
        return table
    return join_orders(table, options.order_suffix)[0]


def _after(steps: Sequence[Callable[[SourceRows], None]], long: LongTable, options: ReadOptions) -> SourceRows:
    if not len(long):
        raise long.source.error("there are no rows in it.")
    rows = SourceRows.of(long, options)
    for step in steps:
        step(rows)
    return rows


def items_of_rows(table: pd.DataFrame | pa.Table, **arguments: Any) -> Items:
    """`build_items_of_rows` of a table in memory; the arguments are those of `Items.from_pandas`."""
    source = Source("the table")
    arrow = table if isinstance(table, pa.Table) else frame_columns(table, source)
    return build_items_of_rows(arrow, checked(None, arguments, wants="items"), source)


def build_items_of_rows(table: pa.Table, options: ReadOptions, source: Source, numbers: Rows | None = None) -> Items:
    """The item that each row of a table shows, to be answered: one that several rows show is there several times.

    `options.tasks` are those of the model that will answer, `numbers` the numbers of the rows in their source.
    """
    columns, names = columns_of(table, options, source)
    numbers = np.arange(1, len(table) + 1, dtype=np.int64) if numbers is None else numbers
    rows = _after((drop_missing, normalise), LongTable(columns, numbers, source, Ledger(), names), options)
    task_of_row, task_names = _tasks(rows)
    tasks, _, _ = number_labels(rows, task_of_row, task_names)
    return _items_table(rows, np.arange(len(rows), dtype=np.int64), task_of_row, tasks)


def _annotations(rows: SourceRows) -> Annotations:
    task_of_row, task_names = _tasks(rows)
    item_of_row, first_row = _items(rows, task_of_row)
    if rows.options.tasks is None and "task" in rows.columns:
        refuse_items_as_tasks(rows, len(task_names), len(first_row))
    refuse_merged_items(rows, item_of_row)
    refuse_swapped(rows, item_of_row)
    tasks, label, gold = number_labels(rows, task_of_row, task_names)
    items = _items_table(rows, first_row, task_of_row, tasks)
    row = np.flatnonzero(rows.annotated)
    annotator, names, weight, groups = np.zeros(0, dtype=np.int64), [], None, None
    if rows.options.wants_annotations:
        annotator, present = encode(pa.array(rows.columns["annotator"].codes[row]))
        names = [rows.columns["annotator"].values[code] for code in present.to_pylist()]
        warn_of_look_alikes(rows, names)
        weight, groups = _weights(rows, row), _groups(rows, row, annotator, len(names))
        kept = _repeats(rows, item_of_row[row], annotator, label[row], row)
        kept = kept[np.argsort(item_of_row[row[kept]], kind="stable")]
        row, annotator, weight = row[kept], annotator[kept], None if weight is None else weight[kept]
    blank_context = items.contexts is not None and items.contexts.null_count == len(items)
    columns = {role: rows.name(role) for role in REMEMBERED if role in rows.columns and rows.name(role)}
    return Annotations(
        items=items,
        annotators=tuple(names),
        item=item_of_row[row].astype(np.int32),
        annotator=annotator.astype(np.int32),
        label=label[row].astype(np.int32),
        weight=weight,
        gold=_gold(rows, gold, item_of_row, len(items)),
        ledger=rows.ledger,
        source_rows=rows.numbers[row].astype(np.int32) if rows.options.keep_rows else None,
        columns={role: name for role, name in columns.items() if role != "context" or not blank_context},
        corrections=rows.corrections,
        groups=groups,
        **{role: seconds[row] for role, seconds in rows.times.items()},
    )


def _tasks(rows: SourceRows) -> tuple[Codes, list[str]]:
    """The task of every row, and the tasks' names: those of the run where there is one."""
    names = [task.name for task in rows.options.tasks or ()]
    if "task" not in rows.columns:
        if len(names) > 1:
            raise rows.source.error(f"the run has several tasks ({listed(names)}). Name their column with `task`.")
        return np.zeros(len(rows), dtype=np.int64), names or [DEFAULT_TASK]
    column = rows.columns["task"]
    if not names:
        codes, present = encode(pa.array(column.codes))
        return codes, [column.values[code] for code in present.to_pylist()]
    places = {name: place for place, name in enumerate(names)}
    codes = np.array([places.get(name, UNKNOWN) for name in column.values], dtype=np.int64)[column.codes]
    if (unknown := np.flatnonzero(codes == UNKNOWN)).size:
        message = f"the task '{column.at(unknown[0])}' is not one of the run's: {listed(names)}."
        raise rows.error(unknown, message)
    return codes, names


def _items(rows: SourceRows, task_of_row: Codes) -> tuple[Codes, Codes]:
    """Tell the items apart: by (task, id) where there is an id column, else by task, text, context and options.

    Returns the item of every row (rows,) and the row on which each item first appears (items,).
    """
    columns = rows.columns
    content = {role: columns[role].codes for role in ("text", "context", "options") if role in columns}
    if "item" not in columns:
        return combine([task_of_row, *content.values()])
    item_of_row, first = combine([task_of_row, columns["item"].codes])
    for role, codes in content.items():
        for row in np.flatnonzero(codes != codes[first][item_of_row])[:1]:
            hint = "name the task column with `task`, or "
            hint += f'give `item="{rows.name("text")}"` if each file numbers its items anew'
            both = rows.source.both(rows.numbers[first[item_of_row[row]]], rows.numbers[row])
            what = f"the item '{columns['item'].at(row)}' has two different {role.removesuffix('s')}s"
            if role != "options" and columns[role].at(row).split() == columns[role].at(first[item_of_row[row]]).split():
                what, hint = f"{what}, which differ in spaces alone", f"trim them, {hint}"
            raise RealmError(f"{both}: {what}. An id must mean one item: {hint}.")
    return item_of_row, first


def _items_table(rows: SourceRows, first_row: Codes, task_of_row: Codes, tasks: tuple[Task, ...]) -> Items:
    """The items that these rows show."""
    columns = rows.columns
    options = None
    if "options" in columns:
        values, codes = columns["options"].values, columns["options"].codes[first_row]
        options = pa.array([list(each) for each in values], pa.large_list(pa.large_string()))
        options = options.take(pa.array(codes, mask=codes < 0))
    return Items(
        ids=columns["item"].text(first_row) if "item" in columns else _hashed_ids(columns, first_row),
        texts=columns["text"].text(first_row),
        contexts=columns["context"].text(first_row) if "context" in columns else None,
        options=options,
        item_tasks=task_of_row[first_row].astype(np.int32),
        tasks=tasks,
    )


def _hashed_ids(columns: dict[str, Categorical], first: Codes) -> pa.LargeStringArray:
    """Ids of items that came without: a hash of their content, so that the same item has it in every table.

    The hash combines 64-bit hashes of the columns as Java combines those of a list: 31 * sum + next.
    """
    import pandas as pd

    key = np.zeros(len(first), dtype=np.uint64)
    for role in ("text", "context", "options"):
        if role not in columns:
            continue
        values, codes = columns[role].values, columns[role].codes[first]
        texts = [*(option_key(value) if role == "options" else value for value in values), ""]
        hashes = pd.util.hash_array(np.array(texts, dtype=object), categorize=False)[codes]
        # without options of its own an item has the id it has in a table without such a column
        key = np.where((codes < 0) & (role == "options"), key, key * np.uint64(31) + hashes)
    digits = key.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(first) + 1, dtype=np.int64) * 16  # hexadecimal digits of 64 bits
    return pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(digits))


def _weights(rows: SourceRows, annotated: Codes) -> Floats | None:
    """The weight of each annotated row, finite and above 0; None where there is no such column."""
    if "weight" not in rows.columns:
        return None
    column = rows.columns["weight"]
    weights = np.array([*map(number, column.values), np.nan])[column.codes[annotated]]
    if (wrong := annotated[~(np.isfinite(weights) & (weights > 0))]).size:
        cell = "is none" if column.codes[wrong[0]] < 0 else f"is '{column.at(wrong[0])}'"
        message = f"the weight in column '{rows.name('weight')}' {cell}, and must be a finite number above 0. "
        raise rows.error(wrong, message + "Take annotations that should not count out, or rename another column.")
    return weights


def _groups(rows: SourceRows, annotated: Codes, annotator: Codes, n_annotators: int) -> tuple[str, ...] | None:
    """The group of each annotator, the same on all their rows; None where there is no such column. (annotators,)"""
    if "group" not in rows.columns:
        return None
    column = rows.columns["group"]
    if (missing := annotated[column.missing()[annotated]]).size:
        raise rows.error(missing, f"no group in column '{rows.name('group')}', which every annotation needs.")
    first = np.zeros(n_annotators, dtype=np.int64)
    first[annotator[::-1]] = annotated[::-1]
    differing = column.codes[annotated] != column.codes[first[annotator]]
    for row, before in zip(annotated[differing][:1], first[annotator[differing]][:1], strict=True):
        who = f"the annotator '{rows.columns['annotator'].at(row)}' is in the group '{column.at(before)}'"
        both = rows.source.both(rows.numbers[before], rows.numbers[row])
        raise RealmError(f"{both}: {who} and in '{column.at(row)}'. If these are two annotators, give them two names.")
    return tuple(column.at(row) for row in first.tolist())


def _repeats(rows: SourceRows, item: Codes, annotator: Codes, label: Codes, annotated: Codes) -> Codes:
    """Which annotations are kept of several of one item by one annotator: all, or the last by time, else by row.

    Those that are dropped go to the ledger; where all are kept there is a warning.
    """
    pair = item * (int(annotator.max(initial=0)) + 1) + annotator
    time = np.nan_to_num(rows.times.get("created_at", np.zeros(len(rows)))[annotated], nan=-np.inf)
    order = np.lexsort((time, pair))
    ends = np.append(np.diff(pair[order]) > 0, True)
    if ends.all():
        return np.arange(len(pair))
    earlier, later = order[~ends], order[ends][np.cumsum(ends) - ends][~ends]
    same = label[earlier] == label[later]
    if (rows.options.repeats or rows.long.repeats) == "last":
        rows.record(REPEATED, annotated[earlier[same]])
        rows.record(CONTRADICTED, annotated[earlier[~same]])
        return np.sort(order[ends])
    rows.ledger.warn(
        f"{len(earlier):,} annotations are of an item that their annotator labelled again, {int((~same).sum()):,} of "
        'them with another label: all count. `repeats="last"` keeps the last of each annotator alone.'
    )
    return np.arange(len(pair))


def _gold(rows: SourceRows, gold: Codes | None, item_of_row: Codes, n_items: int) -> Ints | None:
    """The gold of each item, from the last row that has one. Shape (items,)."""
    if gold is None:
        return None
    with_gold = np.flatnonzero(gold != UNKNOWN)
    of_item = np.full(n_items, UNKNOWN, dtype=np.int32)
    of_item[item_of_row[with_gold]] = gold[with_gold]
    rows.record(GOLD_CHANGED, with_gold[of_item[item_of_row[with_gold]] != gold[with_gold]])
    return of_item
