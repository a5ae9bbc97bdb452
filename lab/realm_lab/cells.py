"""What a cell of the lab trains on: a benchmark (or several, jointly), its annotators, its regime, and a channel."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm import METHODS, Annotations, Channel, Items, RealmError, simulate
from realm.comparison.cells import CellTables
from realm.comparison.simulation import HIGH, LOW, POOLS, read_pool
from realm_lab.datasets import Benchmark, load_benchmark

JOINED = "+"
"""Between benchmarks that are trained on jointly, as several tasks."""
MIN_ANNOTATIONS = 100
"""Of a real annotator, to be ranked for the contrast pool. The paper gives no such number; with this one its pool of
SentPolarity has the sizes that its epochs imply (docs/benchmarks.md)."""
SHUFFLE_SEED = 0
"""Of the order in which a smaller variant selects its items: the same for every cell, so that they share caches."""
DRAWING = 1
"""Beside the seed, of the stream that draws annotations: not the one that decides which of them is kept by `sparse`."""


@dataclass(frozen=True)
class BenchmarkData:
    """The data of a cell of the lab.

    Training on gold reads neither noise nor regime, and the pool only of a benchmark's own annotators, whose items it
    trains on: what is not read is None, so that such a cell is trained once for all configurations that share it.
    """

    benchmark: str  # its name, or one task of it (`cebab/food`); several joined by `+` are trained on as several tasks
    noise: Any = None  # of simulated annotators; None for the benchmark's own annotations
    pool: str | None = None  # simulated accuracies (`D1`, `graded:5`), or `all`, `contrast:20`, `per-item:3` of its own
    regime: Any = None  # `sparse` or `shared`
    items: int | None = None  # how many training and test items, of each benchmark; None for all
    test_items: int | None = None
    gold_apart: int | None = None  # gold items that the model is fitted to first, and that nothing else reads
    channel: str | None = None  # `MODULE:CLASS` or `FILE.py:CLASS`, in place of the method's own
    folder: Path | None = field(default=None, compare=False)  # where the benchmark's files are; None for the hub

    @property
    def origin(self) -> str:
        return self.benchmark

    def describe(self) -> dict[str, Any]:
        described = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        file = (self.channel or "").rpartition(":")[0]
        if file.endswith(".py"):  # a changed formula is another cell
            digest = hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
            described["channel"] = f"{Path(str(self.channel)).name} {digest}"
        return described

    def fingerprint(self) -> str:
        return _fingerprint(self.benchmark, self.folder)

    def __str__(self) -> str:
        channel = (self.channel or "").rpartition(":")[2]
        return " ".join(word for word in (self.benchmark, self.noise, self.pool, self.regime, channel) if word)

    def load(self, method: str, seed: int) -> CellTables:
        """The same annotations for every method of a configuration; for the oracle, the items of these with gold."""
        channel = None if self.channel is None else load_channel(self.channel)
        needs_gold = METHODS[method].needs_gold
        names = self.benchmark.split(JOINED)
        parts = [_load(name, self.folder) for name in names]
        test = join(names, [_some(_with_gold(part.test, part.name), self.test_items) for part in parts])
        instructions = {part.instruction for part in parts}
        instruction = instructions.pop() if len(instructions) == 1 else None
        if self.noise is None and (not needs_gold or self.pool is not None):
            table = self._own_annotations(parts[0], needs_gold, seed)
            return CellTables(table, test, instruction=instruction, channel=channel)
        items = join(names, [_some(_with_gold(part.train, part.name), self.items) for part in parts])
        items, apart = (items, None) if self.gold_apart is None else _kept_apart(items, self.gold_apart)
        accuracies = None if needs_gold else _accuracies(self.pool or "", len(parts), len(items.tasks))
        if accuracies is not None:
            items = simulate(items, accuracies, noise=self.noise, regime=self.regime, seed=seed)
        return CellTables(items, test, accuracies, instruction, apart, channel)

    def _own_annotations(self, part: Benchmark, needs_gold: bool, seed: int) -> Annotations:
        """The benchmark's own annotations, by pool, number of items and regime; for the oracle, those with gold."""
        table, (kind, *sizes) = part.train, str(self.pool or "all").split(":")
        numbers = {"all": [0], "contrast": [1, 2], "per-item": [1]}
        if len(sizes) not in numbers.get(kind, []) or not all(size.isdigit() and int(size) for size in sizes):
            raise RealmError(f"pool {self.pool}: must be `all`, `contrast:20`, `contrast:20:10` or `per-item:3`.")
        if not table.n_annotations:
            raise RealmError(f"{self.benchmark} has no annotations of its own: give a noise and a pool.")
        if kind == "contrast":
            table = table.contrast(int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else MIN_ANNOTATIONS)
        table = _some(table.compact(), self.items).compact()
        if needs_gold:
            return _with_gold(table, f"{part.name}, pool {self.pool}")
        if kind == "per-item":
            table = drawn_per_item(table, int(sizes[0]), seed)
        return table.sparse(seed) if self.regime == "sparse" else table


