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

from realm import METHODS, Annotations, Channel, Items, RealmError, Task, simulate
from realm.comparison.cells import Cell, CellTables
from realm.comparison.simulation import POOLS, read_pool, task_matrix
from realm_lab.datasets import Benchmark, load_benchmark, named_task
from realm_lab.datasets.base import MIN_ANNOTATIONS

JOINED = "+"
"""Between benchmarks that are trained on jointly, as several tasks."""
SHUFFLE_SEED = 0
"""Of the order in which a smaller variant selects its items: the same for every cell, so that they share caches."""
DRAWING = 1
"""Beside the seed, of the stream that draws annotations: not the one that decides which of them is kept by `sparse`."""
OF_ANNOTATIONS = ("annotator", "label", "weight")
"""Columns that a table of items with gold does not have."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OwnBenchmark:
    """Tables of a person's own as a benchmark, an entry of `benchmarks` in a spec.

    | field | meaning |
    |---|---|
    | train, test | files of annotations and of items with gold |
    | columns | names of the columns item, task, text, context, annotator, label, gold, weight, options |
    | labels | the label set in its order; None for the labels that occur, sorted |
    | instruction | the sentence in front of every prompt |
    | min_annotations | annotations that an annotator needs to be ranked for the pool `contrast:m` |
    | annotated | False for items with gold alone, whose annotators are simulated |
    | digest | a hash of both files and of how they are read |
    """

    name: str
    train: Path
    test: Path
    columns: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] | None = None
    instruction: str | None = None
    min_annotations: int = MIN_ANNOTATIONS
    annotated: bool = True
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        how = (self.columns, self.labels, self.instruction, self.min_annotations, self.annotated)
        digest = hashlib.blake2b(repr(how).encode(), digest_size=8)
        for file in (self.train, self.test):
            digest.update(hashlib.blake2b(file.read_bytes()).digest())
        object.__setattr__(self, "digest", digest.hexdigest())

    def load(self) -> Benchmark:
        columns: dict[str, Any] = dict(self.columns)
        of_items = {name: value for name, value in columns.items() if name not in OF_ANNOTATIONS}
        labels: dict[str, Any] = {} if self.labels is None else {"labels": self.labels}
        if self.annotated:
            train = Annotations.read(self.train, **columns, **labels)
        else:
            train = Annotations.read_test(self.train, **of_items, **labels)
        test = Annotations.read_test(self.test, tasks=train.tasks, optional=("item",), **of_items)
        train, test = (named_task(table, self.name) for table in (train, test))
        how: dict[str, Any] = {"min_annotations": self.min_annotations, "instruction": self.instruction}
        return Benchmark(self.name, train, test, **how)


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
    | channel | a channel that is no setting's choice, `MODULE:CLASS` or `FILE.py:CLASS`; None for the method's own |
    | folder | where the benchmark's files are; None for the hub |
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
    channel: str | None = None
    folder: Path | None = field(default=None, compare=False)
    own: tuple[OwnBenchmark, ...] = field(default=(), compare=False)

    @property
    def origin(self) -> str:
        return self.benchmark

    def describe(self) -> dict[str, Any]:
        described = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        # a file of a person's own changes: another content is another cell
        if self.own:
            described["files"] = JOINED.join(each.digest for each in self.own)
        if (channel := described.pop("channel")) is not None:
            described |= {"channel": Path(channel).name, "channel_source": _source_hash(channel)}
        return described

    def fingerprint(self) -> str:
        return _fingerprint(self.benchmark, self.folder, self.own)

    def __str__(self) -> str:
        channel = (self.channel or "").rpartition(":")[2]
        return " ".join(word for word in (self.benchmark, self.noise, self.pool, self.regime, channel) if word)

    def load(self, method: str, seed: int) -> CellTables:
        """The same annotations for every method of a configuration; for the oracle, the items of these with gold."""
        channel = None if self.channel is None else load_channel(self.channel)
        names = self.benchmark.split(JOINED)
        parts = [_load(name, self.folder, self.own) for name in names]
        test = join(names, [_some(_with_gold(part.test, part.name), self.test_items) for part in parts])
        instructions = {part.instruction for part in parts}
        instruction = instructions.pop() if len(instructions) == 1 else None
        needs_gold = METHODS[method].needs_gold
        if self.noise is None and (not needs_gold or self.pool is not None):
            table = self._own_annotations(parts[0], method, seed)
            return CellTables(table, test, instruction=instruction, channel=channel)
        items = join(names, [_some(_with_gold(part.train, part.name), self.items) for part in parts])
        items, apart = (items, None) if self.gold_apart is None else kept_apart(items, self.gold_apart)
        accuracies = None if needs_gold else simulated_pool(self.pool or "", len(parts), len(items.tasks))
        if accuracies is not None:
            how: dict[str, Any] = {"noise": self.noise, "regime": self.regime}
            items = simulate(items, accuracies, seed=seed, **how)
        return CellTables(items, test, accuracies, instruction, apart, channel)

    def _own_annotations(self, part: Benchmark, method: str, seed: int) -> Annotations:
        """The benchmark's own annotations, by pool, number of items and regime; for the oracle, those with gold."""
        needs_gold = METHODS[method].needs_gold
        if not part.train.n_annotations:
            if needs_gold and self.pool == "all":
                return _some(_with_gold(part.train, part.name), self.items)
            raise RealmError(f"{self.benchmark} has no annotations of its own: give a noise and a pool.")
        contrast, least, per_item = own_pool(self.pool or "all")
        try:
            table = part.train
            table = table.contrast(contrast, least or part.min_annotations) if contrast else table.compact()
        except RealmError as error:
            raise RealmError(f"pool {self.pool} of {self.benchmark}: {error}") from None
        table = _some(table, self.items).compact()
        if needs_gold:
            return _with_gold(table, f"{part.name}, pool {self.pool}")
        if per_item:
            table = drawn_per_item(table, per_item, seed)
        return table.sparse(seed) if self.regime == "sparse" else table


