"""A spec: what to train, as YAML. `load_spec` reads and checks it, `expand` gives its cells.

    title: Two benchmarks under one reliable annotator of three
    model: minilm-l6                   # every key that takes one value takes a list, too
    noise: uniform
    regime: sparse
    seeds: 5
    settings: {learning_rate: 5.0e-5}
    grid:                              # several grids, each with what it has for itself; may be left out
      - {benchmark: [obqa, piqa], pool: [D1, D3], method: [realm, noisy, oracle], steps: 200}
      - {benchmark: arc, pool: D1, method: [noisy, "my_channel.py:MyChannel"], steps: 400}

What stands beside `grid` is shared by all grids; with `extends: NAME` a spec takes over all keys of another but those
that it has itself (`settings` are put together). Every mistake is a `RealmError` with the file and the key.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from realm import METHODS, PAPER, RealmError
from realm.comparison.cells import Cell, combinations, deciding_settings
from realm.comparison.simulation import Noise, Regime
from realm_lab.cells import JOINED, OwnBenchmark, benchmark_cell, own_pool, simulated_pool
from realm_lab.datasets import NAMES

SPECS = Path(__file__).parent / "specs"
"""The specs that come with the package."""
AXES = ("model", "benchmark", "noise", "pool", "regime", "method", "steps")
COUNTS = ("items", "test_items", "gold_apart", "curve")
GRID_KEYS = (*AXES, "seeds", "settings", "by_benchmark", "choose", *COUNTS)
SPEC_KEYS = ("title", "paper", "table", "extends", "benchmarks", "grid", *GRID_KEYS)
VALUES: dict[str, tuple[str, ...]] = {"noise": get_args(Noise), "regime": get_args(Regime)}
"""The values that an axis may have, where not any is allowed."""
RIVALS = {
    "crowd-layer": "realm_lab.channels.crowd_layer:CrowdLayerChannel",
    "trace-confusion": "realm_lab.channels.trace_confusion:TraceConfusionChannel",
}
"""Published methods that are `realm` with another channel."""
RIVAL_SETTINGS = {"objective": "paper", "expertise_update": "gradient"}
"""How their authors train them, as far as one training loop allows."""
OWNED = {
    "max_steps": "steps: 200", "num_train_epochs": "steps: 200", "seed": "seeds: 5", "method": "method: realm",
    "eval_steps": "curve: 20", "use_gold": "method: oracle", "experts": "method: oracle",
}  # fmt: skip
"""Settings of `RealmConfig` that a spec has another key for, and how that is written."""


@dataclass(frozen=True)
class Spec:
    """A checked spec. `paper` names the tables of the paper that it reproduces, `table` its layout."""

    name: str
    title: str
    path: Path
    grids: tuple[Mapping[str, Any], ...]
    paper: str | None = None
    table: str = "rivals"
    benchmarks: Mapping[str, OwnBenchmark] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """How it is named on the command line."""
        return self.name if self.path.parent == SPECS else str(self.path)


def packaged_specs() -> list[str]:
    """The names of the specs that come with the package, the paper's before those at budgets of two cores (`-real`)."""
    return sorted((path.stem for path in SPECS.glob("*.yaml")), key=lambda name: (name.endswith("-real"), name))


def load_spec(name_or_path: str | Path) -> Spec:
    """Read a spec and check it: one that comes with the package by its name, any other by its path."""
    path = _locate(name_or_path)
    content = _read(path)
    grids = content.get("grid", {})
    grids = grids if isinstance(grids, list) else [grids]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise RealmError(f"{path}: grid: must be `key: value` lines, or a list of such.")
    shared = {key: content[key] for key in GRID_KEYS if key in content}
    whole = []
    for grid in grids:
        _check_keys(f"{path}: grid", grid, GRID_KEYS)
        settings = {**_mapping(path, shared, "settings"), **_mapping(path, grid, "settings")}
        whole.append({**shared, **grid, "settings": settings})
    own = {name: _own_benchmark(path, name, entry) for name, entry in _mapping(path, content, "benchmarks").items()}
    texts = {key: str(content[key]) for key in ("title", "paper", "table") if content.get(key) is not None}
    spec = Spec(**{"name": path.stem, "title": path.stem, **texts}, path=path, grids=tuple(whole), benchmarks=own)
    for _ in _cells(spec, None):
        pass
    return spec


def expand(spec: Spec, data: Path | None = None) -> list[Cell]:
    """The cells of a spec, each once, in the order of the spec.

    `data` tells where the benchmarks come from (see `load_benchmark`) and is needed for training only. Methods that
    train on aggregated labels have no cell under `sparse`, which keeps one annotation per item.
    """
    return list({key_of(cell): cell for cell in _cells(spec, data)}.values())


