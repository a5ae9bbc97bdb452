"""`Items`: what is to be labelled, columnar and ragged. Knows nothing of who labelled it or what is true."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.data.columns import list_lengths
from realm.data.read_options import ReadOptions, completes
from realm.display import ROWS, counted, notebook_html
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int32]
TABLE = "the table"
"""What messages call a table in memory."""
LABELS_SHOWN = 12
"""Labels that are listed on one line."""
CHARACTERS_SHOWN = 120
"""Characters of a text that a notebook shows: two lines."""


@dataclass(frozen=True)
class Task:
    """A set of items with one label set. `labels` is None where every item lists its own options."""

    name: str
    labels: tuple[str, ...] | None

    def labels_in_words(self) -> str:
        """The labels on one line, for people."""
        if self.labels is None:
            return "every item lists its own options"
        more = f", ... ({len(self.labels):,} in all)" if len(self.labels) > LABELS_SHOWN else ""
        return ", ".join(self.labels[:LABELS_SHOWN]) + more

    def _repr_html_(self) -> str:
        return notebook_html(f"Task {self.name}", {"labels": self.labels_in_words()})


class Item(NamedTuple):
    """One item as its prompt shows it."""

    id: str
    text: str
    context: str | None
    options: list[str]


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a table. Immutable; every operation returns a new object.

    | field | shape | meaning |
    |---|---|---|
    | ids, texts | (items,) strings | the item's identity within its task, and its text |
    | contexts | (items,) strings or None | a passage the text refers to |
    | options | (items,) lists of strings or None | the item's own options; null where its task has labels |
    | item_tasks | (items,) int32 | index into `tasks` |
    | tasks | | `Task` objects |

    Examples:
        >>> items = Items.from_texts(["what a film", "what a bore"], [Task("reviews", ("neg", "pos"))])
        >>> len(items), items.options_of(0)
        (2, ['neg', 'pos'])
    """

    ids: pa.LargeStringArray
    texts: pa.LargeStringArray
    contexts: pa.LargeStringArray | None
    options: pa.LargeListArray | None
    item_tasks: Ints
    tasks: tuple[Task, ...]

    @classmethod
    @completes
    def read(
        cls, path: str | Path | Sequence[str | Path], read_options: ReadOptions | None = None, **arguments: Any
    ) -> Items:
        """Read the items of a file, or of several that are one table; see `Annotations.read`."""
        from realm.data.readers import read_items

        return read_items(path, read_options, **arguments)

    @classmethod
    @completes
    def from_pandas(
        cls, frame: pd.DataFrame, read_options: ReadOptions | None = None, *, source: str = TABLE, **arguments: Any
    ) -> Items:
        """Build from a DataFrame; rows with equal ids (or else equal texts) are one item."""
        from realm.data.readers import read_table

        return read_table(frame, source, read_options, wants="items", **{"format": "table", **arguments}).items

    @classmethod
    def from_texts(cls, texts: Sequence[str], tasks: Sequence[Task], *, task: str | None = None) -> Items:
        """One item per text, with its position ("0", "1", ...) as its id.

        Args:
            texts: the texts; equal ones stay separate items.
            tasks: the tasks of the model that will answer.
            task: the name of the texts' task, where there are several.
        """
        if isinstance(texts, str):
            raise RealmError("`texts` is one string: give a list of texts.")
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise RealmError(
                    f"`texts`: every text must be a string, and not blank; text {position + 1} is {text!r}."
                )
        names = [each.name for each in tasks]
        if task not in names and (task is not None or len(names) != 1):
            raise RealmError(f"`task={task}`: name the task of the texts. There are: {', '.join(names)}.")
        index = 0 if task is None else names.index(task)
        if tasks[index].labels is None:
            message = "list their own options, which texts alone do not have. Give a table that has them"
            raise RealmError(f"the items of task '{names[index]}' {message}, or use `Items.from_pandas`.")
        try:
            column = pa.array(list(texts), pa.large_string())
        except UnicodeEncodeError as error:
            raise RealmError(f"`texts`: a text is not valid Unicode: {error.reason}.") from None
        ids = pa.array(map(str, range(len(texts))), pa.large_string())
        return cls(ids, column, None, None, np.full(len(texts), index, dtype=np.int32), tuple(tasks))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Items({counted(len(self), 'item')}, {counted(len(self.tasks), 'task')})"

    def _repr_html_(self) -> str:
        import pandas as pd

        first = self.take(np.arange(min(len(self), ROWS)))
        rows = [(item.id, clipped(item.text), clipped(", ".join(item.options))) for item in first]
        table = pd.DataFrame(rows, columns=["item", "text", "options"])
        return notebook_html(repr(self), {}, table)

    def __iter__(self) -> Iterator[Item]:
        contexts = [None] * len(self) if self.contexts is None else self.contexts.to_pylist()
        columns = zip(self.ids.to_pylist(), self.texts.to_pylist(), contexts, strict=True)
        for index, (item_id, text, context) in enumerate(columns):
            yield Item(item_id, text, context, self.options_of(index))

    @cached_property
    def option_counts(self) -> Ints:
        """K of each item: how many options it has. Shape (items,)."""
        by_task = np.array([len(task.labels or ()) for task in self.tasks], dtype=np.int32)
        own = 0 if self.options is None else list_lengths(self.options)
        return np.where(own, own, by_task[self.item_tasks]).astype(np.int32)

    def options_of(self, item: int) -> list[str]:
        """The options of an item, in the order its prompt lists them."""
        if self.options is not None and self.options[item].is_valid:
            return [str(option) for option in self.options[item].as_py()]
        return list(self.tasks[self.item_tasks[item]].labels or ())

    def label_name(self, item: int, label: int) -> str:
        """The option of an item that this number stands for."""
        return self.options_of(item)[label]

    @cached_property
    def text_codes(self) -> npt.NDArray[np.int64]:
        """A number from 0 for each text with its context, the same where both are equal. Shape (items,)."""
        columns = [each for each in (self.texts, self.contexts) if each is not None]
        codes, *contexts = (each.dictionary_encode(null_encoding="encode").indices.to_numpy() for each in columns)
        for each in contexts:
            _, codes = np.unique(codes.astype(np.int64) * (int(each.max(initial=0)) + 1) + each, return_inverse=True)
        return np.asarray(codes, dtype=np.int64)

    @property
    def n_texts(self) -> int:
        """How many different texts (with their contexts) there are."""
        return int(self.text_codes.max(initial=-1)) + 1

    def fingerprint(self) -> str:
        """A hash of everything the items hold."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.ascontiguousarray(self.item_tasks).tobytes())
        for column in (self.ids, self.texts, self.contexts, self.options):
            digest.update(b"-" if column is None else b"+")
            values = [] if column is None else column.to_pylist()
            for value in values:
                digest.update(repr(value).encode("utf-8", "surrogatepass"))
        digest.update(repr(self.tasks).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def take(self, items: npt.NDArray[np.integer[Any]]) -> Items:
        """These items (by index, in this order)."""
        index = pa.array(np.asarray(items, dtype=np.int64))
        return replace(
            self,
            ids=self.ids.take(index),
            texts=self.texts.take(index),
            contexts=None if self.contexts is None else self.contexts.take(index),
            options=None if self.options is None else self.options.take(index),
            item_tasks=self.item_tasks[items],
        )

    def folds(self, k: int, seed: int = 0) -> Ints:
        """A fold in 0..k-1 for each item, equal texts (with equal contexts) together. Shape (items,)."""
        if self.n_texts < k:
            raise RealmError(f"folds: the items have {self.n_texts} different text(s), too few for {k} folds.")
        fold_of_text = np.arange(self.n_texts, dtype=np.int32) % k
        np.random.default_rng(seed).shuffle(fold_of_text)
        return np.asarray(fold_of_text[self.text_codes], dtype=np.int32)


def clipped(text: str) -> str:
    """The beginning of a text, for people."""
    return text if len(text) <= CHARACTERS_SHOWN else text[: CHARACTERS_SHOWN - 1] + "…"
