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

from realm.compare.simulation import Noise, Regime
from realm.errors import RealmError
from realm.lab.grid.cell import JOINED, Cell, combinations
from realm.lab.grid.pools import own_pool, simulated_pool
from realm.lab.grid.settings import check_settings

SPECS = Path(__file__).parents[1] / "specs"
"""Where the specs that come with the package lie."""

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
    said = _read(path)
    _known_keys(str(path), said, SPEC_KEYS)
    name = said.get("name", path.stem)
    if name != path.stem:
        raise RealmError(f"{path}: name: must be that of the file, {path.stem}, not {name}.")
    for key in WORDS:
        if said.get(key) is not None and not isinstance(said[key], str):
            raise RealmError(f"{path}: {key}: must be text, not {said[key]!r}.")
    grids = said.get("grid")
    grids = grids if isinstance(grids, list) else [grids]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise RealmError(f"{path}: grid: must be `key: value` lines, or a list of such; see the page on the lab.")
    spec = Spec(
        name=path.stem,
        title=said.get("title") or path.stem,
        path=path,
        paper=said.get("paper"),
        table=said.get("table"),
        small_of=said.get("small_of"),
        shared={key: said[key] for key in (*SETTINGS, *COUNTS) if key in said},
        grids=tuple(grids),
    )
    expand(spec)
    return spec


def packaged_specs() -> list[str]:
    """The names of the specs that come with the package, each full one before its small variant."""
    return sorted((path.stem for path in SPECS.glob("*.yaml")), key=lambda name: (name.removesuffix("-small"), name))


def expand(spec: Spec, say: Callable[[str], None] | None = None) -> list[Cell]:
    """The cells of a spec, each once, in the order of the spec. `say` hears of those that do not apply."""
    cells: dict[Cell, None] = {}
    for number, grid in enumerate(spec.grids, start=1):
        where = f"{spec.path}: grid" if len(spec.grids) == 1 else f"{spec.path}: grid {number}"
        left_out: dict[str, int] = {}
        for cell in _Grid(where, spec, grid).cells():
            if cell.method in ("majority", "dawid-skene") and cell.regime == "sparse":
                left_out[cell.method] = left_out.get(cell.method, 0) + 1
            else:
                cells[cell] = None
        for method, count in left_out.items():
            if say is not None:
                say(f"{method}: {count} cells left out, it does not apply to one annotation per item (sparse)")
    return list(cells)


# -------------------------------------------------------------------- one grid


