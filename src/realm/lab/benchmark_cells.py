"""The cells of the lab: what they train on is a benchmark (or several, jointly), its annotators and its regime."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm import METHODS, Annotations, Items, RealmError, Task, simulate
from realm.comparison.cells import Cell, CellTables
from realm.comparison.simulation import POOLS, read_pool, task_matrix
from realm.lab.datasets import Benchmark, load_benchmark, with_task_names
from realm.lab.own_benchmarks import OwnBenchmark

JOINED = "+"
"""Between benchmarks that are trained on jointly, as several tasks."""
SHUFFLE_SEED = 0
"""Of the order in which a smaller variant selects its items: the same for every cell, so that they share caches."""
PER_ITEM = "per-item"
"""The pool that keeps n annotations of each item: `per-item:n`."""
DRAWING = 1
"""Beside the seed, of the stream that draws annotations: not the one that decides which of them is kept by `sparse`."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BenchmarkData:
    """The data of a cell of the lab.

    | field | meaning |
    |---|---|
    | benchmark | its name, or one task of it (`cebab/food`); several joined by `+` are trained on as several tasks |
    | noise | of simulated annotators; None for the benchmark's own annotations |
    | pool | accuracies of simulated annotators (`D1`, `graded:5`), or `all`, `contrast:20`, `per-item:3` of its own |
    | regime | `sparse` or `shared` |
    | items, test_items | how many training and test items, of each benchmark; None for all |
    | gold_apart | gold items that the model is fitted to first, and that nothing else reads; None for no such fit |
    | folder, offline | where the benchmark's files are; None for the hub, or its cache on this machine alone |
    | own | the benchmarks that the spec brings itself, as far as this is one of them |

    Training on gold reads neither noise nor regime, and the pool only of a benchmark's own annotators, whose items it
    trains on: what is not read is None, so that such a cell is trained once for all configurations that share it.
    """

    benchmark: str
    noise: str | None = None
    pool: str | None = None
    regime: str | None = None
    items: int | None = None
    test_items: int | None = None
    gold_apart: int | None = None
    folder: Path | None = field(default=None, compare=False)
    offline: bool = field(default=False, compare=False)
    own: tuple[OwnBenchmark, ...] = field(default=(), compare=False)

    @property
    def origin(self) -> str:
        return self.benchmark

    @property
    def benchmarks(self) -> list[str]:
        return self.benchmark.split(JOINED)

    def describe(self) -> dict[str, Any]:
        described = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        # files of a person's own change: another content is another cell
        return described | ({"files": JOINED.join(each.digest for each in self.own)} if self.own else {})

    def fingerprint(self) -> str:
        return data_fingerprint(self.benchmark, self.folder, self.offline, self.own)

    def __str__(self) -> str:
        return " ".join(word for word in (self.benchmark, self.noise, self.pool, self.regime) if word)

    def load(self, method: str, seed: int) -> CellTables:
        """The same annotations for every method of a configuration; for the oracle, the items of these with gold."""
        parts = [_load(name, self.folder, self.offline, self.own) for name in self.benchmarks]
        test = join(self.benchmarks, [_some(_with_gold(part.test, part.name), self.test_items) for part in parts])
        instructions = {part.instruction for part in parts}
        instruction = instructions.pop() if len(instructions) == 1 else None
        if self.noise is None and (not METHODS[method].needs_gold or self.pool is not None):
            return CellTables(self._own_annotations(parts[0], method, seed), test, None, instruction)
        items = join(self.benchmarks, [_some(_with_gold(part.train, part.name), self.items) for part in parts])
        items, apart = (items, None) if self.gold_apart is None else kept_apart(items, self.gold_apart)
        if METHODS[method].needs_gold:
            return CellTables(items, test, None, instruction, apart)
        accuracies = simulated_pool(self.pool or "", len(parts), len(items.tasks))
        how: dict[str, Any] = {"noise": self.noise, "regime": self.regime}
        return CellTables(simulate(items, accuracies, seed=seed, **how), test, accuracies, instruction, apart)

    def _own_annotations(self, part: Benchmark, method: str, seed: int) -> Annotations:
        """The benchmark's own annotations, by pool, number of items and regime; for the oracle, those with gold."""
        train = part.train
        if METHODS[method].needs_gold and self.pool == "all" and not train.n_annotations:
            return _some(_with_gold(train, part.name), self.items)
        if not train.n_annotations:
            raise RealmError(f"{self.benchmark} has no annotations of its own: give a noise and a pool.")
        pool = own_pool(self.pool or "all")
        try:
            least = pool.min_annotations or part.min_annotations
            table = train.contrast(pool.contrast, least) if pool.contrast else train.compact()
        except RealmError as error:
            raise RealmError(f"pool {self.pool} of {self.benchmark}: {error}") from None
        table = _some(table, self.items).compact()
        if METHODS[method].needs_gold:
            return _with_gold(table, f"{part.name}, pool {self.pool}")
        if pool.per_item:
            table = drawn_per_item(table, pool.per_item, seed)
        return table.sparse(seed) if self.regime == "sparse" else table


