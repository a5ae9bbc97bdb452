"""A spec: what to train, as YAML. `load_spec` reads it, `spec_rows` gives its configurations, `expand` its cells.

    title: Two benchmarks under one reliable annotator of three
    model: minilm-l6                   # every key that takes one value takes a list, too
    noise: uniform
    regime: sparse
    seeds: 5
    settings: {learning_rate: 5.0e-5}
    grid:                              # several grids, each with what it has for itself; may be left out
      - {benchmark: [obqa, piqa], pool: [D1, D3], method: [realm, noisy, oracle], steps: 200}
      - {benchmark: arc, pool: D1, method: [noisy, "my_channel.py:MyChannel"], steps: 400}

What stands beside `grid` is shared by all grids; with `extends: NAME` a spec takes over all keys of another spec of the
lab but those that it has itself (`settings` are put together).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from realm import METHODS, PAPER, RealmError
from realm.comparison.cells import Cell
from realm_lab.cells import BenchmarkData

SPECS = Path(__file__).parent / "specs"
"""The specs that come with the package."""
AXES = ("model", "benchmark", "noise", "pool", "regime", "steps", "method")
COUNTS = ("items", "test_items", "gold_apart")
GRID_KEYS = (*AXES, "seeds", "settings", "by_benchmark", "curve", *COUNTS)
SPEC_KEYS = ("title", "paper", "shows", "best", "extends", "grid", *GRID_KEYS)
WHOLE = ("steps", "seeds", "curve", *COUNTS)
NEEDED = ("model", "benchmark", "regime", "steps", "method", "seeds")
CHANNELS = "realm_lab.channels"
AS_PUBLISHED = {"objective": "paper", "expertise_update": "gradient"}
RIVALS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "realm-paper": (None, PAPER),
    "realm-scalar": (f"{CHANNELS}:OneNumberChannel", {}),
    "crowd-layer": (f"{CHANNELS}.crowd_layer:CrowdLayerChannel", AS_PUBLISHED),
    "trace-confusion": (f"{CHANNELS}.trace_confusion:TraceConfusionChannel", AS_PUBLISHED),
}
"""Methods that are `realm` with another channel or other settings: the paper's setting, one number per annotator, and
published rivals, trained as their authors train them as far as one training loop allows."""


@dataclass(frozen=True)
class Spec:
    """A spec. `paper` names the tables of the paper that it reproduces; its table `shows`, beside accuracies, what was
    learned of annotators (`expertise`), each of the jointly trained `tasks`, or `counts` of configurations; of the
    setting `best` it has the value with the highest test accuracy."""

    name: str
    title: str
    path: Path
    grids: tuple[Mapping[str, Any], ...]
    paper: str | None = None
    shows: tuple[str, ...] = ()
    best: str | None = None

    @property
    def word(self) -> str:
        """How it is named on the command line."""
        return self.name if self.path.parent == SPECS else str(self.path)


def packaged_specs() -> list[str]:
    """The names of the specs that come with the package, the paper's before those at budgets of two cores (`-real`)."""
    return sorted((path.stem for path in SPECS.glob("*.yaml")), key=lambda name: (name.endswith("-real"), name))


def load_spec(name_or_path: str | Path) -> Spec:
    """Read a spec: one that comes with the package by its name, any other by its path, which ends in `.yaml`."""
    path = Path(name_or_path) if str(name_or_path).endswith(".yaml") else SPECS / f"{name_or_path}.yaml"
    content = _read(path)
    grids = content.get("grid") or {}
    shared = {key: content[key] for key in GRID_KEYS if key in content}
    whole = []
    for grid in grids if isinstance(grids, list) else [grids]:
        _check_keys(path, grid, GRID_KEYS)
        settings = {**_mapping(path, shared, "settings"), **_mapping(path, grid, "settings")}
        whole.append({**shared, **grid, "settings": settings})
        _check_values(path, whole[-1])
    named: dict[str, Any] = {key: content[key] for key in ("title", "paper", "best") if key in content}
    named["shows"] = tuple(_listed(content.get("shows", [])))
    return Spec(**{"name": path.stem, "title": path.stem, **named}, path=path, grids=tuple(whole))


