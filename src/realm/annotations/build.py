"""From a table with one row per annotation to `Annotations`: identities, labels, gold, and what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.annotations.choices import LabelForm, option_keys, read_options
from realm.annotations.columns import (
    Mask,
    Rows,
    as_text,
    encode,
    missing,
    name_rows,
    resolve,
    take_column,
    whole_numbers,
)
from realm.annotations.inventory import read_tasks
from realm.annotations.ledger import Ledger
from realm.annotations.table import UNKNOWN, Annotations, Ints, Task
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Need = Literal["annotations", "gold", "items"]
REQUIRED = {"annotations": ("text", "annotator", "label"), "gold": ("text", "gold"), "items": ("text",)}
DEFAULT_TASK = "default"

NO_LABEL = "no label"
NO_ANNOTATION = "item without an annotation: neither annotator nor label"
REPEATED = "repeated: the same annotator gave the same label to the same item again"
CONTRADICTED = "contradicted: the same annotator gave the item another label later, which is kept"
POINT_ZERO = "label written like 1.0, read as 1"
GOLD_CHANGED = "gold differs from that on a later row of the same item, which is kept"


def build(
    table: pd.DataFrame | pa.Table,
    *,
    text: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    task: str | None = None,
    gold: str | None = None,
    item: str | None = None,
    options: str | None = None,
    context: str | None = None,
    labels: Sequence[str] | None = None,
    tasks: Sequence[Task] | None = None,
    need: Need = "annotations",
    missing: Literal["error", "drop"] = "error",
    label_form: LabelForm = "auto",
    source: str = "the table",
    ledger: Ledger | None = None,
    rows: Rows | None = None,
    keep_rows: bool = False,
) -> Annotations:
    """Build the annotations table.

    Args:
        table: one row per annotation.
        text, annotator, label, task, gold, item, options, context: the columns; by default those of these names.
        labels: the label inventory, in order. By default the labels given, sorted; gold is never looked at.
        tasks: the tasks of an existing run, so that labels and tasks have the numbers they have there.
        need: "annotations" (text, annotator and label must be there), "gold" (text and gold; a test table, whose
            annotations are not read) or "items" (text alone; neither annotations nor gold are read).
        missing: what to do with a row that has an annotator and no label.
        label_form: how labels and gold point at an item's own options.
        source: what messages call the table.
        ledger: what a reader has dropped already; the table's ledger continues it.
        rows: the number of each row in its source, (rows,), where a reader has dropped some.
        keep_rows: keep these numbers, as the table's `source_rows`.
    """
    _check_words(need=need, missing=missing, label_form=label_form)
    names = list(table.column_names) if isinstance(table, pa.Table) else [str(name) for name in table.columns]
    given = {"item": item, "text": text, "annotator": annotator, "label": label}
    given |= {"task": task, "gold": gold, "options": options, "context": context}
    chosen = resolve(given, REQUIRED[need], names, source)
    if not len(table):
        raise RealmError(f"{source}: there are no rows in it.")
    number = np.arange(1, len(table) + 1, dtype=np.int64) if rows is None else rows
    read = _Rows.of(table, chosen, number, need, source, Ledger() if ledger is None else ledger.merged(Ledger()))
    read.drop_missing(missing)
    read.tidy_labels([*(labels or ()), *(name for known in tasks or () for name in known.labels or ())])
    return read.table(labels, tasks, label_form, keep_rows)


def _check_words(**words: str) -> None:
    allowed = {
        "need": ("annotations", "gold", "items"),
        "missing": ("error", "drop"),
        "label_form": ("auto", "index", "letter", "text"),
    }
    for name, word in words.items():
        if word not in allowed[name]:
            raise RealmError(f"--{name.replace('_', '-')} {word}: must be one of {', '.join(allowed[name])}.")


@dataclass
class _Rows:
    """The columns of the source as text, one entry per row, on their way into the table."""

    columns: dict[str, pa.LargeStringArray]
    options: pa.LargeListArray | None
    number: Rows
    annotated: Mask
    need: Need
    source: str
    ledger: Ledger

    @classmethod
    def of(cls, table: Any, chosen: dict[str, str], number: Rows, need: Need, source: str, ledger: Ledger) -> _Rows:
        wanted = [role for role in chosen if role != "options"]
        unread = {"annotations": (), "gold": ("annotator", "label"), "items": ("annotator", "label", "gold")}
        wanted = [role for role in wanted if role not in unread[need]]
        columns = {role: as_text(take_column(table, chosen[role], source), chosen[role], source) for role in wanted}
        options = read_options(table, chosen["options"], number, source) if "options" in chosen else None
        annotated = np.full(len(table), need == "annotations")
        return cls(columns, options, number, annotated, need, source, ledger)

    def keep(self, kept: Mask) -> None:
        chosen = pa.array(kept)
        self.columns = {role: column.filter(chosen) for role, column in self.columns.items()}
        self.options = None if self.options is None else self.options.filter(chosen)
        self.number, self.annotated = self.number[kept], self.annotated[kept]

    def drop_missing(self, how: str) -> None:
        """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
        if self.need == "annotations":
            nobody = missing(self.columns["annotator"])
            nothing = missing(self.columns["label"], nan_words=True)
            self.annotated = ~(nobody & nothing)
            self.ledger.add(NO_ANNOTATION, self.number[~self.annotated][:100], int((~self.annotated).sum()))
            self._refuse(nobody & ~nothing, "annotator", "Every label needs its annotator.")
            unlabelled = nothing & ~nobody
            if how == "drop":
                self.ledger.add(NO_LABEL, self.number[unlabelled][:100], int(unlabelled.sum()))
                self.keep(~unlabelled)
            else:
                self._refuse(unlabelled, "label", "Leave such rows out with --missing drop.")
            if not self.annotated.any():
                raise RealmError(f"{self.source}: there is not one annotation in it: every label is missing.")
        for role in ("text", "task", "item"):
            if role in self.columns:
                self._refuse(missing(self.columns[role]), role, f"Fill in the {role} or take the row out.")

    def _refuse(self, absent: Mask, role: str, remedy: str) -> None:
        if absent.any():
            at = name_rows(self.number[absent])
            raise RealmError(f"{self.source}, {at}: no {role} ({int(absent.sum()):,} in all). {remedy}")

    def tidy_labels(self, known: Sequence[str]) -> None:
        for role in ("label", "gold"):
            if role in self.columns:
                absent = pa.array(missing(self.columns[role], nan_words=True))
                column = pc.if_else(absent, pa.scalar(None, pa.large_string()), self.columns[role])
                self.columns[role], changed = whole_numbers(column, known)
                reason = POINT_ZERO if role == "label" else POINT_ZERO.replace("label", "gold")
                self.ledger.add(reason, self.number[changed][:100], int(changed.sum()))

    # ---------------------------------------------------------------- the table

    def table(
        self, labels: Sequence[str] | None, tasks: Sequence[Task] | None, form: LabelForm, keep_rows: bool
    ) -> Annotations:
        task_of_row, task_names = self._tasks(tasks)
        item_of_row, first = self._items(task_of_row)
        n_items = len(first)
        annotated = np.flatnonzero(self.annotated)
        told = np.zeros(len(self.number), dtype=bool)
        told[annotated] = True
        read = read_tasks(
            self.columns, self.options, self.number, task_of_row, task_names,
            annotated=told, labels=labels, tasks=tasks, form=form, need=self.need, source=self.source,
        )  # fmt: skip
        people, names = self._annotators(annotated)
        kept = self._last_of_each(item_of_row[annotated], people, read.label[annotated], len(names))
        kept = kept[np.argsort(item_of_row[annotated][kept], kind="stable")]
        index = pa.array(first)
        item_ids = self.columns["item"].take(index) if "item" in self.columns else self._ids(first)
        return Annotations(
            item_ids=item_ids,
            texts=self.columns["text"].take(index),
            contexts=self.columns["context"].take(index) if "context" in self.columns else None,
            options=None
            if self.options is None or self.options.null_count == len(self.options)
            else self.options.take(index),
            item_tasks=task_of_row[first].astype(np.int32),
            tasks=read.tasks,
            annotators=names,
            item=item_of_row[annotated][kept].astype(np.int32),
            annotator=people[kept].astype(np.int32),
            label=read.label[annotated][kept].astype(np.int32),
            gold=self._gold(read.gold, item_of_row, n_items),
            ledger=self.ledger,
            source_rows=self.number[annotated][kept].astype(np.int32) if keep_rows else None,
        )

    def _tasks(self, known: Sequence[Task] | None) -> tuple[npt.NDArray[np.int64], list[str]]:
        """The task of every row, and the tasks' names: those of the run where there is one."""
        names = [] if known is None else [task.name for task in known]
        if "task" not in self.columns:
            if len(names) > 1:
                raise RealmError(
                    f"{self.source}: the run has {len(names)} tasks ({', '.join(names[:10])}), so the table needs a "
                    "task column. Name it with --task."
                )
            return np.zeros(len(self.number), dtype=np.int64), names or [DEFAULT_TASK]
        codes, values = encode(self.columns["task"])
        if known is None:
            return codes, values.to_pylist()
        renumber = pc.index_in(values, value_set=pa.array(names, pa.large_string())).fill_null(UNKNOWN)
        codes = renumber.to_numpy(zero_copy_only=False).astype(np.int64)[codes]
        if (at := np.flatnonzero(codes == UNKNOWN)).size:
            value = self.columns["task"][int(at[0])].as_py()
            raise RealmError(
                f"{self.source}, {name_rows(self.number[at])}: the task '{value}' is not one of the run's: "
                f"{', '.join(names[:20])}."
            )
        return codes, names

    def _items(self, task_of_row: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The item of every row, and the row on which each item is first met. Shapes (rows,), (items,)."""
        parts: dict[str, pa.Array] = {"text": self.columns["text"]}
        if "context" in self.columns:
            parts["context"] = self.columns["context"]
        if self.options is not None:
            parts["options"] = option_keys(self.options)
        codes = {name: encode(part)[0] for name, part in parts.items()}
        if "item" in self.columns:
            item_of_row, first = _combine([task_of_row, encode(self.columns["item"])[0]])
            for name, code in codes.items():
                if (at := np.flatnonzero(code != code[first][item_of_row])).size:
                    row, before = int(at[0]), int(first[item_of_row[at[0]]])
                    raise RealmError(
                        f"{self.source}, rows {self.number[before]} and {self.number[row]}: the item "
                        f"'{self.columns['item'][row].as_py()}' has two different {name}s. An id must mean one item."
                        + (
                            " If it means one item per task, name the task column with --task."
                            if name == "text"
                            else ""
                        )
                    )
            return item_of_row, first
        return _combine([task_of_row, *codes.values()])

    def _ids(self, first: npt.NDArray[np.int64]) -> pa.LargeStringArray:
        """Ids of items that came without: a hash of what is shown, so that the same item has it in every table."""
        import pandas as pd

        index = pa.array(first)
        key = pd.util.hash_array(self.columns["text"].take(index).to_numpy(zero_copy_only=False), categorize=False)
        if "context" in self.columns:
            more = self.columns["context"].take(index).fill_null("")
            key = key * np.uint64(31) + pd.util.hash_array(more.to_numpy(zero_copy_only=False), categorize=False)
        if self.options is not None:
            more = option_keys(self.options.take(index)).fill_null("")
            key = key * np.uint64(31) + pd.util.hash_array(more.to_numpy(zero_copy_only=False), categorize=False)
        hexed = key.astype(">u8").tobytes().hex().encode()
        offsets = np.arange(len(first) + 1, dtype=np.int64) * 16
        return pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(hexed))

    def _annotators(self, annotated: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        if self.need != "annotations":
            return np.zeros(0, dtype=np.int64), ()
        codes, names = encode(self.columns["annotator"].take(pa.array(annotated)))
        return codes, tuple(names.to_pylist())

    def _last_of_each(
        self, item: npt.NDArray[np.int64], person: npt.NDArray[np.int64], label: npt.NDArray[np.int64], n_people: int
    ) -> npt.NDArray[np.int64]:
        """Of several annotations of one item by one annotator, the last; the others go to the ledger."""
        pair = item * max(n_people, 1) + person
        order = np.argsort(pair, kind="stable")
        ends = np.append(pair[order][1:] != pair[order][:-1], True) if len(order) else np.zeros(0, dtype=bool)
        if ends.all():
            return np.arange(len(pair))
        last = order[ends][np.cumsum(ends) - ends]
        earlier, final = order[~ends], last[~ends]
        same = label[earlier] == label[final]
        number = self.number[self.annotated]
        for reason, which in ((REPEATED, earlier[same]), (CONTRADICTED, earlier[~same])):
            self.ledger.add(reason, np.sort(number[which])[:100], len(which))
        return np.sort(order[ends])

    def _gold(
        self, gold: npt.NDArray[np.int64] | None, item_of_row: npt.NDArray[np.int64], n_items: int
    ) -> Ints | None:
        if gold is None:
            return None
        known = np.flatnonzero(gold != UNKNOWN)
        of_item = np.full(n_items, UNKNOWN, dtype=np.int32)
        of_item[item_of_row[known]] = gold[known]
        changed = known[of_item[item_of_row[known]] != gold[known]]
        self.ledger.add(GOLD_CHANGED, self.number[changed][:100], len(changed))
        return of_item


def _combine(codes: Sequence[npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One code per distinct combination, in order of first appearance, and the row of each's first appearance."""
    combined = codes[0]
    for code in codes[1:]:
        combined = combined * (int(code.max(initial=0)) + 2) + code + 1
        combined = encode(pa.array(combined))[0]
    combined = encode(pa.array(combined))[0]
    first = np.empty(int(combined.max(initial=-1)) + 1, dtype=np.int64)
    first[combined[::-1]] = np.arange(len(combined) - 1, -1, -1)
    return combined, first
