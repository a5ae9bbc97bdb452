"""A spec: what to run, as YAML. `load_spec` reads and checks it, `expand` gives its cells.

    name: my-grid                      # the file's name
    title: Noise types under D1 and D3
    settings: {learning_rate: 5.0e-5}  # of `RealmConfig`, shared by all cells
    choose: {realm: {expertise_learning_rate: [0.1, 0.5, 1.0]}}
    grid:                              # one mapping or several, whose cells are put together
      - {model: minilm-l6, benchmark: [obqa, piqa], noise: uniform, pool: [D1, D3], regime: sparse,
         method: [realm, noisy, oracle], seeds: 5, steps: 200}

With `extends: NAME` a spec takes over the settings and the grid of another and writes only what differs. Every mistake
is a `RealmError` that names the file, the key and what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from realm import METHODS, PAPER, RealmError
from realm.comparison.cells import Cell, combinations
from realm.comparison.simulation import Noise, Regime
from realm.lab.benchmark_cells import JOINED, benchmark_cell, own_pool, simulated_pool
from realm.lab.datasets import NAMES
from realm.lab.own_benchmarks import OwnBenchmark, read_own_benchmarks
from realm.lab.spec_settings import EXPERTISE, PAPER_SETTING, check_settings

SPECS = Path(__file__).parent / "specs"
"""The specs that come with the package."""

TEXTS = ("title", "paper", "table", "extends")
COUNTS = ("items", "test_items", "gold_apart", "curve")
AXES = ("model", "benchmark", "noise", "pool", "regime", "method", "steps")
SETTINGS = ("settings", "by_benchmark", "choose")
SPEC_KEYS = ("name", *TEXTS, "benchmarks", *SETTINGS, *COUNTS, "grid")
GRID_KEYS = (*AXES, "seeds", *SETTINGS, *COUNTS)
REQUIRED = ("model", "benchmark", "regime", "method", "seeds")
VALUES: dict[str, tuple[str, ...]] = {
    "method": tuple(METHODS),
    "benchmark": NAMES,
    "noise": get_args(Noise),
    "regime": get_args(Regime),
}
"""The values that an axis may have, where not any is allowed."""


@dataclass(frozen=True)
class Spec:
    """A checked spec. `paper` names the table it reproduces, `table` its layout, `benchmarks` are its own by name."""

    name: str
    title: str
    path: Path
    paper: str | None = None
    table: str | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    grids: tuple[Mapping[str, Any], ...] = ()
    benchmarks: Mapping[str, OwnBenchmark] = field(default_factory=dict)


def load_spec(name_or_path: str | Path) -> Spec:
    """Read a spec and check it: one that comes with the package by its name, any other by its path."""
    spec = read_spec(name_or_path)
    expand(spec)
    return spec


def read_spec(name_or_path: str | Path) -> Spec:
    """Read a spec without checking the values in its grids: for one that is known to be right."""
    path = _locate(name_or_path)
    content = _read(path)
    return Spec(
        name=path.stem,
        title=content.get("title") or path.stem,
        path=path,
        paper=content.get("paper"),
        table=content.get("table"),
        shared={key: content[key] for key in (*SETTINGS, *COUNTS) if key in content},
        grids=tuple(content["grid"]),
        benchmarks=content["benchmarks"],
    )


def packaged_specs() -> list[str]:
    """The names of the specs that come with the package, the paper's before those at budgets of two cores (`-real`)."""
    return sorted((path.stem for path in SPECS.glob("*.yaml")), key=lambda name: (name.endswith("-real"), name))


def expand(
    spec: Spec, data: Path | None = None, offline: bool = False, report: Callable[[str], None] | None = None
) -> list[Cell]:
    """The cells of a spec, each once, in the order of the spec.

    `data` and `offline` tell where the benchmarks come from (see `load_benchmark`) and are needed for training only.
    `report` is called with a message about cells that do not apply.
    """
    return list(dict.fromkeys(_cells(spec, data, offline, report)))


