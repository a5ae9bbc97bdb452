"""`Annotations`: items, annotators, tasks and annotations, columnar and ragged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.data.items import TABLE, Ints, Items, Task, clipped
from realm.data.ledger import Ledger
from realm.data.read_options import ReadOptions, completes
from realm.data.roles import Corrections, listed
from realm.display import ROWS, counted, notebook_html
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Paths = str | Path | Sequence[str | Path]
OPTIONAL = ("weight", "source_rows", "created_at", "lead_time")
"""Columns of annotations that a table need not have."""
UNKNOWN = -1
"""The number of a label or gold that is not there."""


@dataclass(frozen=True, eq=False)
class Annotations:
    """The annotations table. Immutable, its arrays read-only; every operation returns a new table.

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
        columns = {name: getattr(self, name) for name in ("item", "annotator", "label", *OPTIONAL)}
        lengths = {len(column) for column in columns.values() if column is not None}
        if len(lengths) > 1 or (self.gold is not None and len(self.gold) != len(self.items)):
            raise ValueError("Annotations: item, annotator, label, weight, times and source_rows must be equally long.")
        if self.groups is not None and len(self.groups) != len(self.annotators):
            raise ValueError("Annotations: groups must have one entry for each annotator.")
        if (np.diff(self.item) < 0).any():
            raise ValueError("Annotations: annotations must be sorted by item.")
        for name, column in [*columns.items(), ("gold", self.gold)]:
            if column is not None:  # a view, so that an array of the caller's stays writable
                view = column.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    @classmethod
    @completes
    def read(cls, path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Annotations:
        """Read a file, several files that are one table, or an annotation tool's export.

        How is said by the fields of `ReadOptions`, as arguments or whole.

        Example:
            >>> Annotations.read(["monday.csv", "tuesday.csv"], text="review", exclude=["cyd"])  # doctest: +SKIP
        """
        from realm.data.readers import read

        return read(path, read_options, **arguments)

    @classmethod
    @completes
    def read_test(cls, path: Paths, read_options: ReadOptions | None = None, **arguments: Any) -> Annotations:
        """Read items with gold, to evaluate a model on. Annotations are not read and need not be there."""
        from realm.data.readers import read_test

        return read_test(path, read_options, **arguments)

    @classmethod
    @completes
    def from_pandas(
        cls, frame: pd.DataFrame, read_options: ReadOptions | None = None, *, source: str = TABLE, **arguments: Any
    ) -> Annotations:
        """Build from a DataFrame with one row per annotation (or one per item, with `wide`); see `read`.

        Errors call the table by `source`.
        """
        from realm.data.readers import read_table

        if not hasattr(frame, "iloc") and not isinstance(frame, pa.Table):
            other = "`Annotations.from_list`, `from_dataset` or `read`"
            raise RealmError(f"`frame` is {type(frame).__name__}: give a DataFrame, or use {other}.")
        return read_table(frame, source, read_options, **arguments)

    @classmethod
    @completes
    def test_from_pandas(
        cls, frame: pd.DataFrame, read_options: ReadOptions | None = None, *, source: str = TABLE, **arguments: Any
    ) -> Annotations:
        """Build from a DataFrame of items with gold, to evaluate a model on. Annotations are not read."""
        from realm.data.readers import read_table

        return read_table(frame, source, read_options, wants="gold", **{"format": "table", **arguments})

    @classmethod
    @completes
    def from_list(
        cls, records: Iterable[Mapping[str, Any]], read_options: ReadOptions | None = None, **arguments: Any
    ) -> Annotations:
        """Build from a list of dicts, one for each annotation, or of an annotation tool's export; see `read`.

        Example:
            >>> rows = [{"review": "a", "who": "ada", "mood": "bad"}, {"review": "a", "who": "bob", "mood": "good"}]
            >>> Annotations.from_list(rows, text="review", annotator="who", label="mood")
            Annotations(1 item, 2 annotators, 2 annotations, 1 task)
        """
        from realm.data.readers import read_table

        rows = list(records)
        if isinstance(records, Mapping) or not all(isinstance(record, Mapping) for record in rows):
            raise RealmError(f"`records` is {type(records).__name__}: give a list of dicts, one for each annotation.")
        fields = [{str(name): value for name, value in record.items()} for record in rows]
        return read_table(fields, "the records", read_options, **arguments)

    @classmethod
    @completes
    def from_dataset(
        cls, dataset: Any, split: str | None = None, read_options: ReadOptions | None = None, **arguments: Any
    ) -> Annotations:
        """Build from a `datasets.Dataset` with one row per annotation, or a split of a `DatasetDict`; see `read`.

        Numbers of a `ClassLabel` column are read as the names that they stand for, -1 as a missing cell. The names of
        the label column are the label set, where there is one task.
        """
        from realm.data.hf_datasets import read_dataset

        return read_dataset(dataset, split, read_options, **arguments)

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

        `options` are the labels or their number; `n_items` counts items without annotations; `names` are annotators'.

        Example:
            >>> Annotations.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0], options=2)
            Annotations(2 items, 2 annotators, 3 annotations, 1 task)
        """
        columns = [np.asarray(column) for column in (items, annotators, labels)]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            raise RealmError("`items`, `annotators` and `labels` must be equally long, with one entry per annotation.")
        size, n_annotators, _ = (int(column.max(initial=-1)) + 1 for column in columns)
        size = size if n_items is None else n_items
        people = tuple(map(str, range(n_annotators) if names is None else names))
        label_set = tuple(map(str, range(options) if isinstance(options, int) else options))
        limits = {"items": size, "annotators": len(people), "labels": len(label_set)}
        for (name, limit), column in zip(limits.items(), columns, strict=True):
            if len(column) and (column.dtype.kind not in "iu" or column.min() < 0 or column.max() >= limit):
                raise RealmError(f"`{name}` must hold whole numbers from 0 to {limit - 1}.")
        order = np.argsort(columns[0], kind="stable")
        item, annotator, label = (column[order].astype(np.int32) for column in columns)
        texts = [f"item {row}" for row in range(size)]
        return cls(Items.from_texts(texts, [Task("labels", label_set)]), people, item, annotator, label)

    @classmethod
    def from_matrix(cls, labels: Any) -> Annotations:
        """Build from a label matrix (items, annotators), or a DataFrame whose columns name the annotators.

        NaN, None or a negative number is no label.

        Example:
            >>> Annotations.from_matrix([[0, 1, -1], [1, 1, 0]])
            Annotations(2 items, 3 annotators, 5 annotations, 1 task)
        """
        from realm.data.matrix import read_matrix

        return read_matrix(labels)[0]

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
        index = {name: row for row, name in enumerate(self.group_names)}
        return np.array([index[name] for name in self.groups or [""] * self.n_annotators], dtype=np.int64)

    def __len__(self) -> int:
        return self.n_annotations

    def __repr__(self) -> str:
        sizes = {"item": self.n_items, "annotator": self.n_annotators, "annotation": self.n_annotations}
        counts = [counted(size, noun) for noun, size in (sizes | {"task": len(self.tasks)}).items()]
        return f"Annotations({', '.join(counts)})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {f"labels of {task.name}": task.labels_in_words() for task in self.tasks[:ROWS]}
        if self.gold is not None:
            facts["items with gold"] = f"{int((self.gold != UNKNOWN).sum()):,}"
        facts["dropped or changed on reading"] = self.ledger.reasons()
        first = self.take_items(np.unique(self.item[:ROWS]))
        frame = first.to_pandas().map(lambda cell: clipped(cell) if isinstance(cell, str) else cell)
        return notebook_html(repr(self), facts, frame[[name for name in frame.columns if name not in ("item", "task")]])

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

    def take_items(self, items: npt.NDArray[np.integer[Any]]) -> Annotations:
        """Keep these items (by index, in this order) with their annotations."""
        items = np.asarray(items, dtype=np.int64)
        if len(items) and (items.min() < 0 or items.max() >= self.n_items):
            raise RealmError(f"take_items: items are numbered from 0 to {self.n_items - 1}.")
        counts = self.annotations_per_item[items]
        starts = np.repeat(self.offsets[items] - (np.cumsum(counts) - counts), counts)
        return replace(
            self,
            **self._columns(starts + np.arange(counts.sum())),
            items=self.items.take(items),
            item=np.repeat(np.arange(len(items), dtype=np.int32), counts),
            gold=None if self.gold is None else self.gold[items],
        )

    def _columns(self, rows: npt.NDArray[np.bool_ | np.integer[Any]]) -> dict[str, Any]:
        """These rows of every column of annotations but `item`."""
        columns = {name: getattr(self, name) for name in ("annotator", "label", *OPTIONAL)}
        return {name: None if column is None else column[rows] for name, column in columns.items()}

    def keep_annotations(self, keep: npt.NDArray[np.bool_ | np.integer[Any]]) -> Annotations:
        """Keep these annotations, a mask (annotations,) or indices; every item and annotator stays listed."""
        return replace(self, item=self.item[keep], **self._columns(keep))

    def compact(self) -> Annotations:
        """Drop items without annotations and annotators without annotations."""
        table = self.take_items(np.flatnonzero(self.annotations_per_item))
        present, annotator = np.unique(table.annotator, return_inverse=True)
        names = tuple(table.annotators[i] for i in present)
        groups = None if table.groups is None else tuple(table.groups[i] for i in present)
        return replace(table, annotators=names, annotator=annotator.astype(np.int32), groups=groups)

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
        gold = self.gold[self.item]
        counts = np.bincount(self.annotator[gold != UNKNOWN], minlength=self.n_annotators)
        correct = np.bincount(self.annotator[self.label == gold], minlength=self.n_annotators)
        ranked = np.flatnonzero(counts >= max(min_annotations, 1))
        if len(ranked) < 2 * m:
            enough = f"{2 * m} annotators with {min_annotations} annotations of gold items or more"
            raise RealmError(f"contrast {m} needs {enough}; there are {len(ranked)}. Lower `contrast`.")
        agreement = correct[ranked] / counts[ranked]
        lowest = np.lexsort((-counts[ranked], agreement))[:m]
        highest = np.lexsort((-counts[ranked], -agreement))
        pool = ranked[np.concatenate([lowest, highest[~np.isin(highest, lowest)][:m]])]
        return self.keep_annotations(np.isin(self.annotator, pool)).compact()

    def select(
        self,
        *,
        tasks: Sequence[str] | None = None,
        annotators: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> Annotations:
        """Keep only what is named. Tasks keep their numbering; annotators left with nothing are dropped."""
        existing = {"tasks": [task.name for task in self.tasks], "annotators": list(self.annotators)}
        existing["items"] = [] if items is None else self.items.ids.to_pylist()
        for (kind, there), names in zip(existing.items(), (tasks, annotators, items), strict=True):
            if missing := set(names or ()).difference(there):
                shown = ", ".join(sorted(missing))
                raise RealmError(f"select: no such {kind}: {shown}. There are: {listed(there)}.")
        keep = np.ones(self.n_items, dtype=bool)
        if tasks is not None:
            keep &= np.isin(existing["tasks"], list(tasks))[self.item_tasks]
        if items is not None:
            keep &= np.isin(np.array(existing["items"]), list(items))
        table = self if tasks is None and items is None else self.take_items(np.flatnonzero(keep))
        if annotators is not None:
            chosen = np.isin(np.array(table.annotators), list(annotators))
            table = table.keep_annotations(chosen[table.annotator]).compact()
        return table

    def split(self, fraction: float, seed: int = 0) -> tuple[Annotations, Annotations]:
        """Split the items in two, about `fraction` of the texts in the second; neither half is empty.

        Equal texts (with equal contexts) stay together. Both tables keep the whole list of annotators.
        """
        n_texts = self.items.n_texts
        if not 0 < fraction < 1 or n_texts < 2:
            message = f"the fraction must lie between 0 and 1, of two texts or more, not {fraction} of {n_texts}"
            raise RealmError(f"split: nothing can be held out: {message}.")
        n_held_out = min(max(round(fraction * n_texts), 1), n_texts - 1)
        second = np.random.default_rng(seed).permutation(n_texts)[self.items.text_codes] < n_held_out
        return self.take_items(np.flatnonzero(~second)), self.take_items(np.flatnonzero(second))

    def without_gold(self) -> Annotations:
        return replace(self, gold=None)

    def fingerprint(self, gold: bool = False) -> str:
        """A hash of items, annotators and annotations, with times where there are any; of gold only where asked for."""
        digest = hashlib.blake2b(self.items.fingerprint().encode(), digest_size=16)
        columns = ["item", "annotator", "label", "weight", "created_at", "lead_time"]
        for name in [*columns, "gold"] if gold else columns:
            if (array := getattr(self, name)) is not None:
                digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        for names in (self.annotators, self.groups):
            digest.update(b"" if names is None else repr(names).encode("utf-8", "surrogatepass"))
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
        from realm.data.hf_datasets import with_class_labels
        from realm.data.write import to_arrow

        return with_class_labels(to_arrow(self), self.tasks, ("label", "gold"))

    def describe(self) -> dict[str, Any]:
        """How many items, annotators, annotations and tasks there are, and how annotations spread over them."""
        per_task = np.bincount(self.item_tasks, minlength=len(self.tasks)).tolist()
        facts = {
            "items": self.n_items,
            "annotators": self.n_annotators,
            "annotations": self.n_annotations,
            "tasks": [
                {"task": task.name, "labels": None if task.labels is None else list(task.labels), "items": count}
                for task, count in zip(self.tasks, per_task, strict=True)
            ],
            "annotations_per_item": _spread(self.annotations_per_item),
            "annotations_per_annotator": _spread(self.annotations_per_annotator),
            "items_with_one_annotation": int((self.annotations_per_item == 1).sum()),
            "items_with_gold": 0 if self.gold is None else int((self.gold != UNKNOWN).sum()),
        }
        if self.groups is not None:
            facts["groups"] = {name: self.groups.count(name) for name in self.group_names}
        return facts


def _spread(counts: npt.NDArray[np.int64]) -> dict[str, float]:
    if not len(counts):
        return {"min": 0, "median": 0.0, "mean": 0.0, "max": 0}
    low, high = int(counts.min()), int(counts.max())
    return {"min": low, "median": float(np.median(counts)), "mean": float(counts.mean()), "max": high}