DATA_FIELDS = tuple(each.name for each in fields(BenchmarkData))


def benchmark_cell(model: str, method: str, seed: int, steps: int, **more: Any) -> Cell:
    """A cell of the lab. `more` are fields of `BenchmarkData`, which becomes its data, and of `Cell`.

    What training on gold does not read of the data is left out: see `BenchmarkData`.
    """
    data = BenchmarkData(**{name: more.pop(name) for name in DATA_FIELDS if name in more})
    if METHODS[method].needs_gold:
        data = replace(data, noise=None, pool=oracle_pool(data.pool) if data.noise is None else None, regime=None)
    return Cell(model, data, method, seed, steps, **more)


def kept_apart(items: Annotations, n: int) -> tuple[Annotations, Annotations]:
    """The items without n of those with gold, and these n: the labels of each task in turn, the same for every seed."""
    assert items.gold is not None
    if n >= items.n_items:
        raise RealmError(f"gold_apart {n}: there are {items.n_items} items with gold, leave some to train on.")
    order = np.random.default_rng(SHUFFLE_SEED).permutation(items.n_items)
    classes = np.stack([items.item_tasks, items.gold])[:, order]
    turn = np.zeros(len(order), dtype=np.int64)
    for one in np.unique(classes, axis=1).T:
        members = (classes == one[:, None]).all(0)
        turn[members] = np.arange(members.sum())
    apart = order[np.argsort(turn, kind="stable")[:n]]
    return items.take_items(np.setdiff1d(order, apart)), items.take_items(np.sort(apart))


def _with_gold(table: Annotations, name: str) -> Annotations:
    if table.gold is None or not (table.gold >= 0).any():
        raise RealmError(f"benchmark {name}: no gold in its items.")
    return table.take_items(np.flatnonzero(table.gold >= 0))


def _some(table: Annotations, items: int | None) -> Annotations:
    """The first n items of a seeded shuffle, in their own order."""
    if items is None or items >= table.n_items:
        return table
    order = np.random.default_rng(SHUFFLE_SEED).permutation(table.n_items)
    return table.take_items(np.sort(order[:items]))


# -------------------------------------------------------------------- pools


def simulated_pool(pool: str, benchmarks: int, tasks: int) -> Floats:
    """Accuracies (annotators, tasks). Over several benchmarks D1, D2 and D3 are the paper's annotator x task matrices.

    Examples:
        >>> simulated_pool("D1", benchmarks=3, tasks=3).tolist()
        [[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]]
    """
    if benchmarks > 1 and pool in POOLS:
        return task_matrix(pool, tasks)
    return np.repeat(np.array(read_pool(pool))[:, None], tasks, axis=1)


@dataclass(frozen=True)
class OwnPool:
    """Of a benchmark's own annotations: those of the contrast-m pool (0 for everybody's), n per item (0 for all).

    For the contrast pool an annotator must have `min_annotations`; None for the benchmark's own number.
    """

    contrast: int = 0
    min_annotations: int | None = None
    per_item: int = 0


def own_pool(pool: str) -> OwnPool:
    """Read `all`, `contrast:m`, `contrast:m:min_annotations` or `per-item:n`."""
    name, *words = pool.split(":")
    sizes = [int(word) for word in words if word.isdigit()]
    if len(sizes) == len(words) and all(sizes):
        if name == "all" and not sizes:
            return OwnPool()
        if name == "contrast" and 1 <= len(sizes) <= 2:
            return OwnPool(*sizes)
        if name == PER_ITEM and len(sizes) == 1:
            return OwnPool(per_item=sizes[0])
    raise RealmError(
        f"pool {pool}: must be, of a benchmark's own annotators, `all`, `contrast:20`, `contrast:20:10` (those with 10 "
        "annotations or more), or `per-item:3` (three labels of each item). With a noise it may be D1, D2, D3, "
        "graded:N, one-reliable:N or accuracies."
    )


