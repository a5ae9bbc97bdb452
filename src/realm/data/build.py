"""From a table with one row per annotation to `Annotations`: items, labels, weights, gold, and what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.annotations import UNKNOWN, Annotations, Floats
from realm.data.categorical import Categorical, Codes, renumber
from realm.data.columns import Mask, Rows, name_rows, resolve, take_column
from realm.data.item_ids import assign_items
from realm.data.items import Ints, Items, Task
from realm.data.label_sets import LabelledRows
from realm.data.ledger import ROWS_KEPT, Ledger
from realm.data.options import LABEL_FORMS, LabelForm, read_options, written_with_point
from realm.data.request import ANNOTATIONS, ITEMS, TEST, ReadRequest
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TASK = "default"

NO_LABEL = "no label"
NO_ANNOTATION = "item without an annotation: neither annotator nor label"
REPEATED = "repeated: the same annotator gave the same label to the same item again"
CONTRADICTED = "contradicted: the same annotator gave the item another label later, which is kept"
POINT_ZERO = "label written like 1.0, read as 1"
GOLD_CHANGED = "gold differs from that on a later row of the same item, which is kept"


def build(
    table: pd.DataFrame | pa.Table,
    request: ReadRequest = ANNOTATIONS,
    *,
    labels: Sequence[str] | None = None,
    tasks: Sequence[Task] | None = None,
    missing: Literal["error", "drop"] = "error",
    label_form: LabelForm = "auto",
    source: str = "the table",
    ledger: Ledger | None = None,
    rows: Rows | None = None,
    keep_rows: bool = False,
    **columns: str | None,
) -> Annotations:
    """Build the annotations table.

    Args:
        table: one row per annotation.
        request: what is to be read of it.
        labels: the label set, in order. By default the labels of the annotations, sorted; gold is never looked at.
        tasks: the tasks of an existing run, so that labels and tasks have the numbers they have there.
        missing: what to do with a row that has an annotator and no label.
        label_form: how labels and gold point at an item's own options.
        source: what messages call the table.
        ledger: what a reader has dropped already; the table's ledger continues it.
        rows: the number of each row in its source, (rows,), where a reader has dropped some.
        keep_rows: keep these numbers, as the table's `source_rows`.
        **columns: the column of each role: item, text, annotator, label, weight, task, gold, options, context; by
            default those of these names.
    """
    _check_words(missing=missing, label_form=label_form)
    request = replace(request, **columns)  # type: ignore[arg-type]
    names = list(table.column_names) if isinstance(table, pa.Table) else [str(name) for name in table.columns]
    by_role = resolve(request.columns(), request.required, names, source)
    if not len(table):
        raise RealmError(f"{source}: there are no rows in it.")
    numbers = np.arange(1, len(table) + 1, dtype=np.int64) if rows is None else rows
    by_role = {role: name for role, name in by_role.items() if request.reads(role)}
    ledger = Ledger() if ledger is None else ledger.merged(Ledger())
    table_rows = _Rows.of(table, by_role, numbers, request.wants_annotations, source, ledger)
    table_rows.drop_missing(missing)
    table_rows.normalise([*(labels or ()), *(name for task in tasks or () for name in task.labels or ())])
    return table_rows.annotations(labels, tasks, label_form, keep_rows)


def build_test(table: pd.DataFrame | pa.Table, **arguments: Any) -> Annotations:
    """Items with gold, to evaluate a model on; see `build`. Annotations are not read and need not be there."""
    return build(table, TEST, **arguments)


def build_items(table: pd.DataFrame | pa.Table, **arguments: Any) -> Items:
    """The items of a table; see `build`. Neither annotations nor gold are read."""
    return build(table, ITEMS, **arguments).items


def _check_words(missing: str, label_form: str) -> None:
    allowed = {"missing": ("error", "drop"), "label_form": ("auto", *LABEL_FORMS)}
    for name, word in (("missing", missing), ("label_form", label_form)):
        if word not in allowed[name]:
            raise RealmError(f'`{name}="{word}"`: must be one of {", ".join(allowed[name])}.')


@dataclass
class _Rows:
    """The columns of the source, one entry per row, on their way into the table."""

    columns: dict[str, Categorical]
    options: pa.LargeListArray | None
    numbers: Rows
    annotated: Mask
    wants_annotations: bool
    source: str
    ledger: Ledger
    names: dict[str, str]

    @classmethod
    def of(
        cls, table: Any, names: dict[str, str], numbers: Rows, wants_annotations: bool, source: str, ledger: Ledger
    ) -> _Rows:
        columns = {
            role: Categorical.of(take_column(table, name, source), name, source)
            for role, name in names.items()
            if role != "options"
        }
        options = read_options(table, names["options"], numbers, source) if "options" in names else None
        if options is not None and options.null_count == len(options):
            options = None
        annotated = np.full(len(table), wants_annotations)
        return cls(columns, options, numbers, annotated, wants_annotations, source, ledger, names)

    def filter(self, mask: Mask) -> None:
        """Leave out the rows where `mask` is false."""
        self.columns = {role: column.filter(mask) for role, column in self.columns.items()}
        self.options = None if self.options is None else self.options.filter(pa.array(mask))
        self.numbers, self.annotated = self.numbers[mask], self.annotated[mask]

    def drop_missing(self, missing: str) -> None:
        """Every row must have a text, and a task and an id where there are such columns; labels may be dropped."""
        if self.wants_annotations:
            no_annotator = self.columns["annotator"].missing()
            no_label = self.columns["label"].missing(nan_words=True)
            self.annotated = ~(no_annotator & no_label)
            self._record(NO_ANNOTATION, ~self.annotated)
            self._refuse(no_annotator & ~no_label, "annotator", "Every label needs its annotator.")
            unlabelled = no_label & ~no_annotator
            if missing == "drop":
                self._record(NO_LABEL, unlabelled)
                if unlabelled.any():
                    self.filter(~unlabelled)
            else:
                self._refuse(unlabelled, "label", 'Leave such rows out with `missing="drop"`.')
            if not self.annotated.any():
                raise RealmError(f"{self.source}: there is not one annotation in it: every label is missing.")
        for role in ("text", "task", "item"):
            if role in self.columns:
                self._refuse(self.columns[role].missing(), role, f"Fill in the {role} or take the row out.")

    def _record(self, reason: str, rows: Mask) -> None:
        self.ledger.add(reason, self.numbers[rows][:ROWS_KEPT], int(rows.sum()))

    def _refuse(self, missing: Mask, role: str, remedy: str) -> None:
        if missing.any():
            rows = name_rows(self.numbers[missing])
            raise RealmError(f"{self.source}, {rows}: no {role} ({int(missing.sum()):,} in all). {remedy}")

    def normalise(self, known_labels: Sequence[str]) -> None:
        """Null for blank labels, gold and contexts, and 1 for 1.0."""
        if "context" in self.columns:
            self.columns["context"] = self.columns["context"].without_blanks()
        spellings = {*known_labels, *([] if self.options is None else written_with_point(self.options))}
        for role in ("label", "gold"):
            if role in self.columns:
                column = self.columns[role].without_blanks(nan_words=True)
                self.columns[role], changed = column.whole_numbers(spellings)
                self._record(POINT_ZERO if role == "label" else POINT_ZERO.replace("label", "gold"), changed)
                # Gold is spelled as the labels are, where they are versions rather than numbers.
                spellings.update(self.columns[role].values.to_pylist())

    # ---------------------------------------------------------------- the table

    def annotations(
        self, labels: Sequence[str] | None, tasks: Sequence[Task] | None, label_form: LabelForm, keep_rows: bool
    ) -> Annotations:
        task_of_row, task_names = self._tasks(tasks)
        assigned = assign_items(self.columns, self.options, task_of_row, self.numbers, self.source)
        labelled = LabelledRows(
            self.columns, self.options, self.numbers, task_of_row, task_names,
            annotated=self.annotated, wants_annotations=self.wants_annotations, source=self.source,
        )  # fmt: skip
        numbered = labelled.number(labels, tasks, label_form)
        items = Items(
            ids=assigned.ids,
            texts=self.columns["text"].take(assigned.first_row),
            contexts=self.columns["context"].take(assigned.first_row) if "context" in self.columns else None,
            options=None if self.options is None else self.options.take(pa.array(assigned.first_row)),
            item_tasks=task_of_row[assigned.first_row].astype(np.int32),
            tasks=numbered.tasks,
        )
        rows = np.flatnonzero(self.annotated)
        annotator, names = self._annotators(rows)
        item = assigned.item_of_row[rows]
        last = self._last_of_each_pair(item, annotator, numbered.label[rows], rows, len(names))
        if (np.diff(item[last]) < 0).any():
            last = last[np.argsort(item[last], kind="stable")]
        weight = self._weights(rows)
        return Annotations(
            items=items,
            annotators=names,
            item=item[last].astype(np.int32),
            annotator=annotator[last].astype(np.int32),
            label=numbered.label[rows[last]].astype(np.int32),
            weight=None if weight is None else weight[last],
            gold=self._gold(numbered.gold, assigned.item_of_row, len(items)),
            ledger=self.ledger,
            source_rows=self.numbers[rows[last]].astype(np.int32) if keep_rows else None,
        )

    def _tasks(self, known: Sequence[Task] | None) -> tuple[Codes, list[str]]:
        """The task of every row, and the tasks' names: those of the run where there is one."""
        names = [] if known is None else [task.name for task in known]
        if "task" not in self.columns:
            if len(names) > 1:
                raise RealmError(
                    f"{self.source}: the run has {len(names)} tasks ({', '.join(names[:10])}), so the table needs a "
                    "task column. Name it with `task`."
                )
            return np.zeros(len(self.numbers), dtype=np.int64), names or [DEFAULT_TASK]
        column = self.columns["task"]
        if known is None:
            codes, used = renumber(column.codes)
            return codes, column.values.take(pa.array(used)).to_pylist()
        numbers = pc.index_in(column.values, value_set=pa.array(names, pa.large_string())).fill_null(UNKNOWN)
        codes = numbers.to_numpy(zero_copy_only=False).astype(np.int64)[column.codes]
        if (unknown := np.flatnonzero(codes == UNKNOWN)).size:
            raise RealmError(
                f"{self.source}, {name_rows(self.numbers[unknown])}: the task '{column.at(unknown[0])}' is not one of "
                f"the run's: {', '.join(names[:20])}."
            )
        return codes, names

    def _annotators(self, rows: Codes) -> tuple[Codes, tuple[str, ...]]:
        """The annotator of each of these rows, and the names in order of first appearance."""
        if not self.wants_annotations:
            return np.zeros(0, dtype=np.int64), ()
        column = self.columns["annotator"]
        codes, used = renumber(column.codes[rows])
        return codes, tuple(column.values.take(pa.array(used)).to_pylist())

    def _weights(self, rows: Codes) -> Floats | None:
        """The weight of each of these rows, finite and above 0; None where there is no such column."""
        if "weight" not in self.columns:
            return None
        name, column = self.names["weight"], self.columns["weight"]
        if (absent := rows[column.missing(nan_words=True)[rows]]).size:
            raise RealmError(
                f"{self.source}, {name_rows(self.numbers[absent])}: no weight in column '{name}'. Give every "
                "annotation a weight, or rename the column if it holds something else."
            )
        values = np.array([*(_number(value) for value in column.values.to_pylist()), np.nan])
        weights = values[column.codes[rows]]
        if (wrong := rows[~(np.isfinite(weights) & (weights > 0))]).size:
            raise RealmError(
                f"{self.source}, {name_rows(self.numbers[wrong])}: the weight '{column.at(wrong[0])}' in column "
                f"'{name}' is not a finite number above 0. Take an annotation that should not count out of the table."
            )
        return weights

    def _last_of_each_pair(self, item: Codes, annotator: Codes, label: Codes, rows: Codes, n_annotators: int) -> Codes:
        """Of several annotations of one item by one annotator, the last; the others go to the ledger."""
        pair = item * max(n_annotators, 1) + annotator
        if (np.diff(np.sort(pair)) > 0).all():
            return np.arange(len(pair))
        order = np.argsort(pair, kind="stable")
        ends = np.append(np.diff(pair[order]) > 0, True)
        last = order[ends][np.cumsum(ends) - ends]
        earlier, final = order[~ends], last[~ends]
        same = label[earlier] == label[final]
        for reason, superseded in ((REPEATED, earlier[same]), (CONTRADICTED, earlier[~same])):
            self.ledger.add(reason, np.sort(self.numbers[rows[superseded]])[:ROWS_KEPT], len(superseded))
        return np.sort(order[ends])

    def _gold(self, gold: Codes | None, item_of_row: Codes, n_items: int) -> Ints | None:
        if gold is None:
            return None
        known = np.flatnonzero(gold != UNKNOWN)
        of_item = np.full(n_items, UNKNOWN, dtype=np.int32)
        of_item[item_of_row[known]] = gold[known]
        changed = known[of_item[item_of_row[known]] != gold[known]]
        self.ledger.add(GOLD_CHANGED, self.numbers[changed][:ROWS_KEPT], len(changed))
        return of_item


def _number(text: str) -> float:
    """The number that a text says; NaN where it says none (Python alone reads 1_0 as 10)."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return float("nan")
