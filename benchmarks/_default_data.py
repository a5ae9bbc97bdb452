"""The data that the default is measured on, as the data of cells (`realm.comparison.cells.CellData`).

| class | what it is |
|---|---|
| `BenchmarkData` (of the lab) | SentPolarity, CEBaB: their own annotators, or simulated ones |
| `PanelData` | a panel of judges, a column each (CivilComments), so many of them per item |
| `KeptApart` | other data without the items that the model's opinion was made from |
| `GoldApart` | these items alone, with gold: what the opinion is made from |
| `ChanceData` | texts that say nothing, ten labels each: a model can only be at chance |
| `Noted` | other data with a note, so that its results are kept under another key |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm import METHODS, Annotations, RealmError, simulate
from realm.comparison.cells import CellData, CellTables

APART = 24
"""Gold items from which a classifier's opinion is made: as many as in the prototypes, enough for 60 to 70% right."""
CHANCE_ANNOTATORS = np.concatenate([np.linspace(0.95, 0.5, 40), [0.5] * 3])
"""Accuracies of the annotators of `ChanceData`: forty from careful to guessing, and three who guess."""
GUESSERS_WEIGHT = 40.0
"""How much likelier one of the three guessers is to be asked than another annotator: each then has 400 to 600 labels,
as the three of the real set in which expertise came out upside down."""

DRAWING = 1
"""Of the random stream that draws annotators, beside the seed."""


@lru_cache(maxsize=4)
def read_panel(file: Path) -> Annotations:
    """A table with the columns item, text, gold and one for each annotator, blank where they gave no label."""
    wide = pd.read_csv(file, dtype=str, keep_default_na=False)
    columns = ["item", "text", "gold"]
    if missing := [name for name in columns if name not in wide.columns]:
        raise RealmError(f"{file}: no column {', '.join(missing)}.")
    long = wide.melt(id_vars=columns, var_name="annotator", value_name="label")
    return Annotations.from_pandas(long[long["label"] != ""], source=str(file))


@lru_cache(maxsize=4)
def read_panel_test(folder: Path) -> Annotations:
    """The test half of a panel, with the tasks of the other half."""
    return Annotations.read_test(folder / "test.csv", tasks=read_panel(folder / "panel.csv").tasks)


@dataclass(frozen=True)
class PanelData:
    """A panel of judges: `panel.csv` and `test.csv` of a folder. `judges` of each item's are drawn by the seed.

    0 keeps all of them. Training on gold reads none of them.
    """

    name: str
    folder: Path = field(compare=False)
    judges: int = 0
    items: int | None = None
    test_items: int | None = None

    @property
    def origin(self) -> str:
        return self.name

    def describe(self) -> dict[str, Any]:
        return {"panel": self.name, "judges": self.judges, "items": self.items, "test_items": self.test_items}

    def fingerprint(self) -> str:
        return _fingerprint(self.folder)

    def load(self, method: str, seed: int) -> CellTables:
        train = first_items(read_panel(self.folder / "panel.csv"), self.items)
        test = read_panel_test(self.folder)
        if self.judges and not METHODS[method].needs_gold:
            train = per_item(train, np.ones(train.n_annotators), self.judges, seed).compact()
        return CellTables(train, first_items(test, self.test_items))

    def __str__(self) -> str:
        return f"{self.name} {self.judges or 'all'} per item"


@lru_cache(maxsize=4)
def _fingerprint(folder: Path) -> str:
    tables = read_panel(folder / "panel.csv"), read_panel_test(folder)
    return "-".join(table.fingerprint(gold=True) for table in tables)


def per_item(table: Annotations, weights: np.ndarray, n: int, seed: int) -> Annotations:
    """Keep n annotations of each item at most, drawn without replacement, an annotator's odds being their weight."""
    # A stream of its own: a simulation with the same seed must not decide both who is asked and who is right.
    draws = np.random.default_rng([seed, DRAWING]).gumbel(size=table.n_annotations) + np.log(weights)[table.annotator]
    order = np.lexsort((-draws, table.item))
    place = np.empty(table.n_annotations, dtype=np.int64)
    place[order] = np.arange(table.n_annotations) - table.offsets[table.item[order]]
    return table.keep_annotations(place < n)


def first_items(table: Annotations, n: int | None) -> Annotations:
    """The first n items of a seeded shuffle, in their own order."""
    if n is None or n >= table.n_items:
        return table
    return table.take_items(np.sort(np.random.default_rng(0).permutation(table.n_items)[:n]))