def oracle_pool(pool: str | None) -> str | None:
    """The pool whose items an oracle trains on: those of `per-item:n` are everybody's."""
    return "all" if pool and pool.startswith(PER_ITEM) else pool


def drawn_per_item(table: Annotations, n: int, seed: int) -> Annotations:
    """At most n annotations of each item, drawn without replacement."""
    draws = np.random.default_rng([seed, DRAWING]).random(table.n_annotations)
    order = np.lexsort((draws, table.item))
    place = np.empty(table.n_annotations, dtype=np.int64)
    place[order] = np.arange(table.n_annotations) - table.offsets[table.item[order]]
    return table.keep_annotations(place < n).compact()


# -------------------------------------------------------------------- several benchmarks


def join(names: Sequence[str], tables: Sequence[Annotations]) -> Annotations:
    """The items of several benchmarks in one table, each with tasks of its own and without annotations.

    A benchmark of one task gives its name to it. A single table is returned unchanged.
    """
    if len(tables) == 1:
        return tables[0]
    tasks: list[Task] = []
    item_tasks: list[np.ndarray] = []
    for name, table in zip(names, tables, strict=True):
        item_tasks.append(table.item_tasks + len(tasks))
        several = len(table.tasks) > 1
        tasks += [replace(task, name=f"{name}: {task.name}" if several else name) for task in table.tasks]
    joined = pa.concat_tables([_item_columns(table.items) for table in tables], promote_options="default")
    columns = {name: joined[name].combine_chunks() for name in joined.column_names}
    items = Items(
        ids=columns["ids"],
        texts=columns["texts"],
        contexts=columns.get("contexts"),
        options=columns.get("options"),
        item_tasks=np.concatenate(item_tasks).astype(np.int32),
        tasks=tuple(tasks),
    )
    gold = np.concatenate([table.gold for table in tables if table.gold is not None])
    empty = np.zeros(0, dtype=np.int32)
    return Annotations(items=items, annotators=(), item=empty, annotator=empty, label=empty, gold=gold)


def _item_columns(items: Items) -> pa.Table:
    columns = {name: getattr(items, name) for name in ("ids", "texts", "contexts", "options")}
    return pa.table({name: column for name, column in columns.items() if column is not None})


# -------------------------------------------------------------------- benchmarks


@lru_cache(maxsize=8)
def _load(name: str, folder: Path | None, offline: bool = False, own: tuple[OwnBenchmark, ...] = ()) -> Benchmark:
    """A benchmark, or one task of it: `cebab/food`."""
    whole, _, task = name.partition("/")
    mine = next((each for each in own if each.name == whole), None)
    benchmark = load_benchmark(whole, folder, offline=offline) if mine is None else with_task_names(mine.load(), whole)
    if not task:
        return benchmark
    train, test = _one_task(benchmark.train, task), _one_task(benchmark.test, task)
    return replace(benchmark, name=name, train=train, test=test)


def _one_task(table: Annotations, name: str) -> Annotations:
    part = table.select(tasks=[name])
    tasks = tuple(task for task in table.tasks if task.name == name)
    items = replace(part.items, tasks=tasks, item_tasks=np.zeros(part.n_items, dtype=np.int32))
    return replace(part, items=items)


@lru_cache(maxsize=64)
def data_fingerprint(
    benchmark: str, folder: Path | None, offline: bool = False, own: tuple[OwnBenchmark, ...] = ()
) -> str:
    """A hash of everything a benchmark (or several joined by +) holds: tables, gold, instruction and pool size."""
    digest = hashlib.blake2b(digest_size=8)
    for name in benchmark.split(JOINED):
        part = _load(name, folder, offline, own)
        for table in (part.train, part.test):
            digest.update(table.fingerprint(gold=True).encode())
        digest.update(repr((part.min_annotations, part.instruction)).encode())
    return digest.hexdigest()
