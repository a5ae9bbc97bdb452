"""A later table beside an earlier one: the same numbers for the same names, and what is new in it.

In an aligned table the tasks, the labels of each task and the annotators of the earlier one come first, in their old
order, and new ones follow. So whatever was learned of the earlier table is the leading part of what is to be learned of
the later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.items import Ints, Items, Task
from realm.errors import RealmError

SEPARATOR = "\x1f"
"""Between the task and the id of an item: a character that no name has."""


def aligned(
    annotations: Annotations,
    tasks: Sequence[Task],
    annotators: Sequence[str],
    source: str,
    groups: Sequence[str] | None = None,
) -> Annotations:
    """The table with these tasks, labels and annotators first, in this order, and its own new ones after them.

    Annotators and tasks that the table lacks are listed all the same. A label that it lacks is an error, in which
    `source` is what the earlier table is called: a model has learned it, and what it should mean now is not known.
    `groups` are those of the earlier annotators, which hold for those whom the table does not have.
    """
    merged = merged_tasks(tasks, annotations.tasks, source)
    names = (*annotators, *(name for name in annotations.annotators if name not in set(annotators)))
    own = annotations.annotators, annotations.groups
    row_of_annotator = {name: row for row, name in enumerate(names)}
    new_annotator = np.array([row_of_annotator[name] for name in annotations.annotators], dtype=np.int32)
    row_of_task = {task.name: row for row, task in enumerate(merged)}
    new_task = np.array([row_of_task[task.name] for task in annotations.tasks], dtype=np.int32)
    numbers = _new_labels(annotations, merged)

    def renumbered(label: Ints, item: npt.NDArray[np.integer]) -> Ints:
        """The labels (n,) of these items (n,) in the numbers of the merged tasks; -1 stays."""
        own = numbers[annotations.item_tasks[item], np.maximum(label, 0)]
        return np.where(label == UNKNOWN, UNKNOWN, own).astype(np.int32)

    gold = annotations.gold
    return replace(
        annotations,
        items=replace(annotations.items, tasks=merged, item_tasks=new_task[annotations.item_tasks]),
        annotators=names,
        groups=merged_groups(names, _by_name(annotators, groups), _by_name(*own), source),
        annotator=new_annotator[annotations.annotator] if len(new_annotator) else annotations.annotator,
        label=renumbered(annotations.label, annotations.item),
        gold=None if gold is None else renumbered(gold, np.arange(annotations.n_items)),
    )


def _by_name(annotators: Sequence[str], groups: Sequence[str] | None) -> dict[str, str] | None:
    return None if groups is None else dict(zip(annotators, groups, strict=True))


def merged_tasks(earlier: Sequence[Task], later: Sequence[Task], source: str) -> tuple[Task, ...]:
    """The earlier tasks, each with the later one's new labels behind its own, and then the new tasks."""
    of_later = {task.name: task for task in later}
    merged = []
    for task in earlier:
        other = of_later.pop(task.name, task)
        if (task.labels is None) != (other.labels is None):
            has, had = ("labels of its own", "options of their own")[:: 1 if task.labels is None else -1]
            raise RealmError(f"task {task.name!r}: in {source} it had {had}, and here it has {has}.")
        if task.labels is None or other.labels is None:
            merged.append(task)
            continue
        if gone := [label for label in task.labels if label not in other.labels]:
            raise RealmError(
                f"task {task.name!r}: {source} knows the label {gone[0]!r}, and the table does not (its labels: "
                f"{', '.join(other.labels)}). If it only happens not to occur, list all labels with `labels`; if it "
                "was renamed or given up, train from scratch."
            )
        merged.append(Task(task.name, (*task.labels, *(label for label in other.labels if label not in task.labels))))
    return (*merged, *of_later.values())


def _new_labels(annotations: Annotations, merged: Sequence[Task]) -> Ints:
    """The new number of every label: (tasks, Kmax). Where items list their own options it stays."""
    of_name = {task.name: task for task in merged}
    width = int(annotations.option_counts.max(initial=1))
    numbers = np.tile(np.arange(width, dtype=np.int32), (len(annotations.tasks), 1))
    for row, task in enumerate(annotations.tasks):
        labels = of_name[task.name].labels
        if task.labels is not None and labels is not None:
            used = task.labels[:width]  # a task without items may have more labels than any item has options
            numbers[row, : len(used)] = [labels.index(label) for label in used]
    return numbers


@dataclass(frozen=True, eq=False)
class Difference:
    """What is new in a later table that is aligned with an earlier one.

    | field | shape | meaning |
    |---|---|---|
    | earlier_item | (items,) | the same item's row in the earlier table, -1 for a new item |
    | new | (annotations,) | whether the annotation is new |
    | changed | (items,) | new items, and those with an annotation that is new or gone |
    | gone | | annotations of the earlier table that are not in the later one, of items that are |
    | items_gone | | items of the earlier table that are not in the later one |
    """

    earlier_item: npt.NDArray[np.int64]
    new: npt.NDArray[np.bool_]
    changed: npt.NDArray[np.bool_]
    gone: int
    items_gone: int