def key_of(cell: Cell) -> str:
    """A hash of what a spec says of a cell, whatever the defaults are."""
    said = {**cell.fields(), "settings": dict(cell.settings), "choose": dict(cell.choose)}
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# -------------------------------------------------------------------- reading


def _locate(name_or_path: str | Path, folder: Path = Path()) -> Path:
    """The file of a spec of the package, or of a path that is relative to the folder."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        return folder / path
    if not (path := SPECS / f"{name_or_path}.yaml").is_file():
        raise RealmError(
            f"no such spec: {name_or_path}. `python -m realm_lab list` names those that come with the package; a spec "
            "of your own is given by its path, ending in .yaml."
        )
    return path


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The content of a spec, with that of the spec it extends."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RealmError(f"{path}: the spec cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RealmError(f"{path} is not readable YAML: {error}") from None
    if not isinstance(content, dict):
        raise RealmError(f"{path}: a spec is `key: value` lines; see docs/lab.md.")
    _check_keys(str(path), content, SPEC_KEYS)
    if not (extends := content.pop("extends", None)):
        return content
    if (base_path := _locate(extends, path.parent)) in (path, *extended_by):
        raise RealmError(f"{path}: extends: {extends} extends this spec itself.")
    base = _read(base_path, (path, *extended_by))
    settings = {**_mapping(path, base, "settings"), **_mapping(path, content, "settings")}
    return {**base, **content, "settings": settings}


def _check_keys(where: str, content: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if unknown := [str(key) for key in content if key not in keys]:
        raise RealmError(f"{where}: unknown key {unknown[0]}. There are: {', '.join(keys)}.")


def _mapping(where: object, content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise RealmError(f"{where}: {key}: must be `name: value` pairs, not {value!r}.")
    return value


def _own_benchmark(path: Path, name: str, entry: Any) -> OwnBenchmark:
    """An entry of `benchmarks`, the key of which is the name that grids use; paths are relative to the spec."""
    where = f"{path}: benchmarks: {name}"
    if name in NAMES or JOINED in name or "/" in name:
        raise RealmError(f"{where}: a benchmark of the package has this name, or it has a + or /; choose another.")
    if not isinstance(entry, dict) or not {"train", "test"} <= set(entry):
        raise RealmError(f"{where}: must be like {{train: reviews.csv, test: reviews-test.csv}}.")
    known = tuple(each for each in OwnBenchmark.__dataclass_fields__ if each not in ("name", "digest"))
    _check_keys(where, entry, known)
    files = {key: path.parent / str(entry[key]) for key in ("train", "test")}
    for key, file in files.items():
        if not file.is_file():
            raise RealmError(f"{where}: {key}: there is no file {file}.")
    columns = tuple(sorted(_mapping(where, entry, "columns").items()))
    labels = None if entry.get("labels") is None else tuple(map(str, entry["labels"]))
    return OwnBenchmark(**{**entry, **files, "name": name, "columns": columns, "labels": labels})


# -------------------------------------------------------------------- cells


def _cells(spec: Spec, data: Path | None) -> Iterator[Cell]:
    """The cells of all grids, without those that do not apply."""
    for grid in spec.grids:
        for name in ("model", "benchmark", "regime", "method", "seeds", "steps"):
            if name not in grid:
                raise RealmError(f"{spec.path}: {name} is missing; write `{name}: ...`.")
        seeds = grid["seeds"] if isinstance(grid["seeds"], list) else range(_whole(spec, "seeds", grid["seeds"]))
        counts: dict[str, Any] = {name: _whole(spec, name, grid[name]) for name in COUNTS if grid.get(name) is not None}
        choose = {
            method: {name: tuple(_setting(spec, name, value) for value in values) for name, values in lists.items()}
            for method, lists in _mapping(spec.path, grid, "choose").items()
        }
        for axes in combinations({name: _list(spec, name, grid.get(name)) for name in AXES}):
            _check_axes(spec, axes)
            for settings in combinations(_settings(spec, grid, axes["benchmark"])):
                arguments = _arguments(spec, axes, settings, choose.get(axes["method"], {}))
                own = tuple(spec.benchmarks[name] for name in _benchmarks(axes) if name in spec.benchmarks)
                for seed in seeds:
                    cell = benchmark_cell(**arguments, **counts, seed=int(seed), folder=data, own=own)
                    if not (METHODS[cell.method].aggregator and axes["regime"] == "sparse"):
                        yield cell


def _arguments(
    spec: Spec, axes: dict[str, Any], settings: dict[str, Any], choose: dict[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Arguments of `benchmark_cell` for a combination of values, but for the seed and the data."""
    if settings.pop("paper", False):
        settings = {**{name: value for name, value in PAPER.items() if name not in choose}, **settings}
    shared_tasks = settings.pop("expertise", "matrix") == "scalar"
    method = axes["method"]
    if method not in METHODS:
        named = RIVALS.get(method) or (str(spec.path.parent / method) if ".py:" in method else method)
        axes = {**axes, "method": "realm", "channel": named}
        settings = {**settings, **(RIVAL_SETTINGS if method in RIVALS else {})}
    if axes["noise"] is None and axes["pool"] is None and JOINED not in axes["benchmark"]:
        axes = {**axes, "pool": "all"}
    if both := sorted(set(settings) & set(choose)):
        raise RealmError(f"{spec.path}: {both[0]} is in `settings` and in `choose`; leave it in one.")
    return {**axes, "settings": settings, "choose": choose, "shared_tasks": shared_tasks}


