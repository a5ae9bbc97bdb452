"""A spec: what to run, as YAML. `load_spec` reads and checks it, `expand` gives its cells.

    name: noise-small                  # the file's name
    title: Noise types under D1 and D3
    settings: {learning_rate: 5.0e-5}  # of `RealmConfig`, shared by all cells
    choose: {realm: {expertise_learning_rate: [0.1, 0.5, 1.0]}}
    grid:                              # one mapping or several, whose cells are put together
      - {model: minilm-l6, benchmark: [obqa, piqa], noise: uniform, pool: [D1, D3], regime: sparse,
         method: [realm, noisy, oracle], seeds: 5, steps: 200}

Every mistake is a `RealmError` that names the file, the key and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from realm import METHODS, RealmError
from realm.comparison.cells import Cell, combinations
from realm.comparison.simulation import Noise, Regime
from realm.lab.cells import JOINED, benchmark_cell, own_pool, simulated_pool
from realm.lab.datasets import NAMES
from realm.lab.spec_settings import EXPERTISE, check_settings

SPECS = Path(__file__).parent / "specs"
"""The specs that come with the package."""

WORDS = ("title", "paper", "table", "small_of")
COUNTS = ("items", "test_items", "curve")
AXES = ("model", "benchmark", "noise", "pool", "regime", "method", "steps")
SETTINGS = ("settings", "by_benchmark", "choose")
SPEC_KEYS = ("name", *WORDS, *SETTINGS, *COUNTS, "grid")
GRID_KEYS = (*AXES, "seeds", *SETTINGS, *COUNTS)
NEEDED = ("model", "benchmark", "regime", "method", "seeds")


@dataclass(frozen=True)
class Spec:
    """A checked spec. `paper` names the table it reproduces, `table` its layout, `small_of` the full spec."""

    name: str
    title: str
    path: Path
    paper: str | None = None
    table: str | None = None
    small_of: str | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    grids: tuple[Mapping[str, Any], ...] = ()


def load_spec(name_or_path: str | Path) -> Spec:
    """Read a spec: one that comes with the package by its name, any other by its path."""
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = SPECS / f"{name_or_path}.yaml"
        if not path.is_file():
            raise RealmError(
                f"no such spec: {name_or_path}. `realm lab list` names those that come with the package; a spec of "
                "your own is given by its path, ending in .yaml."
            )
    content = _read(path)
    _known_keys(str(path), content, SPEC_KEYS)
    name = content.get("name", path.stem)
    if name != path.stem:
        raise RealmError(f"{path}: name: must be that of the file, {path.stem}, not {name}.")
    for key in WORDS:
        if content.get(key) is not None and not isinstance(content[key], str):
            raise RealmError(f"{path}: {key}: must be text, not {content[key]!r}.")
    grids = content.get("grid")
    grids = grids if isinstance(grids, list) else [grids]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise RealmError(f"{path}: grid: must be `key: value` lines, or a list of such; see the page on the lab.")
    spec = Spec(
        name=path.stem,
        title=content.get("title") or path.stem,
        path=path,
        paper=content.get("paper"),
        table=content.get("table"),
        small_of=content.get("small_of"),
        shared={key: content[key] for key in (*SETTINGS, *COUNTS) if key in content},
        grids=tuple(grids),
    )
    expand(spec)
    return spec


def packaged_specs() -> list[str]:
    """The names of the specs that come with the package, each full one before its small variant."""
    return sorted((path.stem for path in SPECS.glob("*.yaml")), key=lambda name: (name.removesuffix("-small"), name))


def expand(
    spec: Spec, folder: Path | None = None, offline: bool = False, report: Callable[[str], None] | None = None
) -> list[Cell]:
    """The cells of a spec, each once, in the order of the spec.

    `folder` and `offline` tell where their data comes from (see `load_benchmark`) and are needed for training only.
    `report` is called with a message about cells that do not apply.
    """
    cells: dict[Cell, None] = {}
    for number, grid in enumerate(spec.grids, start=1):
        where = f"{spec.path}: grid" if len(spec.grids) == 1 else f"{spec.path}: grid {number}"
        left_out: dict[str, int] = {}
        for cell in _Grid(where, spec, grid).cells(folder, offline):
            if METHODS[cell.method].aggregator and cell.data.describe()["regime"] == "sparse":
                left_out[cell.method] = left_out.get(cell.method, 0) + 1
            else:
                cells[cell] = None
        for method, count in left_out.items():
            if report is not None:
                report(f"{method}: {count} cells left out, it does not apply to one annotation per item (sparse)")
    return list(cells)


# -------------------------------------------------------------------- one grid


class _Grid:
    """One mapping under `grid`, with what the spec shares."""

    def __init__(self, where: str, spec: Spec, content: Mapping[str, Any]) -> None:
        _known_keys(where, content, GRID_KEYS)
        self.where, self.keys = where, content
        self.shared_where = str(spec.path)
        self.shared = spec.shared

    def cells(self, folder: Path | None, offline: bool) -> list[Cell]:
        axes = {name: self._axis(name) for name in AXES}
        settings = {**check_settings(f"{self.shared_where}: settings", self.shared.get("settings"))}
        settings |= check_settings(f"{self.where}: settings", self.keys.get("settings"))
        budget = settings.pop("max_steps", ())
        axes["steps"] = axes["steps"] or budget
        for name in NEEDED:
            if not axes.get(name, True) or (name == "seeds" and "seeds" not in self.keys):
                raise RealmError(f"{self.where}: {name} is missing; write `{name}: ...`.")
        if not axes["steps"]:
            raise RealmError(f"{self.where}: steps is missing; write `steps: 200`, or max_steps in the settings.")
        axes["noise"] = axes["noise"] or (None,)
        axes["pool"] = axes["pool"] or (None,)
        choose, by_benchmark = self._choose(), self._by_benchmark()
        cells = []
        for values in combinations(axes):
            own = by_benchmark.get(values["benchmark"], {})
            if both := sorted(set(settings) & set(own)):
                raise RealmError(f"{self.where}: {both[0]} is in `settings` and in `by_benchmark`; leave it in one.")
            for cell_settings in combinations({**settings, **own}):
                arguments = self._arguments(values, cell_settings, choose.get(values["method"], {}))
                cells += [
                    benchmark_cell(**arguments, seed=seed, folder=folder, offline=offline) for seed in self._seeds()
                ]
        return cells

    def _arguments(
        self, axes: dict[str, Any], settings: dict[str, Any], choose: dict[str, tuple[Any, ...]]
    ) -> dict[str, Any]:
        """Arguments of `benchmark_cell`, but for the seed and the place of the data."""
        shared_tasks = settings.get(EXPERTISE) == "scalar"
        settings = {name: value for name, value in settings.items() if name != EXPERTISE}
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
        content = self.keys.get(name)
        values = content if isinstance(content, list) else [] if name not in self.keys else [content]
        where = f"{self.where}: {name}"
        if name in self.keys and not values:
            raise RealmError(f"{where}: the list is empty; write a value or leave the key out.")
        if name == "steps":
            return tuple(dict.fromkeys(_whole(where, value) for value in values))
        for value in values:
            if value is not None or name not in ("noise", "pool"):
                _known_words(where, name, value)
        return tuple(dict.fromkeys(values))

    def _seeds(self) -> list[int]:
        content = self.keys["seeds"]
        if isinstance(content, list):
            for value in content:
                _whole(f"{self.where}: seeds", value, least=0)
            return list(dict.fromkeys(content))
        return list(range(_whole(f"{self.where}: seeds", content)))

    def _count(self, name: str) -> int | None:
        in_grid = name in self.keys
        content = self.keys[name] if in_grid else self.shared.get(name)
        return None if content is None else _whole(f"{self.where if in_grid else self.shared_where}: {name}", content)

    def _choose(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each method the settings to choose and their values. A grid's own replaces the spec's."""
        in_grid = "choose" in self.keys
        content = (self.keys if in_grid else self.shared).get("choose") or {}
        where = f"{self.where if in_grid else self.shared_where}: choose"
        if not isinstance(content, Mapping):
            raise RealmError(
                f"{where}: must be like {{realm: {{expertise_learning_rate: [0.1, 0.5]}}}}, not {content!r}."
            )
        _known_keys(where, content, _allowed("method"))
        choose = {method: check_settings(f"{where}: {method}", tried) for method, tried in content.items()}
        if refused := [name for tried in choose.values() for name in tried if name in ("max_steps", EXPERTISE)]:
            raise RealmError(f"{where}: {refused[0]} cannot be chosen by trials; write it in the grid.")
        return choose

    def _by_benchmark(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each benchmark the settings that it has for itself. A grid's own replaces the spec's."""
        in_grid = "by_benchmark" in self.keys
        content = (self.keys if in_grid else self.shared).get("by_benchmark") or {}
        where = f"{self.where if in_grid else self.shared_where}: by_benchmark"
        if not isinstance(content, Mapping) or not all(isinstance(values, Mapping) for values in content.values()):
            raise RealmError(f"{where}: must be like {{train_layers: {{arc: 2, obqa: 4}}}}, not {content!r}.")
        settings: dict[str, dict[str, tuple[Any, ...]]] = {}
        for name, values in content.items():
            if name == "max_steps":
                raise RealmError(f"{where}: {name} cannot differ by benchmark; write `steps` in grids of their own.")
            for benchmark, value in values.items():
                _known_words(f"{where}: {name}", "benchmark", benchmark)
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


def _allowed(name: str) -> tuple[str, ...]:
    """The words an axis may use; empty where any is allowed."""
    allowed = {"method": METHODS, "benchmark": NAMES, "noise": get_args(Noise), "regime": get_args(Regime)}
    return tuple(allowed.get(name, ()))


def _known_words(where: str, name: str, value: Any) -> None:
    """Whether an axis may have this value."""
    if not isinstance(value, str) or not value:
        raise RealmError(f"{where}: must be text, not {value!r}.")
    words, allowed = value.split(JOINED) if name == "benchmark" else [value], _allowed(name)
    for word in words:
        if allowed and word.partition("/")[0] not in allowed:
            raise RealmError(f"{where}: {word}: must be one of {', '.join(allowed)}.")
    if len(set(words)) < len(words):
        raise RealmError(f"{where}: {value}: names a benchmark twice.")


def _whole(where: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RealmError(f"{where}: must be a whole number of {least} or more, not {value!r}.")
    return value


def _known_keys(where: str, content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := [str(key) for key in content if key not in known]:
        raise RealmError(f"{where}: unknown key {unknown[0]}. There are: {', '.join(known)}.")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RealmError(f"{path}: no spec can be read there: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RealmError(f"{path} is not readable YAML: {error}") from None
    if not isinstance(content, dict):
        raise RealmError(f"{path}: a spec is `key: value` lines; see the page on the lab.")
    return content
