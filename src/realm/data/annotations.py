"""`Annotations`: items, annotators, tasks and annotations, columnar and ragged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.data.items import Ints, Items, Task, clipped
from realm.data.ledger import Ledger
from realm.data.read_options import ReadArguments, ReadOptions, completes
from realm.data.roles import Corrections
from realm.display import ROWS, counted, notebook_html
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
OPTIONAL = ("weight", "source_rows", "created_at", "lead_time")
"""Columns of annotations that a table need not have."""
UNKNOWN = -1
"""The number of a label or gold that is not there."""
TASKS_SHOWN = 10
"""Tasks whose labels a notebook shows."""
NAMES_SHOWN = 20
"""Names that a message lists: enough to see how they are spelled."""


@dataclass(frozen=True, eq=False)
class Annotations:
    """The annotations table. Immutable; every operation returns a new table.

    | field | shape | meaning |
    |---|---|---|
    | items | `Items` | the prompts with their options and tasks |
    | annotators | | annotator names |
    | item, annotator, label | (annotations,) int32 | sorted by item; label indexes the item's own options |
    | weight | (annotations,) float64 or None | how much the annotation counts; None: 1 for all |
    | gold | (items,) int32 or None | the true label where it is known, -1 elsewhere |
    | created_at | (annotations,) float64 or None | when it was given, seconds since 1970; NaN where not known |
    | lead_time | (annotations,) float64 or None | how long it took, in seconds; NaN where not known |
    | groups | (annotators,) names or None | whose pool each annotator is drawn to; None: all are in one |
    | source_rows | (annotations,) int32 or None | its row in the source, where `keep_rows` was given |
    | corrections | | annotators who were left out and labels that were renamed on reading |
    | columns | | the column of each role of an item that the source had, such as `{"text": "review"}` |
    """

    items: Items
    annotators: tuple[str, ...]
    item: Ints
    annotator: Ints
    label: Ints
    weight: Floats | None = None
    gold: Ints | None = None
    ledger: Ledger = field(default_factory=Ledger)
    source_rows: Ints | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    created_at: Floats | None = None
    lead_time: Floats | None = None
    corrections: Corrections = field(default_factory=Corrections)
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        columns = (self.annotator, self.label, self.weight, self.source_rows, self.created_at, self.lead_time)
        lengths = {len(column) for column in columns if column is not None}
        if lengths - {len(self.item)} or (self.gold is not None and len(self.gold) != len(self.items)):
            raise ValueError("Annotations: item, annotator, label, weight, times and source_rows must be equally long.")
        if self.groups is not None and len(self.groups) != len(self.annotators):
            raise ValueError("Annotations: groups must have one entry for each annotator.")
        if len(self.item) and (np.diff(self.item) < 0).any():
            raise ValueError("Annotations: annotations must be sorted by item.")

    # ---------------------------------------------------------------- building

    @classmethod
    @completes
    def read(
        cls,
        path: str | Path | Sequence[str | Path],
        read_options: ReadOptions | None = None,
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Read a file, several files that are one table, or an annotation tool's export.

        How is said by the fields of `ReadOptions`, as arguments or whole.

        Example:
            >>> Annotations.read(["monday.csv", "tuesday.csv"], text="review", exclude=["cyd"])  # doctest: +SKIP
        """
        from realm.data.readers import read

        return read(path, read_options, **arguments)

    @classmethod
    @completes
    def read_test(
        cls,
        path: str | Path | Sequence[str | Path],
        read_options: ReadOptions | None = None,
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Read items with gold, to evaluate a model on. Annotations are not read and need not be there."""
        from realm.data.readers import read_test

        return read_test(path, read_options, **arguments)

    @classmethod
    @completes
    def from_pandas(
        cls,
        frame: pd.DataFrame,
        read_options: ReadOptions | None = None,
        *,
        source: str = "the table",
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Build from a DataFrame with one row per annotation (or one per item, with `wide`), its columns named by role.

        Other arguments are those of `read`; the frame of an annotation tool's export is recognised. Errors call the
        table by `source`.
        """
        from realm.data.readers import read_table

        if not (hasattr(frame, "iloc") and hasattr(frame, "columns")) and not isinstance(frame, pa.Table):
            hint = {"Dataset": "from_dataset", "DatasetDict": "from_dataset", "list": "from_list"}
            other = hint.get(type(frame).__name__, "read")
            raise RealmError(f"`frame` is {type(frame).__name__}: give a DataFrame, or use `Annotations.{other}`.")
        return read_table(frame, source, read_options, **arguments)

    @classmethod
    @completes
    def from_list(
        cls,
        records: Sequence[Mapping[str, Any]],
        read_options: ReadOptions | None = None,
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Build from a list of dicts, one for each annotation; those of an annotation tool's export are recognised.

        Arguments are those of `read`.

        Example:
            >>> rows = [{"review": "a", "who": "ada", "mood": "bad"}, {"review": "a", "who": "bob", "mood": "good"}]
            >>> Annotations.from_list(rows, text="review", annotator="who", label="mood")
            Annotations(1 item, 2 annotators, 2 annotations, 1 task)
        """
        from realm.data.readers import read_table

        if isinstance(records, Mapping | str | bytes) or hasattr(records, "iloc") or hasattr(records, "features"):
            raise RealmError(f"`records` is {type(records).__name__}: give a list of dicts, one for each annotation.")
        rows = list(records)
        for position, record in enumerate(rows):
            if not isinstance(record, Mapping):
                raise RealmError(f"`records`: entry {position} is {type(record).__name__}, not a dict of fields.")
        fields = [{str(name): value for name, value in record.items()} for record in rows]
        return read_table(fields, "the records", read_options, **arguments)

    @classmethod
    def from_arrays(
        cls,
        items: npt.ArrayLike,
        annotators: npt.ArrayLike,
        labels: npt.ArrayLike,
        options: Sequence[str] | int,
        *,
        n_items: int | None = None,
        names: Sequence[str] | None = None,
    ) -> Annotations:
        """Build from whole numbers from 0, one entry per annotation: (annotations,) each. Texts are "item 0" and so on.

        `options` are the labels, or how many there are; `n_items` counts items without annotations too; `names` are
        the annotators' names.

        Example:
            >>> Annotations.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0], options=2)
            Annotations(2 items, 2 annotators, 3 annotations, 1 task)
        """
        item, annotator, label = (np.asarray(column) for column in (items, annotators, labels))
        if len({column.shape for column in (item, annotator, label)}) > 1 or item.ndim != 1:
            raise RealmError("`items`, `annotators` and `labels` must be equally long, with one entry per annotation.")
        labels_of_task = tuple(map(str, range(options) if isinstance(options, int) else options))
        size = int(item.max(initial=-1)) + 1 if n_items is None else n_items
        people = map(str, range(int(annotator.max(initial=-1)) + 1)) if names is None else names
        texts = [f"item {row}" for row in range(size)]
        names = tuple(people)
        limits = {"items": size, "annotators": len(names), "labels": len(labels_of_task)}
        for (name, limit), column in zip(limits.items(), (item, annotator, label), strict=True):
            whole = np.issubdtype(column.dtype, np.integer) or not len(column)
            if not whole or column.min(initial=0) < 0 or column.max(initial=-1) >= limit:
                raise RealmError(f"`{name}` must hold whole numbers from 0 to {limit - 1}.")
        order = np.argsort(item, kind="stable")
        item, annotator, label = (column[order].astype(np.int32) for column in (item, annotator, label))
        return cls(Items.from_texts(texts, [Task("labels", labels_of_task)]), names, item, annotator, label)

    @classmethod
    def from_matrix(cls, labels: Any) -> Annotations:
        """Build from a label matrix (items, annotators); NaN, None or a negative number where there is no label.

        The columns of a DataFrame name the annotators.

        Example:
            >>> Annotations.from_matrix([[0, 1, -1], [1, 1, 0]])
            Annotations(2 items, 3 annotators, 5 annotations, 1 task)
        """
        from realm.data.matrix import read_matrix

        return read_matrix(labels)[0]

    @classmethod
    @completes
    def test_from_pandas(
        cls,
        frame: pd.DataFrame,
        read_options: ReadOptions | None = None,
        *,
        source: str = "the table",
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Build from a DataFrame of items with gold, to evaluate a model on. Annotations are not read."""
        from realm.data.readers import read_table

        return read_table(frame, source, read_options, wants="gold", **{"format": "table", **arguments})

    @classmethod
    @completes
    def from_dataset(
        cls,
        dataset: Any,
        split: str | None = None,
        read_options: ReadOptions | None = None,
        **arguments: Unpack[ReadArguments],
    ) -> Annotations:
        """Build from a `datasets.Dataset` with one row per annotation, or from a split of a `DatasetDict`.

        The numbers of a `ClassLabel` column are read as the names that they stand for, -1 as a missing cell; where it
        is the label of one task, its names are the label set. Other arguments are those of `read`.
        """
        from realm.data.hf_datasets import read_dataset

        return read_dataset(dataset, split, read_options, **arguments)

    # ---------------------------------------------------------------- sizes

    @property
    def has_texts(self) -> bool:
        """Whether items have texts, or only ids, which stand for them."""
        return "text" in self.columns or not self.columns

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        return len(self.annotators)

    @property
    def n_annotations(self) -> int:
        return len(self.label)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Annotations of item i are `offsets[i]:offsets[i + 1]`. Shape (items + 1,)."""
        return np.concatenate([[0], np.cumsum(self.annotations_per_item)])

    @cached_property
    def annotations_per_item(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.item, minlength=self.n_items)

    @cached_property
    def annotations_per_annotator(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.annotator, minlength=self.n_annotators)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups in order of appearance; without any, one that holds everybody."""
        return ("",) if self.groups is None else tuple(dict.fromkeys(self.groups))

    @cached_property
    def annotator_groups(self) -> npt.NDArray[np.int64]:
        """The group of each annotator, an index into `group_names`. Shape (annotators,)."""
        if self.groups is None:
            return np.zeros(self.n_annotators, dtype=np.int64)
        index = {name: row for row, name in enumerate(self.group_names)}
        return np.array([index[name] for name in self.groups], dtype=np.int64)

    def __len__(self) -> int:
        return self.n_annotations

    def __repr__(self) -> str:
        return (
            f"Annotations({counted(self.n_items, 'item')}, {counted(self.n_annotators, 'annotator')}, "
            f"{counted(self.n_annotations, 'annotation')}, {counted(len(self.tasks), 'task')})"
        )

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            f"labels of {task.name}": task.labels_in_words() for task in self.tasks[:TASKS_SHOWN]
        }
        if len(self.tasks) > TASKS_SHOWN:
            facts["more tasks"] = len(self.tasks) - TASKS_SHOWN
        if self.gold is not None:
            facts["items with gold"] = f"{int((self.gold != UNKNOWN).sum()):,}"
        facts["dropped or changed on reading"] = self.ledger.reasons()
        first = self.keep_annotations(np.arange(min(self.n_annotations, ROWS)))
        first = first.take_items(np.unique(first.item)) if len(first) else self.take_items(np.arange(0))
        frame = first.to_pandas().map(lambda cell: clipped(cell) if isinstance(cell, str) else cell)
        return notebook_html(repr(self), facts, frame[[name for name in frame.columns if name not in ("item", "task")]])

    # ---------------------------------------------------------------- of the items

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.items.tasks

    @property
    def item_tasks(self) -> Ints:
        return self.items.item_tasks

    @property
    def option_counts(self) -> Ints:
        """K of each item: how many options it has. Shape (items,)."""
        return self.items.option_counts

    def options_of(self, item: int) -> list[str]:
        """The options of an item, in the order its prompt lists them."""
        return self.items.options_of(item)

    def label_name(self, item: int, label: int) -> str:
        return self.items.label_name(item, label)

    @property
    def item_ids(self) -> pa.LargeStringArray:
        return self.items.ids

    @property
    def texts(self) -> pa.LargeStringArray:
        return self.items.texts

    # ---------------------------------------------------------------- operations

    def take_items(self, items: npt.NDArray[np.integer[Any]]) -> Annotations:
        """Keep these items (by index, in this order) with their annotations."""
        items = np.asarray(items, dtype=np.int64)
        if len(items) and (items.min() < 0 or items.max() >= self.n_items):
            raise RealmError(f"take_items: items are numbered from 0 to {self.n_items - 1}.")
        counts = self.annotations_per_item[items]
        starts = np.repeat(self.offsets[items] - (np.cumsum(counts) - counts), counts)
        kept = starts + np.arange(counts.sum())
        columns = {name: getattr(self, name) for name in ("annotator", "label", *OPTIONAL)}
        columns = {name: None if column is None else column[kept] for name, column in columns.items()}
        return replace(
            self,
            **columns,
            items=self.items.take(items),
            item=np.repeat(np.arange(len(items), dtype=np.int32), counts),
            gold=None if self.gold is None else self.gold[items],
        )

    def keep_annotations(self, keep: npt.NDArray[np.bool_ | np.integer[Any]]) -> Annotations:
        """Keep these annotations, a mask (annotations,) or indices; every item and annotator stays listed."""
        columns = {name: getattr(self, name) for name in ("item", "annotator", "label", *OPTIONAL)}
        columns = {name: None if column is None else column[keep] for name, column in columns.items()}
        return replace(self, **columns)

    def compact(self) -> Annotations:
        """Drop items without annotations and annotators without annotations."""
        table = self.take_items(np.flatnonzero(self.annotations_per_item))
        present = np.flatnonzero(table.annotations_per_annotator)
        renumber = np.full(table.n_annotators, UNKNOWN, dtype=np.int32)
        renumber[present] = np.arange(len(present))
        names = tuple(table.annotators[i] for i in present)
        groups = None if table.groups is None else tuple(table.groups[i] for i in present)
        return replace(table, annotators=names, annotator=renumber[table.annotator], groups=groups)

    def sparse(self, seed: int = 0) -> Annotations:
        """Keep one annotation of each item, drawn uniformly at random."""
        order = np.random.default_rng(seed).permutation(self.n_annotations)
        _, first = np.unique(self.item[order], return_index=True)
        keep = np.zeros(self.n_annotations, dtype=bool)
        keep[order[first]] = True
        return self.keep_annotations(keep).compact()

    def contrast(self, m: int, min_annotations: int = 1) -> Annotations:
        """Keep the m annotators that agree least with gold and the m that agree most (the paper's contrast-m).

        Only annotators with `min_annotations` annotations of items with gold are ranked; of equals, those with more
        annotations come first, then those that appear earlier.
        """
        if self.gold is None:
            raise RealmError("contrast needs gold labels: the table has no gold column. Name it with `gold`.")
        has_gold = self.gold[self.item] != UNKNOWN
        counts = np.bincount(self.annotator[has_gold], minlength=self.n_annotators)
        correct = np.bincount(self.annotator[self.label == self.gold[self.item]], minlength=self.n_annotators)
        ranked = np.flatnonzero(counts >= max(min_annotations, 1))
        if len(ranked) < 2 * m:
            raise RealmError(
                f"contrast {m} needs {2 * m} annotators with {min_annotations} annotations of gold items or more; "
                f"there are {len(ranked)}. Lower `contrast` or `min_annotations`."
            )
        agreement = correct[ranked] / counts[ranked]
        lowest = np.lexsort((-counts[ranked], agreement))[:m]
        highest = np.lexsort((-counts[ranked], -agreement))
        highest = highest[~np.isin(highest, lowest)][:m]
        pool = np.zeros(self.n_annotators, dtype=bool)
        pool[ranked[lowest]] = pool[ranked[highest]] = True
        return self.keep_annotations(pool[self.annotator]).compact()

    def select(
        self,
        *,
        tasks: Sequence[str] | None = None,
        annotators: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> Annotations:
        """Keep only what is named. Tasks keep their numbering; annotators left with nothing are dropped."""
        task_names = [task.name for task in self.tasks]
        there_are = {
            "tasks": (tasks, task_names),
            "annotators": (annotators, list(self.annotators)),
            "items": (items, [] if items is None else self.items.ids.to_pylist()),
        }
        for kind, (names, existing) in there_are.items():
            if missing := [name for name in names or () if name not in existing]:
                there = ", ".join(existing[:NAMES_SHOWN])
                raise RealmError(f"select: no such {kind}: {', '.join(missing)}. There are: {there}.")
        table = self
        if tasks is not None:
            table = table.take_items(np.flatnonzero(np.isin(task_names, list(tasks))[table.item_tasks]))
        if items is not None:
            table = table.take_items(np.flatnonzero(np.isin(np.array(table.items.ids.to_pylist()), list(items))))
        if annotators is not None:
            in_selection = np.isin(np.array(table.annotators), list(annotators))
            table = table.keep_annotations(in_selection[table.annotator]).compact()
        return table

    def split(self, fraction: float, seed: int = 0) -> tuple[Annotations, Annotations]:
        """Split the items in two, about `fraction` of the texts in the second.

        Equal texts (with equal contexts) stay together. Neither half is empty.
        Both tables keep the whole list of annotators, so that indices mean the same in both.
        """
        if not 0 < fraction < 1:
            raise RealmError(f"split: the fraction must lie between 0 and 1, not {fraction}.")
        n_texts = self.items.n_texts
        if n_texts < 2:
            raise RealmError(f"split: the items have {n_texts} different text(s), so nothing can be held out.")
        n_held_out = min(max(round(fraction * n_texts), 1), n_texts - 1)
        second = np.random.default_rng(seed).permutation(n_texts)[self.items.text_codes] < n_held_out
        return self.take_items(np.flatnonzero(~second)), self.take_items(np.flatnonzero(second))

    def without_gold(self) -> Annotations:
        return replace(self, gold=None)

    def fingerprint(self, gold: bool = False) -> str:
        """A hash of items, annotators and annotations, with times where there are any; of gold only where asked for."""
        digest = hashlib.blake2b(self.items.fingerprint().encode(), digest_size=16)
        arrays = {"item": self.item, "annotator": self.annotator, "label": self.label, "weight": self.weight}
        arrays |= {"created_at": self.created_at, "lead_time": self.lead_time}
        if gold:
            arrays["gold"] = self.gold
        for name, array in arrays.items():
            if array is not None:
                digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        digest.update(repr(self.annotators).encode("utf-8", "surrogatepass"))
        if self.groups is not None:
            digest.update(repr(self.groups).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def to_pandas(self) -> pd.DataFrame:
        """One row per annotation (items without annotations have one row with no annotator), canonical columns."""
        import pandas as pd

        from realm.data.write import to_arrow

        table = to_arrow(self, label_form="text")
        if not self.n_annotations:
            table = table.drop_columns(["annotator", "label"])
        return pd.DataFrame(table.to_pydict())

    def to_dataset(self) -> Any:
        """A `datasets.Dataset` with one row per annotation, the annotators by name; `from_dataset` reads it back.

        Labels and gold are `ClassLabel` columns where there is one task with a label set, else text.
        """
        from realm.data.hf_datasets import to_dataset

        return to_dataset(self)

    def describe(self) -> dict[str, Any]:
        """How many items, annotators, annotations and tasks there are, and how annotations spread over them."""
        per_item, per_annotator = self.annotations_per_item, self.annotations_per_annotator
        return {
            "items": self.n_items,
            "annotators": self.n_annotators,
            "annotations": self.n_annotations,
            "tasks": [
                {
                    "task": task.name,
                    "labels": None if task.labels is None else list(task.labels),
                    "items": int((self.item_tasks == index).sum()),
                }
                for index, task in enumerate(self.tasks)
            ],
            "annotations_per_item": _spread(per_item),
            "annotations_per_annotator": _spread(per_annotator),
            "items_with_one_annotation": int((per_item == 1).sum()),
            "items_with_gold": 0 if self.gold is None else int((self.gold != UNKNOWN).sum()),
            **({} if self.groups is None else {"groups": {name: self.groups.count(name) for name in self.group_names}}),
        }


def _spread(counts: npt.NDArray[np.int64]) -> dict[str, float]:
    if not len(counts):
        return {"min": 0, "median": 0.0, "mean": 0.0, "max": 0}
    low, high = int(counts.min()), int(counts.max())
    return {"min": low, "median": float(np.median(counts)), "mean": float(counts.mean()), "max": high}