def _benchmarks(axes: Mapping[str, Any]) -> list[str]:
    """The benchmarks of a cell, without their tasks."""
    return [name.partition("/")[0] for name in axes["benchmark"].split(JOINED)]


def _list(spec: Spec, name: str, value: Any) -> list[Any]:
    """The values of a key, each once."""
    values = list(dict.fromkeys(value if isinstance(value, list) else [value]))
    if not values:
        raise RealmError(f"{spec.path}: {name}: the list is empty; write a value or leave the key out.")
    return [_whole(spec, name, each) for each in values] if name == "steps" else values


def _whole(spec: Spec, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RealmError(f"{spec.path}: {name}: must be a whole number of 1 or more, not {value!r}.")
    return value


def _check_axes(spec: Spec, axes: Mapping[str, Any]) -> None:
    """Refuse a value that an axis may not have, and a pool that does not go with the noise."""
    for name, value in axes.items():
        if name != "steps" and not (isinstance(value, str) or (value is None and name in ("noise", "pool"))):
            raise RealmError(f"{spec.path}: {name}: must be text, not {value!r}.")
    allowed = {**VALUES, "method": (*METHODS, *RIVALS), "benchmark": (*NAMES, *spec.benchmarks)}
    for name, values in allowed.items():
        for word in _benchmarks(axes) if name == "benchmark" else [axes[name]]:
            if word is not None and word not in values and not (name == "method" and ":" in word):
                raise RealmError(f"{spec.path}: {name}: {word}: must be one of {', '.join(values)}.")
    noise, pool, joined = axes["noise"], axes["pool"], len(_benchmarks(axes))
    if axes["method"] in METHODS and METHODS[axes["method"]].needs_gold and (noise or not pool):
        return
    try:
        if noise is not None:
            simulated_pool(pool or "", joined, joined)
        elif joined > 1:
            raise RealmError(f"noise is missing; the annotators of {axes['benchmark']} can only be simulated.")
        elif pool is not None:
            own_pool(pool)
    except RealmError as error:
        raise RealmError(f"{spec.path}: {error}") from None


def _settings(spec: Spec, grid: Mapping[str, Any], benchmark: str) -> dict[str, list[Any]]:
    """The settings of a benchmark's cells, each with its values."""
    given = dict(grid["settings"])
    for name, by_benchmark in _mapping(spec.path, grid, "by_benchmark").items():
        if not isinstance(by_benchmark, dict):
            raise RealmError(f"{spec.path}: by_benchmark: must be like {{train_layers: {{arc: 2, obqa: 4}}}}.")
        if benchmark in by_benchmark:
            given[name] = by_benchmark[benchmark]
    return {name: [_setting(spec, name, each) for each in _list(spec, name, value)] for name, value in given.items()}


def _setting(spec: Spec, name: str, value: Any) -> Any:
    """The value of a setting. Numbers get their type, so that `1` and `1.0` are the same cell; YAML reads 5e-5 as text.

    Whether the value is one that the setting may have is for `RealmConfig` to say.
    """
    defaults = {**deciding_settings(), "expertise": "matrix", "paper": False, "cache_gb": 0.0, "logging_steps": 0}
    if name in OWNED or name not in defaults:
        close = difflib.get_close_matches(name, defaults, n=1)
        hint = f"write `{OWNED[name]}` in the grid" if name in OWNED else f"did you mean {close[0]}?" if close else ""
        raise RealmError(f"{spec.path}: settings: {name}: no such setting of a cell. {hint}")
    if (isinstance(value, str) and name != "instruction") or (
        isinstance(defaults[name], float) and not isinstance(value, bool)
    ):
        with suppress(ValueError, TypeError):
            return float(value)
    return value