def count_cells(spec: Spec) -> int:
    """How many cells a spec has, without the ids, which need the trainer's defaults and with them torch."""
    return len({json.dumps(specified(cell), sort_keys=True, default=str) for cell in _cells(spec)})


def specified(cell: Cell) -> dict[str, Any]:
    """What a spec says of a cell, whatever the defaults are."""
    return {**cell.fields(), "settings": dict(cell.settings), "choose": dict(cell.choose)}


def _cells(
    spec: Spec, data: Path | None = None, offline: bool = False, report: Callable[[str], None] | None = None
) -> Iterator[Cell]:
    """The cells of all grids, without those that do not apply."""
    for number, content in enumerate(spec.grids, start=1):
        where = f"{spec.path}: grid" if len(spec.grids) == 1 else f"{spec.path}: grid {number}"
        left_out: dict[str, int] = {}
        for cell in _Grid(where, spec, content).cells(data, offline):
            if METHODS[cell.method].aggregator and cell.data.describe()["regime"] == "sparse":
                left_out[cell.method] = left_out.get(cell.method, 0) + 1
            else:
                yield cell
        for method, count in left_out.items():
            if report is not None:
                report(f"{method}: {count} cells left out: it needs several annotations per item, sparse keeps one")


# -------------------------------------------------------------------- reading