class _Grid:
    """One mapping under `grid`, with what the spec shares."""

    def __init__(self, where: str, spec: Spec, said: Mapping[str, Any]) -> None:
        _known_keys(where, said, GRID_KEYS)
        self.where, self.said = where, said
        self.shared_where = str(spec.path)
        self.shared = spec.shared

    def cells(self) -> list[Cell]:
        axes = {name: self._axis(name) for name in AXES}
        settings = {**check_settings(f"{self.shared_where}: settings", self.shared.get("settings"))}
        settings |= check_settings(f"{self.where}: settings", self.said.get("settings"))
        budget = settings.pop("max_steps", ())
        axes["steps"] = axes["steps"] or budget
        for name in NEEDED:
            if not axes.get(name, True) or (name == "seeds" and "seeds" not in self.said):
                raise RealmError(f"{self.where}: {name} is missing; write `{name}: ...`.")
        if not axes["steps"]:
            raise RealmError(f"{self.where}: steps is missing; write `steps: 200`, or max_steps in the settings.")
        axes["noise"] = axes["noise"] or (None,)
        axes["pool"] = axes["pool"] or (None,)
        choose, by_benchmark = self._choose(), self._by_benchmark()
        made = []
        for chosen in combinations(axes):
            own = by_benchmark.get(chosen["benchmark"], {})
            if both := sorted(set(settings) & set(own)):
                raise RealmError(
                    f"{self.where}: {both[0]} stands in `settings` and in `by_benchmark`; leave it in one."
                )
            for values in combinations({**settings, **own}):
                for seed in self._seeds():
                    made.append(self._cell({**chosen, "seed": seed}, values, choose.get(chosen["method"], {})))
        return made

    def _cell(self, axes: dict[str, Any], settings: dict[str, Any], choose: dict[str, tuple[Any, ...]]) -> Cell:
        if settings.get("expertise") == "matrix":  # what is learned anyway
            settings = {name: value for name, value in settings.items() if name != "expertise"}
        elif settings.get("expertise") == "scalar" and settings.get("expertise_update") == "em":
            raise RealmError(f"{self.where}: expertise: scalar cannot be combined with expertise_update: em.")
        if both := sorted(set(settings) & set(choose)):
            raise RealmError(
                f"{self.where}: {both[0]} stands in `settings` or `by_benchmark` and in `choose`; leave it in one "
                "(`choose: {}` in a grid turns choosing off)."
            )
        if axes["noise"] is None and axes["pool"] is None and JOINED not in axes["benchmark"]:
            axes = {**axes, "pool": "all"}
        self._check_pool(axes)
        counts: dict[str, Any] = {name: self._count(name) for name in COUNTS}
        return Cell(**axes, **counts, settings=settings, choose=choose)

    # ---------------------------------------------------------------- what a key may say

    def _axis(self, name: str) -> tuple[Any, ...]:
        """The values of a key, each once; none where the key is absent."""
        said = self.said.get(name)
        values = said if isinstance(said, list) else [] if name not in self.said else [said]
        where = f"{self.where}: {name}"
        if name in self.said and not values:
            raise RealmError(f"{where}: the list is empty; write a value or leave the key out.")
        if name == "steps":
            return tuple(dict.fromkeys(_whole(where, value) for value in values))
        for value in values:
            if value is not None or name not in ("noise", "pool"):
                _known_words(where, name, value)
        return tuple(dict.fromkeys(values))

    def _seeds(self) -> list[int]:
        said = self.said["seeds"]
        if isinstance(said, list):
            for value in said:
                _whole(f"{self.where}: seeds", value, least=0)
            return list(dict.fromkeys(said))
        return list(range(_whole(f"{self.where}: seeds", said)))

    def _count(self, name: str) -> int | None:
        in_grid = name in self.said
        said = self.said[name] if in_grid else self.shared.get(name)
        return None if said is None else _whole(f"{self.where if in_grid else self.shared_where}: {name}", said)

    def _choose(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each method the settings to choose and their values. A grid's own replaces the spec's."""
        in_grid = "choose" in self.said
        said = (self.said if in_grid else self.shared).get("choose") or {}
        where = f"{self.where if in_grid else self.shared_where}: choose"
        if not isinstance(said, Mapping):
            raise RealmError(f"{where}: must be like {{realm: {{expertise_learning_rate: [0.1, 0.5]}}}}, not {said!r}.")
        _known_keys(where, said, _allowed("method"))
        made = {method: check_settings(f"{where}: {method}", settings) for method, settings in said.items()}
        if stray := [name for settings in made.values() for name in settings if name in ("max_steps", "expertise")]:
            raise RealmError(f"{where}: {stray[0]} cannot be chosen by trials; write it in the grid.")
        return made

    def _by_benchmark(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """For each benchmark the settings that it has for itself. A grid's own replaces the spec's."""
        in_grid = "by_benchmark" in self.said
        said = (self.said if in_grid else self.shared).get("by_benchmark") or {}
        where = f"{self.where if in_grid else self.shared_where}: by_benchmark"
        if not isinstance(said, Mapping) or not all(isinstance(values, Mapping) for values in said.values()):
            raise RealmError(f"{where}: must be like {{train_layers: {{arc: 2, obqa: 4}}}}, not {said!r}.")
        made: dict[str, dict[str, tuple[Any, ...]]] = {}
        for name, values in said.items():
            if name == "max_steps":
                raise RealmError(f"{where}: {name} cannot differ by benchmark; write `steps` in grids of their own.")
            for benchmark, value in values.items():
                _known_words(f"{where}: {name}", "benchmark", benchmark)
                made.setdefault(benchmark, {}).update(check_settings(where, {name: value}))
        return made

    def _check_pool(self, axes: Mapping[str, Any]) -> None:
        noise, pool, joined = axes["noise"], axes["pool"], axes["benchmark"].count(JOINED) + 1
        if axes["method"] == "oracle" and (noise is not None or pool is None):
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
            said = str(error).removeprefix("--pool ").removeprefix("--matrix ")
            raise RealmError(f"{self.where}: {said}") from None


def _allowed(name: str) -> tuple[str, ...]:
    """The words an axis may use; none where they are open."""
    if name == "method":
        from realm.methods import METHODS

        return tuple(METHODS)
    if name == "benchmark":
        from realm.lab.datasets import NAMES

        return NAMES
    return {"noise": get_args(Noise), "regime": get_args(Regime)}.get(name, ())


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


def _known_keys(where: str, said: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := [str(key) for key in said if key not in known]:
        raise RealmError(f"{where}: unknown key {unknown[0]}. There are: {', '.join(known)}.")


def _read(path: Path) -> dict[str, Any]:
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RealmError(f"{path}: no spec can be read there: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RealmError(f"{path} is not readable YAML: {error}") from None
    if not isinstance(said, dict):
        raise RealmError(f"{path}: a spec is `key: value` lines; see the page on the lab.")
    return said
