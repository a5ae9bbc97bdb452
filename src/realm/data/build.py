"""From a table with one row per annotation to `Annotations`: items, labels, weights, gold, and what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations, Floats
from realm.data.answers import cut_scores, drop_unanswered, resolve_several, warn_of_refusals
from realm.data.columns import Codes, combine, encode, frame_columns, number, renumber
from realm.data.corrections import (
    exclude_annotators,
    fold_annotators,
    fold_labels,
    read_map,
    rename,
    warn_of_look_alikes,
)
from realm.data.groups import read_groups
from realm.data.items import Ints, Items, Task
from realm.data.label_sets import number_labels
from realm.data.ledger import Ledger
from realm.data.long_table import LongTable, columns_of
from realm.data.options import option_keys
from realm.data.orders import join_orders
from realm.data.read_options import ReadOptions, checked
from realm.data.roles import REMEMBERED, Corrections
from realm.data.rows import SourceRows
from realm.data.source import Rows, Source
from realm.data.wrong_columns import refuse_items_as_tasks, refuse_merged_items, refuse_swapped
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TASK = "default"
REPEATED = "repeated: the same annotator gave the same label to the same item again"
CONTRADICTED = "contradicted: the same annotator gave the item another label later, which is kept"
GOLD_CHANGED = "gold differs from that on a later row of the same item, which is kept"


def build(long: LongTable, options: ReadOptions) -> Annotations:
    """Build the annotations table. The order of the steps matters: each sees what those before it have left."""
    for role in options.required:
        if role not in long.columns:
            raise long.source.error(f"there is no column for the {role}. Name it with `{role}`.")
    if not len(long):
        raise long.source.error("there are no rows in it.")
    rows = SourceRows.of(long, options)
    labels = options.labels if options.labels is not None or options.tasks is not None else long.labels
    known = [*(labels or ()), *(name for task in options.tasks or () for name in task.labels or ())]
    corrections = _correct_annotators(rows, options)
    resolve_several(rows, options.multi, {*known, *corrections.map_labels})
    rename(rows, ("label", "gold"), corrections.map_labels, warn=options.map_labels is not None)
    rows.drop_missing(options.missing)
    if options.unanswered:
        drop_unanswered(rows, options.unanswered)
    if options.threshold is not None:
        labels = cut_scores(rows, options.threshold, labels, options.tasks)
        known = [*known, *labels]
    rows.normalise(known)
    if not options.exact_labels:
        fold_labels(rows, {*known, *corrections.map_labels.values()})
    warn_of_refusals(rows, labels or ())
    form = long.label_form if options.label_form == "auto" else options.label_form
    annotations = _annotations(rows, replace(options, labels=labels, label_form=form), long.repeats)
    annotations = replace(annotations, corrections=corrections)
    if options.order_suffix is None or options.keep_orders or not options.wants_annotations:
        return annotations
    return join_orders(annotations, options.order_suffix)[0]


def _correct_annotators(rows: SourceRows, options: ReadOptions) -> Corrections:
    """Rename and leave out annotators. What is corrected: as the options say, else as in the run of the table."""
    trained = Corrections() if options.trained is None else options.trained.corrections
    labels, names = trained.map_labels, trained.map_annotators
    if options.map_labels is not None:
        labels = read_map(options.map_labels, "map_labels")
    if options.map_annotators is not None:
        names = read_map(options.map_annotators, "map_annotators")
    rename(rows, ("annotator",), names, warn=options.map_annotators is not None)
    fold_annotators(rows)
    if options.exclude is not None:
        return Corrections(exclude_annotators(rows, options.exclude, options.order_suffix), labels, names)
    there = rows.columns["annotator"].values.to_pylist() if rows.wants_annotations else []
    if left_out := [name for name in trained.exclude if name in there]:
        exclude_annotators(rows, left_out, options.order_suffix)
        assert options.trained is not None
        rows.ledger.warn(
            f"left out as in the run {options.trained.run}: {', '.join(left_out)}. Name others with `exclude`."
        )
    return Corrections(trained.exclude, labels, names)


def items_of_rows(table: pd.DataFrame | pa.Table, **arguments: Any) -> Items:
    """`build_items_of_rows` of a table in memory; the arguments are those of `Items.from_pandas`."""
    source = Source("the table")
    arrow = table if isinstance(table, pa.Table) else frame_columns(table, source)
    return build_items_of_rows(arrow, checked(None, arguments, wants="items"), source)


def build_items_of_rows(table: pa.Table, options: ReadOptions, source: Source, numbers: Rows | None = None) -> Items:
    """The item that each row of a table shows, to be answered: one that several rows show is there several times.

    `options.tasks` are those of the model that will answer, `numbers` the numbers of the rows in their source.
    """
    if not len(table):
        raise source.error("there are no rows in it.")
    columns, names = columns_of(table, options, source)
    numbers = np.arange(1, len(table) + 1, dtype=np.int64) if numbers is None else numbers
    rows = SourceRows.of(LongTable(columns, numbers, source, Ledger(), names), options)
    rows.drop_missing(None)
    rows.normalise([])
    task_of_row, task_names = _tasks(rows, options.tasks)
    numbered = number_labels(rows, task_of_row, task_names, None, options.tasks, "auto")
    each = np.arange(len(rows), dtype=np.int64)
    if "item" in rows.columns:
        ids = rows.columns["item"].text(each)
    else:
        ids = _hashed_ids(rows, None if rows.options is None else option_keys(rows.options), each)
    return _items_table(rows, each, ids, task_of_row, numbered.tasks)


def _annotations(rows: SourceRows, options: ReadOptions, usual_repeats: str) -> Annotations:
    task_of_row, task_names = _tasks(rows, options.tasks)
    item_of_row, first_row, ids = _items(rows, task_of_row)
    if options.tasks is None and "task" in rows.columns:
        refuse_items_as_tasks(rows, len(task_names), len(first_row))
    refuse_merged_items(rows, task_of_row, item_of_row)
    refuse_swapped(rows, item_of_row)
    numbers = number_labels(rows, task_of_row, task_names, options.labels, options.tasks, options.label_form)
    items = _items_table(rows, first_row, ids, task_of_row, numbers.tasks)
    annotated = np.flatnonzero(rows.annotated)
    annotator, names = _annotators(rows, annotated)
    warn_of_look_alikes(rows, names)
    weight = _weights(rows, annotated)
    kept = np.arange(len(annotated))
    if options.wants_annotations:
        last = (options.repeats or usual_repeats) == "last"
        kept = _without_repeats(rows, item_of_row[annotated], annotator, numbers.label[annotated], annotated, last)
    kept = kept[np.argsort(item_of_row[annotated[kept]], kind="stable")]
    row = annotated[kept]
    times = {role: seconds[row] for role, seconds in rows.times.items()}
    return Annotations(
        items=items,
        annotators=names,
        item=item_of_row[row].astype(np.int32),
        annotator=annotator[kept].astype(np.int32),
        label=numbers.label[row].astype(np.int32),
        weight=None if weight is None else weight[kept],
        gold=_gold(rows, numbers.gold, item_of_row, len(items)),
        ledger=rows.ledger,
        source_rows=rows.numbers[row].astype(np.int32) if options.keep_rows else None,
        columns=_columns_of_items(rows, items),
        groups=read_groups(rows, annotated, annotator, names),
        created_at=times.get("created_at"),
        lead_time=times.get("lead_time"),
    )


def _items_table(
    rows: SourceRows, first_row: Codes, ids: pa.LargeStringArray, task_of_row: Codes, tasks: tuple[Task, ...]
) -> Items:
    """The items that these rows show."""
    return Items(
        ids=ids,
        texts=rows.columns["text"].text(first_row),
        contexts=rows.columns["context"].text(first_row) if "context" in rows.columns else None,
        options=None if rows.options is None else rows.options.take(pa.array(first_row)),
        item_tasks=task_of_row[first_row].astype(np.int32),
        tasks=tasks,
    )


def _columns_of_items(rows: SourceRows, items: Items) -> dict[str, str]:
    """The column of each role that the items were read from; contexts or options that are all blank are none."""
    absent = set()
    if items.contexts is not None and items.contexts.null_count == len(items):
        absent.add("context")
    if items.options is None:
        absent.add("options")
    return {role: rows.names[role] for role in REMEMBERED if rows.names.get(role) and role not in absent}


# ---------------------------------------------------------------- tasks and items


def _tasks(rows: SourceRows, tasks: Sequence[Task] | None) -> tuple[Codes, list[str]]:
    """The task of every row, and the tasks' names: those of the run where there is one."""
    names = [] if tasks is None else [task.name for task in tasks]
    if "task" not in rows.columns:
        if len(names) > 1:
            raise rows.source.error(
                f"the run has {len(names)} tasks ({', '.join(names[:10])}), so the table needs a task column. Name it "
                "with `task`."
            )
        return np.zeros(len(rows), dtype=np.int64), names or [DEFAULT_TASK]
    column = rows.columns["task"]
    if tasks is None:
        codes, old_codes = renumber(column.codes)
        return codes, column.values.take(pa.array(old_codes)).to_pylist()
    numbers = pc.index_in(column.values, value_set=pa.array(names, pa.large_string())).fill_null(UNKNOWN)
    codes = np.asarray(numbers, dtype=np.int64)[column.codes]
    if (unknown := np.flatnonzero(codes == UNKNOWN)).size:
        raise rows.error(
            unknown, f"the task '{column.at(unknown[0])}' is not one of the run's: {', '.join(names[:20])}."
        )
    return codes, names