def difference(earlier: Annotations, later: Annotations, *, gold: bool = False) -> Difference:
    """What of `later` is not in `earlier`; `gold` counts an item as changed whose gold is another."""
    match = matching_items(earlier.items, later.items)
    places = np.full(earlier.n_items, UNKNOWN, dtype=np.int64)
    places[match[match >= 0]] = np.flatnonzero(match >= 0)
    item = places[earlier.item]
    present = np.flatnonzero(item >= 0)
    most = max(_most_repeats(earlier), _most_repeats(later))
    before = _keys(item[present], earlier.annotator[present], earlier.label[present], later, most)
    now = _keys(later.item, later.annotator, later.label, later, most)
    new, gone = ~np.isin(now, before), ~np.isin(before, now)
    if earlier.weight is not None or later.weight is not None:
        new |= _other_weights(earlier, later, present, before, now)
    changed = match < 0
    changed[later.item[new]] = True
    changed[item[present][gone]] = True
    if gold:
        known = np.full(later.n_items, UNKNOWN) if later.gold is None else later.gold
        past = np.full(earlier.n_items, UNKNOWN) if earlier.gold is None else earlier.gold
        changed |= (match >= 0) & (past[match] != known)
    return Difference(match, new, changed, int(gone.sum()), int((places < 0).sum()))


def matching_items(earlier: Items, later: Items) -> npt.NDArray[np.int64]:
    """The row in `earlier` of every item of `later`, -1 for those that are not in it. (later items,)

    The same item has the same task and id, and shows the same: an id that is given to another text is another item.
    """
    if not len(earlier) or not len(later):
        return np.full(len(later), UNKNOWN, dtype=np.int64)
    rows = pc.index_in(_item_keys(later), value_set=_item_keys(earlier))
    match: npt.NDArray[np.int64] = rows.fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    here = np.flatnonzero(match >= 0)
    same = np.ones(len(here), dtype=bool)
    for name in ("texts", "contexts", "options"):
        mine, theirs = getattr(later, name), getattr(earlier, name)
        if mine is not None or theirs is not None:
            same &= _equal(mine, theirs, here, match[here])
    match[here[~same]] = UNKNOWN
    return match


def _item_keys(items: Items) -> pa.Array:
    names = pa.array([task.name for task in items.tasks], pa.large_string())
    tasks = names.take(pa.array(items.item_tasks))
    return pc.binary_join_element_wise(
        tasks, items.ids.cast(pa.large_string()), pa.scalar(SEPARATOR, pa.large_string())
    )


def _equal(
    mine: pa.Array | None, theirs: pa.Array | None, here: npt.NDArray[np.int64], there: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the entries at `here` of one column are those at `there` of another; a missing column has none."""
    kind = (mine if mine is not None else theirs).type  # type: ignore[union-attr]
    first = pa.nulls(len(here), kind) if mine is None else mine.take(pa.array(here))
    second = pa.nulls(len(there), kind) if theirs is None else theirs.take(pa.array(there))
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return np.array([one == other for one, other in zip(first.to_pylist(), second.to_pylist(), strict=True)], bool)
    equal = pc.equal(first, second.cast(kind))
    both_missing = pc.and_(first.is_null(), second.is_null())
    return np.asarray(pc.or_kleene(equal.fill_null(False), both_missing).to_numpy(zero_copy_only=False))


def _keys(
    item: npt.NDArray[np.integer],
    annotator: npt.NDArray[np.integer],
    label: npt.NDArray[np.integer],
    later: Annotations,
    most: int,
) -> npt.NDArray[np.int64]:
    """One number for every annotation: of its (item, annotator, label) in the later table's numbering, and how many
    equal ones stand before it, which are fewer than `most`."""
    width = int(later.option_counts.max(initial=1))
    keys = np.asarray((item.astype(np.int64) * later.n_annotators + annotator) * width + label)
    order = np.argsort(keys, kind="stable")
    _, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    before = np.empty(len(keys), dtype=np.int64)
    before[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    return keys * most + before


def _most_repeats(annotations: Annotations) -> int:
    """How many annotations of one item there are by one annotator at most; 1 where there are none."""
    pair = annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator
    return int(np.unique(pair, return_counts=True)[1].max(initial=1))


def _other_weights(
    earlier: Annotations,
    later: Annotations,
    present: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    now: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Which annotations of the later table are in the earlier one with another weight. (annotations,)"""
    past = np.ones(earlier.n_annotations) if earlier.weight is None else earlier.weight
    weight = np.ones(later.n_annotations) if later.weight is None else later.weight
    order = np.argsort(before, kind="stable")
    place = np.searchsorted(before[order], now)
    place = np.minimum(place, max(len(before) - 1, 0))
    if not len(before):
        return np.zeros(len(now), dtype=bool)
    found = order[place]
    return np.asarray((before[found] == now) & (past[present][found] != weight))


def merged_groups(
    names: Sequence[str], earlier: Mapping[str, str] | None, later: Mapping[str, str] | None, source: str
) -> tuple[str, ...] | None:
    """The group of each of these annotators: the later table's, else the earlier one's. (names,)

    `source` is what the earlier table is called: if it had groups, a later one without any is an error.
    """
    if later is None:
        if earlier is None:
            return None
        there = ", ".join(dict.fromkeys(earlier.values()))
        raise RealmError(
            f"{source} had groups of annotators ({there}), and the table has none. Name their column with `group`."
        )
    known = {**(earlier or {}), **later}
    return tuple(known.get(name, "") for name in names)
