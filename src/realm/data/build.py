"""From a table with one row per annotation to `Annotations`: items, labels, weights, gold, and what was dropped."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations, Floats
from realm.data.categorical import Codes, combine, encode, renumber
from realm.data.columns import Rows, number
from realm.data.corrections import exclude_annotators, read_label_map
from realm.data.corrections import map_labels as rename_labels
from realm.data.groups import read_groups
from realm.data.items import Ints, Items, Task
from realm.data.label_sets import number_labels
from realm.data.ledger import Ledger
from realm.data.options import LABEL_FORMS, LabelForm, option_keys
from realm.data.orders import join_orders
from realm.data.roles import ANNOTATIONS, ITEMS, REMEMBERED, ROLES, TEST, Corrections, ReadRequest, check_word
from realm.data.rows import SourceRows
from realm.data.several_answers import resolve_several
from realm.data.sources import Files, place_of_two
from realm.data.spelling import look_alikes
from realm.data.verdicts import cut_scores, drop_unanswered, warn_of_refusals
from realm.data.wrong_columns import column_names, refuse_merged_items, refuse_swapped
from realm.errors import RealmError, other_name

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TASK = "default"
HEX_DIGITS = 16
"""Of a 64-bit hash."""

LOOK_ALIKES_NAMED = 5
"""Groups of annotators with names that look alike that a warning names: a few lines."""
REPEATED = "repeated: the same annotator gave the same label to the same item again"
CONTRADICTED = "contradicted: the same annotator gave the item another label later, which is kept"
GOLD_CHANGED = "gold differs from that on a later row of the same item, which is kept"


def build(
    table: pd.DataFrame | pa.Table,
    request: ReadRequest = ANNOTATIONS,
    *,
    labels: Sequence[str] | None = None,
    tasks: Sequence[Task] | None = None,
    exclude: Sequence[str | Path] | str | Path | None = None,
    map_labels: Mapping[str, str] | str | Path | None = None,
    missing: Literal["error", "drop"] = "error",
    unanswered: Sequence[str] | None = None,
    threshold: float | None = None,
    order_suffix: str | None = None,
    label_form: LabelForm = "auto",
    source: str = "the table",
    ledger: Ledger | None = None,
    rows: Rows | None = None,
    keep_rows: bool = False,
    keep_orders: bool = False,
    **columns: Any,
) -> Annotations:
    """Build the annotations table.

    Args:
        table: one row per annotation.
        request: what is to be read of it.
        labels: the label set, in order. By default the labels of the annotations, sorted; gold is never looked at.
        tasks: the tasks of an existing run, so that labels and tasks have the numbers they have there.
        exclude: annotators whose annotations are left out, and counted: names, or files of them (one on each line, or
            a table with a column `annotator`).
        map_labels: the label that each spelling stands for: a mapping, a YAML or JSON file of one, or a table with the
            columns `from` and `to`. Gold is renamed too.
        missing: what to do with a row that has an annotator and no label.
        unanswered: labels that are no answer (a tie, a refusal), in any case: counted, and left out.
        threshold: labels are scores, and these two options of them: below it, and at it or above (`labels` names them).
        order_suffix: annotators NAME and NAME with this behind it are one, asked in two orders (`realm.data.orders`).
        label_form: how labels and gold point at an item's own options.
        source: what messages call the table.
        ledger: what a reader has dropped already; the table's ledger continues it.
        rows: the number of each row in its source, (rows,), where a reader has dropped some.
        keep_rows: keep these numbers, as the table's `source_rows`.
        keep_orders: leave the annotators of the two orders apart, for `realm.data.orders.join_orders`.
        **columns: the column of each role: item, text, annotator, label, weight, group, created_at, lead_time, task,
            gold, options, context; by default those of these names (`annotator_group` for the group). Besides, `multi`:
            what to do with several answers in one annotation ("first" keeps the first, "drop" leaves it out).
    """
    check_word("missing", missing, ("error", "drop"))
    check_word("label_form", label_form, ("auto", *LABEL_FORMS))
    request = _with_columns(request, columns)
    check_word("multi", request.multi, (None, "first", "drop"))
    ledger = Ledger() if ledger is None else ledger.copy()
    table_rows = _source_rows(table, request, rows, source, ledger)
    corrections = _corrections(table_rows, request, exclude, map_labels, order_suffix)
    known = [*(labels or ()), *(name for task in tasks or () for name in task.labels or ())]
    if request.joins_answers:
        resolve_several(table_rows, request.multi, {*known, *corrections.map_labels})
    rename_labels(table_rows, corrections.map_labels, warn=map_labels is not None)
    table_rows.drop_missing(missing)
    if unanswered:
        drop_unanswered(table_rows, unanswered)
    if threshold is not None:
        labels = cut_scores(table_rows, threshold, labels, tasks)
    table_rows.normalise([*(labels or ()), *known])
    warn_of_refusals(table_rows, labels or ())
    annotations = _annotations(table_rows, table, labels, tasks, label_form, keep_rows)
    annotations = replace(annotations, corrections=corrections)
    if order_suffix is None or keep_orders or not request.wants_annotations:
        return annotations
    return join_orders(annotations, order_suffix)[0]


def _corrections(
    rows: SourceRows,
    request: ReadRequest,
    exclude: Sequence[str | Path] | str | Path | None,
    map_labels: Mapping[str, str] | str | Path | None,
    order_suffix: str | None,
) -> Corrections:
    """What is corrected: as the arguments say, else as in the run that the table is for. Annotators are left out."""
    trained = Corrections() if request.trained is None else request.trained.corrections
    mapping = trained.map_labels if map_labels is None else read_label_map(map_labels)
    if exclude is not None:
        return Corrections(exclude_annotators(rows, exclude, order_suffix), mapping)
    there = rows.columns["annotator"].values.to_pylist() if rows.wants_annotations else []
    if names := [name for name in trained.exclude if name in there]:
        exclude_annotators(rows, names, order_suffix)
        assert request.trained is not None
        rows.ledger.warn(
            f"left out as in the run {request.trained.run}: {', '.join(names)}. Name others with `exclude`."
        )
    return Corrections(trained.exclude, mapping)


def refuse_unknown(names: Iterable[str]) -> None:
    """Refuse the name of an argument that `build` does not have."""
    known = [*ROLES, *(each.name for each in fields(ReadRequest)), *inspect.signature(build).parameters]
    if unknown := [name for name in names if name not in known]:
        hint = other_name(unknown[0], known, {}) or f"Columns have the roles {', '.join(ROLES)}."
        raise RealmError(f"`{unknown[0]}`: there is no such argument. {hint}")


def _with_columns(request: ReadRequest, columns: Mapping[str, Any]) -> ReadRequest:
    """The request with these columns for its roles; the name of a column need not be text."""
    refuse_unknown(columns)
    values: dict[str, Any] = dict(columns)
    values |= {role: str(values[role]) for role in ROLES if values.get(role) is not None}
    return replace(request, **values)


def _source_rows(
    table: pd.DataFrame | pa.Table, request: ReadRequest, rows: Rows | None, source: str, ledger: Ledger
) -> SourceRows:
    by_role = request.resolve(column_names(table), source)
    if not len(table):
        raise RealmError(f"{source}: there are no rows in it.")
    numbers = np.arange(1, len(table) + 1, dtype=np.int64) if rows is None else rows
    return SourceRows.of(table, by_role, numbers, request.wants_annotations, source, ledger)


def build_test(table: pd.DataFrame | pa.Table, **arguments: Any) -> Annotations:
    """Items with gold, to evaluate a model on; see `build`. Annotations are not read and need not be there."""
    return build(table, TEST, **arguments)


def build_items(table: pd.DataFrame | pa.Table, **arguments: Any) -> Items:
    """The items of a table; see `build`. Neither annotations nor gold are read."""
    return build(table, ITEMS, **arguments).items


def build_rows(
    table: pd.DataFrame | pa.Table,
    request: ReadRequest = ITEMS,
    *,
    tasks: Sequence[Task],
    source: str = "the table",
    rows: Rows | None = None,
    **columns: Any,
) -> Items:
    """The item that each row of a table shows, to be answered: one that several rows show is there several times.

    `tasks` are those of the model that will answer; see `build` for the rest.
    """
    table_rows = _source_rows(table, _with_columns(request, columns), rows, source, Ledger())
    table_rows.drop_missing("error")
    table_rows.normalise([])
    task_of_row, task_names = _tasks(table_rows, tasks)
    numbers = number_labels(table_rows, task_of_row, task_names, None, tasks, "auto")
    each = np.arange(len(table_rows), dtype=np.int64)
    if "item" in table_rows.columns:
        ids = table_rows.columns["item"].text(each)
    else:
        ids = _hashed_ids(table_rows, None if table_rows.options is None else option_keys(table_rows.options), each)
    return _items_table(table_rows, each, ids, task_of_row, numbers.tasks)


def _annotations(
    rows: SourceRows,
    table: pd.DataFrame | pa.Table,
    labels: Sequence[str] | None,
    tasks: Sequence[Task] | None,
    label_form: LabelForm,
    keep_rows: bool,
) -> Annotations:
    task_of_row, task_names = _tasks(rows, tasks)
    item_of_row, first_row, ids = _items(rows, task_of_row)
    refuse_merged_items(rows, table, task_of_row, item_of_row)
    refuse_swapped(rows, item_of_row)
    numbers = number_labels(rows, task_of_row, task_names, labels, tasks, label_form)
    items = _items_table(rows, first_row, ids, task_of_row, numbers.tasks)
    annotated = np.flatnonzero(rows.annotated)
    annotator, names = _annotators(rows, annotated)
    _warn_of_look_alikes(rows, names)
    item = item_of_row[annotated]
    last = _last_of_each_pair(rows, item, annotator, numbers.label[annotated], annotated, len(names))
    if (np.diff(item[last]) < 0).any():
        last = last[np.argsort(item[last], kind="stable")]
    weight = _weights(rows, annotated)
    times = {role: seconds[annotated[last]] for role, seconds in rows.times.items()}
    return Annotations(
        items=items,
        annotators=names,
        item=item[last].astype(np.int32),
        annotator=annotator[last].astype(np.int32),
        label=numbers.label[annotated[last]].astype(np.int32),
        weight=None if weight is None else weight[last],
        gold=_gold(rows, numbers.gold, item_of_row, len(items)),
        ledger=rows.ledger,
        source_rows=rows.numbers[annotated[last]].astype(np.int32) if keep_rows else None,
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
    return {role: rows.names[role] for role in REMEMBERED if role in rows.names and role not in absent}


# ---------------------------------------------------------------- tasks and items


def _tasks(rows: SourceRows, tasks: Sequence[Task] | None) -> tuple[Codes, list[str]]:
    """The task of every row, and the tasks' names: those of the run where there is one."""
    names = [] if tasks is None else [task.name for task in tasks]
    if "task" not in rows.columns:
        if len(names) > 1:
            raise RealmError(
                f"{rows.source}: the run has {len(names)} tasks ({', '.join(names[:10])}), so the table needs a "
                "task column. Name it with `task`."
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
            if isinstance(rows.source, Files):
                hint += f' If each file numbers its items anew, give `item="{rows.names["text"]}"`.'
            both = place_of_two(rows.source, rows.numbers[first[item_of_row[row]]], rows.numbers[row])
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
    offsets = np.arange(len(first) + 1, dtype=np.int64) * HEX_DIGITS
    return pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(digits))