def _items(rows: SourceRows, task_of_row: Codes) -> tuple[Codes, Codes, pa.LargeStringArray]:
    """Tell the items apart: by (task, id) where there is an id column, else by task, text, context and options.

    Returns the item of every row (rows,), the row on which each item first appears (items,), and their ids (items,).
    """
    columns = rows.columns
    keys = None if rows.options is None else option_keys(rows.options)
    content: dict[str, Codes] = {role: columns[role].codes for role in ("text", "context") if role in columns}
    if keys is not None:
        content["options"] = encode(keys)[0]
    if "item" not in columns:
        item_of_row, first = combine([task_of_row, *content.values()])
        return item_of_row, first, _hashed_ids(rows, keys, first)
    item_of_row, first = combine([task_of_row, columns["item"].codes])
    for role, codes in content.items():
        if (differing := np.flatnonzero(codes != codes[first][item_of_row])).size:
            row = int(differing[0])
            hint = " If it means one item per task, name the task column with `task`." if role == "text" else ""
            if rows.source.files:
                hint += f' If each file numbers its items anew, give `item="{rows.names["text"]}"`.'
            both = rows.source.both(rows.numbers[first[item_of_row[row]]], rows.numbers[row])
            raise RealmError(
                f"{both}: the item '{columns['item'].at(row)}' has two different "
                f"{role.removesuffix('s')}s. An id must mean one item.{hint}"
            )
    return item_of_row, first, columns["item"].text(first)


