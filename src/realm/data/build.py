"""From a table with one row per annotation to `Annotations`: identities, labels, gold, and what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations
from realm.data.choices import LabelForm, read_options, written_with_point
from realm.data.coded import Coded, Codes, renumber
from realm.data.columns import Mask, Rows, name_rows, resolve, take_column
from realm.data.identity import identify
from realm.data.inventory import read_tasks
from realm.data.items import Ints, Items, Task
from realm.data.ledger import Ledger
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Need = Literal["annotations", "gold", "items"]
REQUIRED = {"annotations": ("text", "annotator", "label"), "gold": ("text", "gold"), "items": ("text",)}
UNREAD: dict[str, tuple[str, ...]] = {
    "annotations": (),
    "gold": ("annotator", "label"),
    "items": ("annotator", "label", "gold"),
}
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
    # What is not read need not be there: one set of flags serves a table and its test table.
    given |= dict.fromkeys(UNREAD[need])
    chosen = resolve(given, REQUIRED[need], names, source)
    if not len(table):
        raise RealmError(f"{source}: there are no rows in it.")
    number = np.arange(1, len(table) + 1, dtype=np.int64) if rows is None else rows
    read = _Rows.of(table, chosen, number, need, source, Ledger() if ledger is None else ledger.merged(Ledger()))
    read.drop_missing(missing)
    read.tidy([*(labels or ()), *(name for known in tasks or () for name in known.labels or ())])
    return read.table(labels, tasks, label_form, keep_rows)


def build_items(table: pd.DataFrame | pa.Table, **columns: Any) -> Items:
    """The items of a table; see `build`. Neither annotations nor gold are read."""
    return build(table, need="items", **columns).items


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
    """The columns of the source, one entry per row, on their way into the table."""

    columns: dict[str, Coded]
    options: pa.LargeListArray | None
    number: Rows
    annotated: Mask
    need: Need
    source: str
    ledger: Ledger

    @classmethod
    def of(cls, table: Any, chosen: dict[str, str], number: Rows, need: Need, source: str, ledger: Ledger) -> _Rows:
        wanted = [role for role in chosen if role != "options"]
        wanted = [role for role in wanted if role not in UNREAD[need]]
        columns = {role: Coded.of(take_column(table, chosen[role], source), chosen[role], source) for role in wanted}
        options = read_options(table, chosen["options"], number, source) if "options" in chosen else None
        if options is not None and options.null_count == len(options):
            options = None
        annotated = np.full(len(table), need == "annotations")
        return cls(columns, options, number, annotated, need, source, ledger)

    def keep(self, kept: Mask) -> None:
        self.columns = {role: column.keep(kept) for role, column in self.columns.items()}
        self.options = None if self.options is None else self.options.filter(pa.array(kept))
        self.number, self.annotated = self.number[kept], self.annotated[kept]

    def drop_missing(self, how: str) -> None:
        """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
        if self.need == "annotations":
            nobody = self.columns["annotator"].missing()
            nothing = self.columns["label"].missing(nan_words=True)
            self.annotated = ~(nobody & nothing)
            self.ledger.add(NO_ANNOTATION, self.number[~self.annotated][:100], int((~self.annotated).sum()))
            self._refuse(nobody & ~nothing, "annotator", "Every label needs its annotator.")
            unlabelled = nothing & ~nobody
            if how == "drop":
                self.ledger.add(NO_LABEL, self.number[unlabelled][:100], int(unlabelled.sum()))
                if unlabelled.any():
                    self.keep(~unlabelled)
            else:
                self._refuse(unlabelled, "label", "Leave such rows out with --missing drop.")
            if not self.annotated.any():
                raise RealmError(f"{self.source}: there is not one annotation in it: every label is missing.")
        for role in ("text", "task", "item"):
            if role in self.columns:
                self._refuse(self.columns[role].missing(), role, f"Fill in the {role} or take the row out.")

    def _refuse(self, absent: Mask, role: str, remedy: str) -> None:
        if absent.any():
            at = name_rows(self.number[absent])
            raise RealmError(f"{self.source}, {at}: no {role} ({int(absent.sum()):,} in all). {remedy}")

    def tidy(self, known: Sequence[str]) -> None:
        """Null for labels, gold and contexts that say nothing, and 1 for 1.0."""
        if "context" in self.columns:
            self.columns["context"] = self.columns["context"].without_blanks()
        spelled = {*known, *([] if self.options is None else written_with_point(self.options))}
        for role in ("label", "gold"):
            if role in self.columns:
                column = self.columns[role].without_blanks(nan_words=True)
                self.columns[role], changed = column.whole_numbers(spelled)
                reason = POINT_ZERO if role == "label" else POINT_ZERO.replace("label", "gold")
                self.ledger.add(reason, self.number[changed][:100], int(changed.sum()))
                # Gold is spelled as the labels are, where they are versions rather than numbers.
                spelled.update(self.columns[role].values.to_pylist())

    # ---------------------------------------------------------------- the table

    def table(
        self, labels: Sequence[str] | None, tasks: Sequence[Task] | None, form: LabelForm, keep_rows: bool
    ) -> Annotations:
        task_of_row, task_names = self._tasks(tasks)
        identity = identify(self.columns, self.options, task_of_row, self.number, self.source)
        read = read_tasks(
            self.columns, self.options, self.number, task_of_row, task_names,
            annotated=self.annotated, labels=labels, tasks=tasks, form=form, need=self.need, source=self.source,
        )  # fmt: skip
        rows = np.flatnonzero(self.annotated)
        people, names = self._annotators(rows)
        item = identity.item_of_row[rows]
        kept = self._last_of_each(item, people, read.label[rows], rows, len(names))
        if (np.diff(item[kept]) < 0).any():
            kept = kept[np.argsort(item[kept], kind="stable")]
        items = Items(
            ids=identity.ids,
            texts=self.columns["text"].take(identity.first),
            contexts=self.columns["context"].take(identity.first) if "context" in self.columns else None,
            options=None if self.options is None else self.options.take(pa.array(identity.first)),
            item_tasks=task_of_row[identity.first].astype(np.int32),
            tasks=read.tasks,
        )
        return Annotations(
            items=items,
            annotators=names,
            item=item[kept].astype(np.int32),
            annotator=people[kept].astype(np.int32),
            label=read.label[rows[kept]].astype(np.int32),
            gold=self._gold(read.gold, identity.item_of_row, len(identity.first)),
            ledger=self.ledger,
            source_rows=self.number[rows[kept]].astype(np.int32) if keep_rows else None,
        )

    def _tasks(self, known: Sequence[Task] | None) -> tuple[Codes, list[str]]:
        """The task of every row, and the tasks' names: those of the run where there is one."""
        names = [] if known is None else [task.name for task in known]
        if "task" not in self.columns:
            if len(names) > 1:
                raise RealmError(
                    f"{self.source}: the run has {len(names)} tasks ({', '.join(names[:10])}), so the table needs a "
                    "task column. Name it with --task."
                )
            return np.zeros(len(self.number), dtype=np.int64), names or [DEFAULT_TASK]
        column = self.columns["task"]
        if known is None:
            codes, used = renumber(column.codes)
            return codes, column.values.take(pa.array(used)).to_pylist()
        numbers = pc.index_in(column.values, value_set=pa.array(names, pa.large_string())).fill_null(UNKNOWN)
        codes = numbers.to_numpy(zero_copy_only=False).astype(np.int64)[column.codes]
        if (at := np.flatnonzero(codes == UNKNOWN)).size:
            raise RealmError(
                f"{self.source}, {name_rows(self.number[at])}: the task '{column.at(at[0])}' is not one of the run's: "
                f"{', '.join(names[:20])}."
            )
        return codes, names

    def _annotators(self, rows: Codes) -> tuple[Codes, tuple[str, ...]]:
        """The annotator of each of these rows, and the names in order of first appearance."""
        if self.need != "annotations":
            return np.zeros(0, dtype=np.int64), ()
        column = self.columns["annotator"]
        codes, used = renumber(column.codes[rows])
        return codes, tuple(column.values.take(pa.array(used)).to_pylist())

    def _last_of_each(self, item: Codes, person: Codes, label: Codes, rows: Codes, n_people: int) -> Codes:
        """Of several annotations of one item by one annotator, the last; the others go to the ledger."""
        pair = item * max(n_people, 1) + person
        if (np.diff(np.sort(pair)) > 0).all():
            return np.arange(len(pair))
        order = np.argsort(pair, kind="stable")
        ends = np.append(np.diff(pair[order]) > 0, True)
        last = order[ends][np.cumsum(ends) - ends]
        earlier, final = order[~ends], last[~ends]
        same = label[earlier] == label[final]
        for reason, which in ((REPEATED, earlier[same]), (CONTRADICTED, earlier[~same])):
            self.ledger.add(reason, np.sort(self.number[rows[which]])[:100], len(which))
        return np.sort(order[ends])

    def _gold(self, gold: Codes | None, item_of_row: Codes, n_items: int) -> Ints | None:
        if gold is None:
            return None
        known = np.flatnonzero(gold != UNKNOWN)
        of_item = np.full(n_items, UNKNOWN, dtype=np.int32)
        of_item[item_of_row[known]] = gold[known]
        changed = known[of_item[item_of_row[known]] != gold[known]]
        self.ledger.add(GOLD_CHANGED, self.number[changed][:100], len(changed))
        return of_item