def _read(path: Path) -> dict[str, Any]:
    """The content of a spec, with that of the spec it extends."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RealmError(
            f"{path}: no spec that can be read ({error}). `python -m realm_lab list` names some."
        ) from None
    _check_keys(path, content, SPEC_KEYS)
    if not (extends := content.pop("extends", None)):
        return dict(content)
    base = _read(SPECS / f"{extends}.yaml")
    return {**base, **content, "settings": {**base.get("settings", {}), **content.get("settings", {})}}


def _check_keys(path: Path, content: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(content, dict):
        raise RealmError(f"{path}: must be `key: value` lines, or a list of such under `grid`; see docs/lab.md.")
    if unknown := [str(key) for key in content if key not in keys]:
        raise RealmError(f"{path}: unknown key {unknown[0]}. There are: {', '.join(keys)}.")


def _mapping(path: Path, content: Mapping[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(value := content.get(key) or {}, dict):
        raise RealmError(f"{path}: {key}: must be `name: value` pairs, not {value!r}.")
    return value


def _check_values(path: Path, grid: Mapping[str, Any]) -> None:
    """Refuse values of another type than their key has; what they mean is checked where they are read."""
    if absent := [name for name in NEEDED if name not in grid]:
        raise RealmError(f"{path}: {absent[0]} is missing; write `{absent[0]}: ...`.")
    if reserved := sorted({"seed", "method", "max_steps", "num_train_epochs"} & set(grid["settings"])):
        raise RealmError(f"{path}: settings: {reserved[0]}: a spec has `seeds`, `method` and `steps` for that.")
    for name, value in grid.items():
        values = _listed(value)
        if name in WHOLE and not all(type(each) is int and each >= (name == "steps") for each in values):
            raise RealmError(f"{path}: {name}: must be whole numbers, not {value!r}.")
        if name in AXES and name not in WHOLE and not all(isinstance(each, str | None) for each in values):
            raise RealmError(f"{path}: {name}: must be text, not {value!r}.")


def spec_rows(spec: Spec, data: Path | None = None) -> Iterator[dict[str, Any]]:
    """A row per configuration, method and seed, with its `cell`; a setting with several values is a field of its own.

    What does not read a field has the same cell in every configuration: an oracle reads neither noise nor regime.
    Methods that train on aggregated labels have no row under `sparse`, which keeps one annotation per item.
    """
    for grid in spec.grids:
        seeds = grid["seeds"] if isinstance(grid["seeds"], list) else range(grid["seeds"])
        for values in product(*(_listed(grid.get(name)) for name in AXES)):
            axes = dict(zip(AXES, values, strict=True))
            own = _mapping(spec.path, grid, "by_benchmark").items()
            by_benchmark = {name: of[axes["benchmark"]] for name, of in own if axes["benchmark"] in of}
            settings = {name: _listed(value) for name, value in {**grid["settings"], **by_benchmark}.items()}
            compared = [name for name, several in settings.items() if len(several) > 1]
            for chosen in product(*settings.values()):
                given = dict(zip(settings, chosen, strict=True))
                for seed in seeds:
                    cell = _cell(spec, grid, axes, given, seed, data)
                    if not (METHODS[cell.method].aggregator and axes["regime"] == "sparse"):
                        yield {**axes, **{name: given[name] for name in compared}, "seed": seed, "cell": cell}


def expand(spec: Spec, data: Path | None = None) -> list[Cell]:
    """The cells of a spec, each once. `data` is the folder of the benchmarks, needed for training only."""
    return list({key_of(row["cell"]): row["cell"] for row in spec_rows(spec, data)}.values())


def key_of(cell: Cell) -> str:
    """A hash of what a spec says of a cell, whatever the defaults are."""
    text = json.dumps({**cell.fields(), "settings": dict(cell.settings)}, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _listed(value: Any) -> list[Any]:
    return list(dict.fromkeys(value)) if isinstance(value, list) else [value]


def _cell(
    spec: Spec,
    grid: Mapping[str, Any],
    axes: Mapping[str, Any],
    settings: dict[str, Any],
    seed: int,
    folder: Path | None,
) -> Cell:
    method, channel = axes["method"], None
    given = {name: value for name, value in settings.items() if name != "paper"}
    settings = {**PAPER, **given} if settings.get("paper") else given
    if method in RIVALS:
        channel, own = RIVALS[method]
        settings, method = {**own, **settings}, "realm"
    elif ":" in method:
        channel = str(spec.path.parent / method) if ".py:" in method else method
        method = "realm"
    elif method not in METHODS:
        raise RealmError(f"{spec.path}: method: {method}: must be one of {', '.join((*METHODS, *RIVALS))}.")
    counts = {name: grid[name] for name in COUNTS if name in grid}
    where = {name: axes[name] for name in ("benchmark", "noise", "pool", "regime")}
    if where["noise"] is None and where["pool"] is None:
        where["pool"] = "all"
    data = BenchmarkData(**where, **counts, channel=channel, folder=folder)
    if METHODS[method].needs_gold:
        own_pool = None if data.noise else "all" if str(data.pool).startswith("per-item") else data.pool
        data = replace(data, noise=None, pool=own_pool, regime=None)
    return Cell(axes["model"], data, method, seed, axes["steps"], settings, grid.get("curve"))