DATA_FIELDS = tuple(each.name for each in fields(BenchmarkData))


def benchmark_cell(model: str, method: str, seed: int, steps: int, **more: Any) -> Cell:
    """A cell of the lab. `more` are fields of `BenchmarkData`, which becomes its data, and of `Cell`."""
    data = BenchmarkData(**{name: more.pop(name) for name in DATA_FIELDS if name in more})
    if METHODS[method].needs_gold:
        pool = oracle_pool(data.pool) if data.noise is None else None
        data = replace(data, noise=None, pool=pool, regime=None)
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


@lru_cache
def _source_hash(channel: str) -> str:
    """A hash of the file that a channel's class is in: a changed formula is another cell."""
    file = sys.modules[load_channel(channel).__module__].__file__
    return hashlib.blake2b(Path(file or "").read_bytes(), digest_size=8).hexdigest()


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


def own_pool(pool: str) -> tuple[int, int | None, int]:
    """Read `all`, `contrast:m`, `contrast:m:min_annotations` or `per-item:n`, of a benchmark's own annotations.

    Returns m (0 for everybody's), how many annotations somebody needs for it (None for the benchmark's own number), and
    n (0 for all).
    """
    name, *words = pool.split(":")
    sizes = [int(word) for word in words if word.isdigit()]
    if len(sizes) == len(words) and all(sizes):
        if name == "all" and not sizes:
            return 0, None, 0
        if name == "contrast" and 1 <= len(sizes) <= 2:
            return sizes[0], sizes[1] if len(sizes) == 2 else None, 0
        if name == "per-item" and len(sizes) == 1:
            return 0, None, sizes[0]
    raise RealmError(
        f"pool {pool}: must be, of a benchmark's own annotators, `all`, `contrast:20`, `contrast:20:10` (those with 10 "
        "annotations or more), or `per-item:3` (three labels of each item). With a noise it may be D1, D2, D3, "
        "graded:N, one-reliable:N or accuracies."
    )


def oracle_pool(pool: str | None) -> str | None:
    """The pool whose items an oracle trains on: those of `per-item:n` are everybody's."""
    return "all" if pool and pool.startswith("per-item") else pool


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
    columns = ("ids", "texts", "contexts", "options")
    parts = [{name: getattr(table.items, name) for name in columns} for table in tables]
    joined = pa.concat_tables(
        [pa.table({name: column for name, column in part.items() if column is not None}) for part in parts],
        promote_options="default",
    )
    whole: dict[str, Any] = {name: joined[name].combine_chunks() for name in joined.column_names}
    items = Items(
        **{**dict.fromkeys(columns), **whole},
        item_tasks=np.concatenate(item_tasks).astype(np.int32),
        tasks=tuple(tasks),
    )
    gold = np.concatenate([table.gold for table in tables if table.gold is not None])
    empty = np.zeros(0, dtype=np.int32)
    return Annotations(items=items, annotators=(), item=empty, annotator=empty, label=empty, gold=gold)


@lru_cache(maxsize=8)
def _load(name: str, folder: Path | None, own: tuple[OwnBenchmark, ...] = ()) -> Benchmark:
    """A benchmark, or one task of it: `cebab/food`."""
    whole, _, task = name.partition("/")
    mine = next((each for each in own if each.name == whole), None)
    benchmark = load_benchmark(whole, folder) if mine is None else mine.load()
    if not task:
        return benchmark
    train, test = _one_task(benchmark.train, task), _one_task(benchmark.test, task)
    return replace(benchmark, name=name, train=train, test=test)


def _one_task(table: Annotations, name: str) -> Annotations:
    part = table.select(tasks=[name])
    tasks = tuple(task for task in table.tasks if task.name == name)
    return replace(part, items=replace(part.items, tasks=tasks, item_tasks=np.zeros(part.n_items, dtype=np.int32)))


@lru_cache(maxsize=64)
def _fingerprint(benchmark: str, folder: Path | None, own: tuple[OwnBenchmark, ...] = ()) -> str:
    """A hash of everything a benchmark (or several joined by +) holds: tables, gold, instruction and pool size."""
    digest = hashlib.blake2b(digest_size=8)
    for name in benchmark.split(JOINED):
        part = _load(name, folder, own)
        for table in (part.train, part.test):
            digest.update(table.fingerprint(gold=True).encode())
        digest.update(repr((part.min_annotations, part.instruction)).encode())
    return digest.hexdigest()