# ---------------------------------------------------------------- annotations and gold


def _annotators(rows: SourceRows, annotated: Codes) -> tuple[Codes, tuple[str, ...]]:
    """The annotator of each annotated row, and the names in order of first appearance."""
    if not rows.wants_annotations:
        return np.zeros(0, dtype=np.int64), ()
    column = rows.columns["annotator"]
    codes, old_codes = renumber(column.codes[annotated])
    return codes, tuple(column.values.take(pa.array(old_codes)).to_pylist())


def _warn_of_look_alikes(rows: SourceRows, annotators: Sequence[str]) -> None:
    """Say which annotators are probably one, written in several ways: each is judged by a part of their labels."""
    if groups := look_alikes(annotators):
        shown = "; ".join(" and ".join(map(repr, group)) for group in groups[:LOOK_ALIKES_NAMED])
        more = ", ..." if len(groups) > LOOK_ALIKES_NAMED else ""
        rows.ledger.warn(
            f"annotators whose names look alike are taken for different ones: {shown}{more}. If they are the same, "
            "give them one name in the table."
        )


def _weights(rows: SourceRows, annotated: Codes) -> Floats | None:
    """The weight of each annotated row, finite and above 0; None where there is no such column."""
    if "weight" not in rows.columns:
        return None
    name, column = rows.names["weight"], rows.columns["weight"]
    if (missing := annotated[column.missing(nan_words=True)[annotated]]).size:
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


def _last_of_each_pair(
    rows: SourceRows, item: Codes, annotator: Codes, label: Codes, annotated: Codes, n_annotators: int
) -> Codes:
    """Of several annotations of one item by one annotator, the last; the others go to the ledger."""
    pair = item * max(n_annotators, 1) + annotator
    if (np.diff(np.sort(pair)) > 0).all():
        return np.arange(len(pair))
    order = np.argsort(pair, kind="stable")
    ends = np.append(np.diff(pair[order]) > 0, True)
    last = order[ends][np.cumsum(ends) - ends]
    earlier, final = order[~ends], last[~ends]
    same = label[earlier] == label[final]
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