# -------------------------------------------------------------------- gold kept apart, for an opinion


@dataclass(frozen=True)
class GoldApart:
    """`APART` gold items of other data, as many of each label as there are, which no measured training reads."""

    data: CellData

    @property
    def origin(self) -> str:
        return self.data.origin

    def describe(self) -> dict[str, Any]:
        return {**self.data.describe(), "apart": f"the {APART} alone"}

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def load(self, method: str, seed: int) -> CellTables:
        tables = self.data.load("oracle", 0)
        return replace(tables, annotations=tables.annotations.take_items(apart(tables.annotations)))

    def __str__(self) -> str:
        return f"{self.data}, the {APART} apart"


@dataclass(frozen=True)
class KeptApart:
    """Other data without the items of `GoldApart`."""

    data: CellData
    gold: CellData

    @property
    def origin(self) -> str:
        return self.data.origin

    def describe(self) -> dict[str, Any]:
        return {**self.data.describe(), "apart": f"without {APART}"}

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @cached_property
    def _ids(self) -> list[str]:
        return GoldApart(self.gold).load("oracle", 0).annotations.item_ids.to_pylist()

    def load(self, method: str, seed: int) -> CellTables:
        tables = self.data.load(method, seed)
        rest = np.flatnonzero(~np.isin(np.array(tables.annotations.item_ids.to_pylist()), self._ids))
        return replace(tables, annotations=tables.annotations.take_items(rest))

    def __str__(self) -> str:
        return str(self.data)


def apart(table: Annotations) -> np.ndarray:
    """Rows of `APART` gold items, the labels in turn."""
    assert table.gold is not None
    order = np.random.default_rng(0).permutation(np.flatnonzero(table.gold >= 0))
    labels = table.gold[order]
    turn = np.zeros(len(order), dtype=np.int64)
    for label in np.unique(labels):
        turn[labels == label] = np.arange((labels == label).sum())
    return np.sort(order[np.argsort(turn, kind="stable")[:APART]])


# -------------------------------------------------------------------- a model at chance


@dataclass(frozen=True)
class ChanceData:
    """Items whose text has nothing to do with their label, ten labels each; three guessers gave the most."""

    items: int = 600
    test_items: int = 200
    per_item: int = 10

    @property
    def origin(self) -> str:
        return "chance"

    def describe(self) -> dict[str, Any]:
        return {"items": self.items, "test_items": self.test_items, "per_item": self.per_item}

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for table in (self._table(self.items, 0), self._table(self.test_items, 1)):
            digest.update(table.fingerprint(gold=True).encode())
        digest.update(CHANCE_ANNOTATORS.tobytes() + np.float64(GUESSERS_WEIGHT).tobytes())
        return digest.hexdigest()

    @staticmethod
    def _table(items: int, seed: int) -> Annotations:
        from benchmarks._material import LABELS, PLAIN

        rng = np.random.default_rng([7, seed])
        texts = [" ".join(rng.choice(PLAIN, size=12)) for _ in range(items)]
        gold = [LABELS[label] for label in rng.integers(2, size=items)]
        return Annotations.test_from_pandas(
            pd.DataFrame({"item": [f"i{seed}-{row}" for row in range(items)], "text": texts, "gold": gold}),
            labels=LABELS,
        )

    def load(self, method: str, seed: int) -> CellTables:
        train = self._table(self.items, 0)
        test = self._table(self.test_items, 1)
        if METHODS[method].needs_gold:
            return CellTables(train, test)
        weights = np.ones(len(CHANCE_ANNOTATORS))
        weights[-3:] = GUESSERS_WEIGHT
        everybody = simulate(train, CHANCE_ANNOTATORS, regime="shared", seed=seed)
        table = per_item(everybody, weights, self.per_item, seed)
        return CellTables(table, test, CHANCE_ANNOTATORS[:, None])

    def __str__(self) -> str:
        return f"texts of noise, {self.per_item} labels each"


# -------------------------------------------------------------------- a note


@dataclass(frozen=True)
class Noted:
    """Other data with a note that makes its results other ones: a key knows settings, not the code or its constants."""

    data: CellData
    note: str

    @property
    def origin(self) -> str:
        return self.data.origin

    def describe(self) -> dict[str, Any]:
        description = self.data.describe()
        return {**description, "note": " ".join(filter(None, (description.get("note"), self.note)))}

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def load(self, method: str, seed: int) -> CellTables:
        return self.data.load(method, seed)

    def __str__(self) -> str:
        return f"{self.data}, {self.note}"