def _locate(name_or_path: str | Path, folder: Path = Path()) -> Path:
    """The file of a spec of the package, or of a path that is relative to the folder."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        return folder / path
    path = SPECS / f"{name_or_path}.yaml"
    if not path.is_file():
        raise RealmError(
            f"no such spec: {name_or_path}. `realm lab list` names those that come with the package; a spec of "
            "your own is given by its path, ending in .yaml."
        )
    return path


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The content of a spec, with that of the spec it extends; `grid` is a list."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RealmError(f"{path}: the spec cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise RealmError(f"{path} is not readable YAML: {error}") from None
    if not isinstance(content, dict):
        raise RealmError(f"{path}: a spec is `key: value` lines; see the page on the lab.")
    _check_keys(str(path), content, SPEC_KEYS)
    if (name := content.get("name", path.stem)) != path.stem:
        raise RealmError(f"{path}: name: must be that of the file, {path.stem}, not {name}.")
    for key in TEXTS:
        if content.get(key) is not None and not isinstance(content[key], str):
            raise RealmError(f"{path}: {key}: must be text, not {content[key]!r}.")
    content["benchmarks"] = read_own_benchmarks(path, content.get("benchmarks"), NAMES)
    extends = content.get("extends")
    grids = content.get("grid", {} if extends else None)
    grids = grids if isinstance(grids, list) else [grids]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise RealmError(f"{path}: grid: must be `key: value` lines, or a list of such; see the page on the lab.")
    if not extends:
        return {**content, "grid": grids}
    base_path = _locate(extends, path.parent)
    if base_path in (path, *extended_by):
        raise RealmError(f"{path}: extends: {extends} extends this spec itself.")
    base = _read(base_path, (path, *extended_by))
    if len(base["grid"]) > 1:
        raise RealmError(f"{path}: extends: {extends} has several grids; extend a spec with one.")
    settings = {key: base[key] for key in (*SETTINGS, *COUNTS) if key in base}
    if isinstance(content.get("settings"), dict):
        content["settings"] = {**(base.get("settings") or {}), **content["settings"]}
    content["benchmarks"] = {**base["benchmarks"], **content["benchmarks"]}
    return {**settings, **content, "grid": [{**base["grid"][0], **grid} for grid in grids]}


# -------------------------------------------------------------------- one grid


class _Grid:
    """One mapping under `grid`, with what the spec shares."""

    def __init__(self, where: str, spec: Spec, content: Mapping[str, Any]) -> None:
        _check_keys(where, content, GRID_KEYS)
        self.where, self.content, self.spec = where, content, spec

    def cells(self, data: Path | None, offline: bool) -> list[Cell]:
        axes = {name: self._axis(name) for name in AXES}
        settings = check_settings(f"{self.spec.path}: settings", self.spec.shared.get("settings"))
        settings |= check_settings(f"{self.where}: settings", self.content.get("settings"))
        budget = settings.pop("max_steps", ())
        axes["steps"] = axes["steps"] or budget
        for name in REQUIRED:
            if name not in self.content:
                raise RealmError(f"{self.where}: {name} is missing; write `{name}: ...`.")
        if not axes["steps"]:
            raise RealmError(f"{self.where}: steps is missing; write `steps: 200`, or max_steps in the settings.")
        axes["noise"] = axes["noise"] or (None,)
        axes["pool"] = axes["pool"] or (None,)
        choose, by_benchmark, seeds = self._choose(), self._by_benchmark(), self._seeds()
        cells = []
        for values in combinations(axes):
            differing = by_benchmark.get(values["benchmark"], {})
            if both := sorted(set(settings) & set(differing)):
                raise RealmError(f"{self.where}: {both[0]} is in `settings` and in `by_benchmark`; leave it in one.")
            for cell_settings in combinations({**settings, **differing}):
                arguments = self._arguments(values, cell_settings, choose.get(values["method"], {}))
                own = tuple(self.spec.benchmarks[name] for name in self._names(values) if name in self.spec.benchmarks)
                place: dict[str, Any] = {"folder": data, "offline": offline, "own": own}
                cells += [benchmark_cell(**arguments, seed=seed, **place) for seed in seeds]
        return cells

    @staticmethod
    def _names(values: Mapping[str, Any]) -> list[str]:
        """The benchmarks of a cell, without their tasks."""
        return [name.partition("/")[0] for name in values["benchmark"].split(JOINED)]

    def _arguments(
        self, axes: dict[str, Any], settings: dict[str, Any], choose: dict[str, tuple[Any, ...]]
    ) -> dict[str, Any]:
        """Arguments of `benchmark_cell`, but for the seed and the place of the data."""
        if settings.pop(PAPER_SETTING, False):
            settings = {**{name: value for name, value in PAPER.items() if name not in choose}, **settings}
        shared_tasks = settings.pop(EXPERTISE, None) == "scalar"
        for name, value in (("expertise_update", "gradient"), ("channel", "uniform")):
            if shared_tasks and (other := settings.get(name, value)) != value:
                raise RealmError(f"{self.where}: expertise: scalar cannot be combined with {name}: {other}.")
        if both := sorted(set(settings) & set(choose)):
            raise RealmError(
                f"{self.where}: {both[0]} is in `settings` or `by_benchmark` and in `choose`; leave it in one "
                "(`choose: {}` in a grid turns choosing off)."
            )
        if axes["noise"] is None and axes["pool"] is None and JOINED not in axes["benchmark"]:
            axes = {**axes, "pool": "all"}
        self._check_pool(axes)
        counts: dict[str, Any] = {name: self._count(name) for name in COUNTS}
        return {**axes, **counts, "settings": settings, "choose": choose, "shared_tasks": shared_tasks}

    # ---------------------------------------------------------------- the values of a key

    def _axis(self, name: str) -> tuple[Any, ...]:
        """The values of a key, each once; none where the key is absent."""
        if name not in self.content:
            return ()
        values, where = self.content[name], f"{self.where}: {name}"
        values = values if isinstance(values, list) else [values]
        if not values:
            raise RealmError(f"{where}: the list is empty; write a value or leave the key out.")
        for value in values:
            if name == "steps":
                _check_whole(where, value)
            elif value is not None or name not in ("noise", "pool"):
                self._check_value(where, name, value)
        return tuple(dict.fromkeys(values))

    def _check_value(self, where: str, name: str, value: Any) -> None:
        """Refuse a value that an axis may not have."""
        if not isinstance(value, str) or not value:
            raise RealmError(f"{where}: must be text, not {value!r}.")
        words = value.split(JOINED) if name == "benchmark" else [value]
        allowed = (*VALUES.get(name, ()), *(self.spec.benchmarks if name == "benchmark" else ()))
        for word in words:
            if allowed and word.partition("/")[0] not in allowed:
                raise RealmError(f"{where}: {word}: must be one of {', '.join(allowed)}.")
        if len(set(words)) < len(words):
            raise RealmError(f"{where}: {value}: names a benchmark twice.")

    def _seeds(self) -> list[int]:
        seeds, where = self.content["seeds"], f"{self.where}: seeds"
        if not isinstance(seeds, list):
            return list(range(_check_whole(where, seeds)))
        return list(dict.fromkeys(_check_whole(where, seed, least=0) for seed in seeds))

    def _own_or_shared(self, key: str) -> tuple[Any, str]:
        """The value of a key, a grid's own in place of the spec's, and where it stands."""
        if key in self.content:
            return self.content[key], f"{self.where}: {key}"
        return self.spec.shared.get(key), f"{self.spec.path}: {key}"

    def _count(self, name: str) -> int | None:
        value, where = self._own_or_shared(name)
        return None if value is None else _check_whole(where, value)

    def _choose(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each method the settings to choose and their values."""
        content, where = self._own_or_shared("choose")
        if not isinstance(content or {}, Mapping):
            raise RealmError(
                f"{where}: must be like {{realm: {{expertise_learning_rate: [0.1, 0.5]}}}}, not {content!r}."
            )
        _check_keys(where, content or {}, VALUES["method"])
        choose = {name: check_settings(f"{where}: {name}", lists) for name, lists in (content or {}).items()}
        if refused := [
            name for lists in choose.values() for name in lists if name in ("max_steps", EXPERTISE, PAPER_SETTING)
        ]:
            raise RealmError(f"{where}: {refused[0]} cannot be chosen by trials; write it in the grid.")
        return choose

    def _by_benchmark(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each benchmark the settings that it has for itself."""
        content, where = self._own_or_shared("by_benchmark")
        content = content or {}
        if not isinstance(content, Mapping) or not all(isinstance(values, Mapping) for values in content.values()):
            raise RealmError(f"{where}: must be like {{train_layers: {{arc: 2, obqa: 4}}}}, not {content!r}.")
        settings: dict[str, dict[str, tuple[Any, ...]]] = {}
        for name, values in content.items():
            if name == "max_steps":
                raise RealmError(f"{where}: {name} cannot differ by benchmark; write `steps` in grids of their own.")
            for benchmark, value in values.items():
                self._check_value(f"{where}: {name}", "benchmark", benchmark)
                settings.setdefault(benchmark, {}).update(check_settings(where, {name: value}))
        return settings

    def _check_pool(self, axes: Mapping[str, Any]) -> None:
        noise, pool, joined = axes["noise"], axes["pool"], axes["benchmark"].count(JOINED) + 1
        if METHODS[axes["method"]].needs_gold and (noise is not None or pool is None):
            return
        try:
            if noise is not None and pool is not None:
                simulated_pool(pool, joined, joined)
            elif noise is not None:
                raise RealmError("pool is missing; write `pool: D1` or another pool of simulated annotators.")
            elif joined > 1:
                raise RealmError(f"noise is missing; the annotators of {axes['benchmark']} can only be simulated.")
            else:
                own_pool(pool)
        except RealmError as error:
            raise RealmError(f"{self.where}: {error}") from None


def _check_whole(where: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RealmError(f"{where}: must be a whole number of {least} or more, not {value!r}.")
    return value


def _check_keys(where: str, content: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if unknown := [str(key) for key in content if key not in keys]:
        raise RealmError(f"{where}: unknown key {unknown[0]}. There are: {', '.join(keys)}.")
