"""What a cell trains on and is scored on: a benchmark (or several, jointly), its annotators, its regime."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from realm.compare.simulation import Floats, simulate
from realm.data import Annotations, Items, Task
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError
from realm.lab.datasets import Benchmark, load_benchmark
from realm.lab.grid.cell import Cell
from realm.lab.grid.pools import own_pool, simulated_pool
from realm.models.store import offline
from realm.runs.folder import fingerprint

SHUFFLE = 0
"""Seed of the order in which a smaller variant takes its items: the same for every cell, so that states are shared."""


@dataclass(frozen=True)
class Material:
    """Annotations to train on, items with gold to score on, and the accuracies asked of simulated annotators.

    `asked` is (annotators, tasks), None for a benchmark's own annotations.
    """

    table: Annotations
    test: Annotations
    asked: Floats | None


def material(cell: Cell, folder: Path | None) -> Material:
    """The tables of a cell: the same for every method of a configuration, the oracle's without items that lack gold."""
    parts = [_load(name, folder) for name in cell.benchmarks]
    test = join(cell.benchmarks, [_some(_with_gold(part.test, part.name), cell.test_items) for part in parts])
    if cell.noise is None and (cell.method != "oracle" or cell.pool is not None):
        return Material(_own(parts[0], cell), test, None)
    items = join(cell.benchmarks, [_some(_with_gold(part.train, part.name), cell.items) for part in parts])
    if cell.method == "oracle":
        return Material(items, test, None)
    accuracies = simulated_pool(cell.pool or "", len(parts), len(items.tasks))
    how: dict[str, Any] = {"noise": cell.noise, "regime": cell.regime}
    return Material(simulate(items, accuracies, seed=cell.seed, **how), test, accuracies)


def _own(part: Benchmark, cell: Cell) -> Annotations:
    """The benchmark's own annotations, as pool, number of items and regime have it; for the oracle, those with gold."""
    train = part.train
    if cell.method == "oracle" and cell.pool == "all" and not train.n_annotations:
        return _some(_with_gold(train, part.name), cell.items)
    if not train.n_annotations:
        raise RealmError(f"{cell.benchmark} has no annotations of its own: say which `noise` and `pool` to simulate.")
    size, least = own_pool(cell.pool or "all")
    try:
        table = train.contrast(size, least or part.min_annotations) if size else train.compact()
    except RealmError as error:
        raise RealmError(f"pool {cell.pool} of {cell.benchmark}: {error}") from None
    table = _some(table, cell.items).compact()
    if cell.method == "oracle":
        return _with_gold(table, f"{part.name}, pool {cell.pool}")
    return table.sparse(cell.seed) if cell.regime == "sparse" else table


def _with_gold(table: Annotations, name: str) -> Annotations:
    if table.gold is None or not (table.gold != UNKNOWN).any():
        raise RealmError(f"benchmark {name}: no gold in its items.")
    return table.take_items(np.flatnonzero(table.gold != UNKNOWN))


def _some(table: Annotations, items: int | None) -> Annotations:
    """The first n items of a seeded shuffle, in their own order."""
    if items is None or items >= table.n_items:
        return table
    order = np.random.default_rng(SHUFFLE).permutation(table.n_items)
    return table.take_items(np.sort(order[:items]))


# -------------------------------------------------------------------- several benchmarks


def join(names: Sequence[str], tables: Sequence[Annotations]) -> Annotations:
    """The items of several benchmarks in one table, each with tasks of its own and without annotations.

    A benchmark of one task gives its name to it. One table alone is returned as it is.
    """
    if len(tables) == 1:
        return tables[0]
    tasks: list[Task] = []
    item_tasks: list[np.ndarray] = []
    for name, table in zip(names, tables, strict=True):
        item_tasks.append(table.item_tasks + len(tasks))
        several = len(table.tasks) > 1
        tasks += [replace(task, name=f"{name}: {task.name}" if several else name) for task in table.tasks]
    nothing = np.zeros(0, dtype=np.int32)
    options = next((table.options.type for table in tables if table.options is not None), None)
    return Annotations(
        items=Items(
            ids=_joined([table.item_ids for table in tables]),
            texts=_joined([table.texts for table in tables]),
            contexts=_column(tables, "contexts", pa.large_string()),
            options=None if options is None else _column(tables, "options", options),
            item_tasks=np.concatenate(item_tasks).astype(np.int32),
            tasks=tuple(tasks),
        ),
        annotators=(),
        item=nothing,
        annotator=nothing,
        label=nothing,
        gold=np.concatenate([table.gold for table in tables if table.gold is not None]),
    )


def _column(tables: Sequence[Annotations], name: str, kind: pa.DataType) -> pa.Array | None:
    """A column that some tables have, null for the items of the others; None where none has it."""
    columns = [getattr(table, name) for table in tables]
    if all(column is None for column in columns):
        return None
    return _joined(
        [
            pa.nulls(table.n_items, kind) if column is None else column
            for table, column in zip(tables, columns, strict=True)
        ]
    )


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([column.cast(columns[0].type) for column in columns])


# -------------------------------------------------------------------- benchmarks


@lru_cache(maxsize=8)
def _load(name: str, folder: Path | None) -> Benchmark:
    """A benchmark, or one task of it: `cebab/food`."""
    whole, _, task = name.partition("/")
    loaded = load_benchmark(whole, folder, offline=offline())
    if not task:
        return loaded
    return replace(loaded, name=name, train=_one_task(loaded.train, task), test=_one_task(loaded.test, task))


def _one_task(table: Annotations, name: str) -> Annotations:
    kept = table.select(tasks=[name])
    tasks = tuple(task for task in table.tasks if task.name == name)
    items = replace(kept.items, tasks=tasks, item_tasks=np.zeros(kept.n_items, dtype=np.int32))
    return replace(kept, items=items)


@lru_cache(maxsize=64)
def data_fingerprint(benchmark: str, folder: Path | None) -> str:
    """A hash of everything a benchmark (or several joined by +) holds, gold included, and one of what goes with it:
    its instruction and who is ranked for a pool."""
    digest, beside = hashlib.blake2b(digest_size=8), hashlib.blake2b(digest_size=4)
    for name in benchmark.split("+"):
        loaded = _load(name, folder)
        for table in (loaded.train, loaded.test):
            digest.update(fingerprint(table).encode())
            digest.update(b"" if table.gold is None else table.gold.tobytes())
        beside.update(repr((loaded.min_annotations, loaded.instruction)).encode())
    return f"{digest.hexdigest()}-{beside.hexdigest()}"


def instruction(cell: Cell, folder: Path | None) -> str | None:
    """The sentence in front of every prompt, where all benchmarks of the cell have the same."""
    said = {_load(name, folder).instruction for name in cell.benchmarks}
    return said.pop() if len(said) == 1 else None