def _kept_apart(items: Annotations, n: int) -> tuple[Annotations, Annotations]:
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


def drawn_per_item(table: Annotations, n: int, seed: int) -> Annotations:
    """At most n annotations of each item, drawn without replacement."""
    draws = np.random.default_rng([seed, DRAWING]).random(table.n_annotations)
    order = np.lexsort((draws, table.item))
    place = np.empty(table.n_annotations, dtype=np.int64)
    place[order] = np.arange(table.n_annotations) - table.offsets[table.item[order]]
    return table.keep_annotations(place < n).compact()


def _accuracies(pool: str, benchmarks: int, tasks: int) -> npt.NDArray[np.float64]:
    """Accuracies (annotators, tasks). Over several benchmarks D1, D2 and D3 are the paper's annotator x task matrices:
    annotator i is reliable on task i only (D1), on every task but i (D2), or 0.9, 0.5 and 0.1 in turn (D3)."""
    if benchmarks == 1 or pool not in POOLS:
        return np.repeat(np.array(read_pool(pool))[:, None], tasks, axis=1)
    if pool == "D3":
        return np.stack([np.roll(POOLS["D3"], annotator) for annotator in range(tasks)])
    return np.where(np.eye(tasks, dtype=bool) == (pool == "D1"), HIGH, LOW)


def join(names: Sequence[str], tables: Sequence[Annotations]) -> Annotations:
    """The items of several benchmarks of one task each in one table, without annotations."""
    if len(tables) == 1:
        return tables[0]
    if several := [name for name, table in zip(names, tables, strict=True) if len(table.tasks) > 1]:
        raise RealmError(f"{several[0]} has several tasks: join one of them, such as {several[0]}/TASK.")
    item_tasks = np.repeat(np.arange(len(tables)), [table.n_items for table in tables])
    columns = ("ids", "texts", "contexts", "options")
    parts = [{name: getattr(table.items, name) for name in columns} for table in tables]
    known = [pa.table({name: column for name, column in part.items() if column is not None}) for part in parts]
    joined = pa.concat_tables(known, promote_options="default")
    whole: dict[str, Any] = {name: joined[name].combine_chunks() for name in joined.column_names}
    tasks = tuple(replace(table.tasks[0], name=name) for name, table in zip(names, tables, strict=True))
    items = Items(**{**dict.fromkeys(columns), **whole}, item_tasks=item_tasks.astype(np.int32), tasks=tasks)
    gold = np.concatenate([table.gold for table in tables if table.gold is not None])
    empty = np.zeros(0, dtype=np.int32)
    return Annotations(items=items, annotators=(), item=empty, annotator=empty, label=empty, gold=gold)


@lru_cache(maxsize=8)
def _load(name: str, folder: Path | None) -> Benchmark:
    """A benchmark, or one task of it: `cebab/food`."""
    whole, _, task = name.partition("/")
    benchmark = load_benchmark(whole, folder)
    if not task:
        return benchmark
    train, test = _one_task(benchmark.train, task), _one_task(benchmark.test, task)
    return replace(benchmark, name=name, train=train, test=test)


def _one_task(table: Annotations, name: str) -> Annotations:
    part = table.select(tasks=[name])
    tasks = tuple(task for task in table.tasks if task.name == name)
    return replace(part, items=replace(part.items, tasks=tasks, item_tasks=np.zeros(part.n_items, dtype=np.int32)))


@lru_cache(maxsize=64)
def _fingerprint(benchmark: str, folder: Path | None) -> str:
    """A hash of everything a benchmark (or several joined by +) holds: tables, gold and instruction."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (_load(name, folder) for name in benchmark.split(JOINED)):
        for text in (part.train.fingerprint(gold=True), part.test.fingerprint(gold=True), part.instruction or ""):
            digest.update(text.encode())
    return digest.hexdigest()


# -------------------------------------------------------------------- a channel of one's own


@lru_cache
def load_channel(name: str) -> type[Channel]:
    """The class that `MODULE:CLASS` or `FILE.py:CLASS` names."""
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(f"channel_in_{Path(place).stem}", place)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module  # so that its dataclasses find it
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        found = getattr(module, attribute)
    except (ImportError, OSError, SyntaxError, AttributeError, ValueError) as error:
        raise RealmError(f"channel {name}: {error}. Write MODULE:CLASS or FILE.py:CLASS.") from None
    if not (isinstance(found, type) and issubclass(found, Channel)):
        raise RealmError(f"channel {name}: is no subclass of realm.Channel.")
    return found