def _hashed_ids(rows: SourceRows, keys: pa.LargeStringArray | None, first: Codes) -> pa.LargeStringArray:
    """Ids of items that came without: a hash of their content, so that the same item has it in every table.

    The hash combines 64-bit hashes of the columns as Java combines those of a list: 31 * sum + next.
    """
    import pandas as pd

    key = np.zeros(len(first), dtype=np.uint64)
    for role in ("text", "context"):
        if role in rows.columns:
            texts = np.asarray(rows.columns[role].text(first).fill_null(""))
            key = key * np.uint64(31) + pd.util.hash_array(texts, categorize=False)
    if keys is not None:
        options = np.asarray(keys.take(pa.array(first)))
        # Without options of its own an item has the id it has in a table without such a column.
        key = np.where(options == "", key, key * np.uint64(31) + pd.util.hash_array(options, categorize=False))
    digits = key.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(first) + 1, dtype=np.int64) * 16  # hexadecimal digits of 64 bits
    return pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(digits))


# ---------------------------------------------------------------- annotations and gold


def _annotators(rows: SourceRows, annotated: Codes) -> tuple[Codes, tuple[str, ...]]:
    """The annotator of each annotated row, and the names in order of first appearance."""
    if not rows.wants_annotations:
        return np.zeros(0, dtype=np.int64), ()
    column = rows.columns["annotator"]
    codes, old_codes = renumber(column.codes[annotated])
    return codes, tuple(column.values.take(pa.array(old_codes)).to_pylist())


def _weights(rows: SourceRows, annotated: Codes) -> Floats | None:
    """The weight of each annotated row, finite and above 0; None where there is no such column."""
    if "weight" not in rows.columns:
        return None
    name, column = rows.names["weight"], rows.columns["weight"]
    if (missing := annotated[column.missing(label=True)[annotated]]).size:
        raise rows.error(
            missing,
            f"no weight in column '{name}'. Give every annotation a weight, or rename the column if it holds "
            "something else.",
        )
    values = np.array([*(number(value) for value in column.values.to_pylist()), np.nan])
    weights = values[column.codes[annotated]]
    if (wrong := annotated[~(np.isfinite(weights) & (weights > 0))]).size:
        raise rows.error(
            wrong,
            f"the weight '{column.at(wrong[0])}' in column '{name}' is not a finite number above 0. Take an "
            "annotation that should not count out of the table.",
        )
    return weights


def _without_repeats(
    rows: SourceRows, item: Codes, annotator: Codes, label: Codes, annotated: Codes, last: bool
) -> Codes:
    """Which annotations are kept of several of one item by one annotator: all, or the `last` by time, else by row.

    Those that are dropped go to the ledger; where all are kept there is a warning.
    """
    pair = item * (int(annotator.max(initial=0)) + 1) + annotator
    if (np.diff(np.sort(pair)) > 0).all():
        return np.arange(len(pair))
    times = rows.times.get("created_at")
    time = np.zeros(len(pair)) if times is None else np.nan_to_num(times[annotated], nan=-np.inf)
    order = np.lexsort((time, pair))
    ends = np.append(np.diff(pair[order]) > 0, True)
    final = order[ends][np.cumsum(ends) - ends]
    earlier, later = order[~ends], final[~ends]
    same = label[earlier] == label[later]
    if not last:
        rows.ledger.warn(
            f"{len(earlier):,} annotations are of an item that their annotator labelled again, "
            f"{int((~same).sum()):,} of them with another label: all count. "
            '`repeats="last"` keeps the last of each annotator alone.'
        )
        return np.arange(len(pair))
    rows.record(REPEATED, annotated[earlier[same]])
    rows.record(CONTRADICTED, annotated[earlier[~same]])
    return np.sort(order[ends])


def _gold(rows: SourceRows, gold: Codes | None, item_of_row: Codes, n_items: int) -> Ints | None:
    """The gold of each item, from the last row that has one. Shape (items,)."""
    if gold is None:
        return None
    with_gold = np.flatnonzero(gold != UNKNOWN)
    of_item = np.full(n_items, UNKNOWN, dtype=np.int32)
    of_item[item_of_row[with_gold]] = gold[with_gold]
    rows.record(GOLD_CHANGED, with_gold[of_item[item_of_row[with_gold]] != gold[with_gold]])
    return of_item
