"""The cells of a spec with their results: a row for each configuration, method and seed, finished or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import METHODS, PAPER, RealmError
from realm.comparison.cells import Cell, is_read
from realm.comparison.significance import LEVEL, paired_bootstrap, paired_t_test
from realm_lab.cells import oracle_pool
from realm_lab.datasets import TITLES
from realm_lab.specs import RIVALS, Spec, expand

CONFIGURATION = ("model", "benchmark", "noise", "pool", "regime", "steps")
"""What distinguishes configurations, beside method, seed and the settings that a spec compares."""
RATE = "expertise_learning_rate"
ORACLE = "oracle"
SCALAR = "realm-scalar"
"""How tables name `realm` with one expertise per annotator over all tasks."""
PAPER_ARM = "realm-paper"
"""How tables name `realm` in the paper's setting, where it stands beside the default."""
FLAN = "google/flan-t5-"
WORDS = {
    **TITLES, **{name: method.title for name, method in METHODS.items()}, SCALAR: "REALM, one number each",
    PAPER_ARM: "REALM, paper's setting", "crowd-layer": "Crowd layer", "trace-confusion": "Trace", "small": "Small",
    "base": "Base", "large": "Large", "one-reliable": "one reliable", "benchmark": "Dataset", "spread": "Pool",
}  # fmt: skip
"""What the paper calls things."""


class Store(Protocol):
    """Where finished cells are: `realm.comparison.results.Results`, or what is recorded in a repository."""

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """A row per finished cell: its id and metrics."""

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each test item was answered right, (cells, items); None where the cells have different items."""

    def table(self, name: str, ids: Sequence[str]) -> pd.DataFrame:
        """A table of these cells (`expertise`, `curve`, `trajectory`, `answers`); empty where no cell has it."""


def display(value: object) -> str:
    """A value as the tables write it; tasks of a benchmark and joined benchmarks part by part."""
    text = f"{value:g}" if isinstance(value, float) else str("" if value is None else value)
    for separator in ("+", "/"):
        if separator in text and not text.endswith(separator):
            return separator.join(display(part) for part in text.split(separator))
    return WORDS.get(text, text)


@dataclass(frozen=True)
class SpecResults:
    """The cells of a spec and their results.

    `frame` has a row per configuration, method and seed: id, `CONFIGURATION`, method, seed, `spread` and `annotators`
    (of pools that come in several sizes), `finished`, accuracy and the other metrics. `settings` are the settings whose
    values the spec compares, a column each; `rate` is the learning rate of expertise. What reads no such setting, and
    an oracle, which reads neither noise nor regime, has a row in each configuration that it stands beside.
    """

    spec: Spec
    frame: pd.DataFrame
    store: Store | None
    settings: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """What distinguishes configurations, beside method and seed."""
        return (*CONFIGURATION, *self.settings)


def load_results(spec: Spec, store: Store | None) -> SpecResults:
    """The cells of a spec with the results that the store has of them; None for no store."""
    cells, compared = expand(spec), _compared(spec)
    frame = pd.DataFrame(_rows(cells, compared), dtype=object)  # or text would turn None into NaN
    for name in compared:
        frame = frame.explode(name)
    settings = tuple("rate" if name == RATE else name for name in compared)
    frame = _with_oracles(frame.rename(columns={RATE: "rate"}), [*CONFIGURATION, *settings])
    frame = frame.astype({"steps": int, "seed": int})
    if frame.duplicated([*CONFIGURATION, *settings, "method", "seed"]).any():
        raise RealmError(
            f"{spec.path}: a configuration is listed twice, with other settings. Give the values of the setting as a "
            "list, or put them in specs of their own."
        )
    finished = pd.DataFrame() if store is None else store.frame(cells)
    if len(finished):
        other = set(frame.columns) | {name for cell in cells for name in cell.settings}
        frame = frame.merge(finished[["id", *(name for name in finished if name not in other)]], on="id", how="left")
    frame = frame if "accuracy" in frame else frame.assign(accuracy=np.nan)
    return SpecResults(spec, frame.assign(finished=frame["accuracy"].notna()), store, settings)


def _compared(spec: Spec) -> list[str]:
    """The settings of which a grid lists several values."""
    names: dict[str, None] = {}
    for grid in spec.grids:
        by_benchmark = [(name, value) for name, of in (grid.get("by_benchmark") or {}).items() for value in of.values()]
        for name, values in (*grid["settings"].items(), *by_benchmark):
            if isinstance(values, list) and len(values) > 1:
                names[name] = None
    return list(names)


def _rows(cells: Sequence[Cell], compared: Sequence[str]) -> list[dict[str, Any]]:
    """A row per cell; a setting that its method does not read has the list of all its values."""
    every = {
        name: list(dict.fromkeys(_setting(cell, name) for cell in cells if is_read(name, cell.method)))
        for name in compared
    }
    rows = []
    for cell in cells:
        data = cell.data.describe()
        row = {"id": cell.id, **{name: data[name] for name in CONFIGURATION[1:-1]}, "steps": cell.steps}
        row |= {"model": cell.model.removeprefix(FLAN), "method": method_of(cell), "seed": cell.seed}
        row |= dict(zip(("spread", "annotators"), _pool_size(data["pool"]), strict=True))
        rows.append(row | {n: _setting(cell, n) if is_read(n, cell.method) else every[n] for n in compared})
    # `realm` in the paper's setting is a method of its own where the default stands beside it
    is_papers = [all(cell.settings.get(name) == value for name, value in PAPER.items()) for cell in cells]
    places = [tuple(str(row[name]) for name in (*CONFIGURATION, "method", *compared)) for row in rows]
    defaults = {place for place, papers in zip(places, is_papers, strict=True) if not papers}
    for row, place, papers in zip(rows, places, is_papers, strict=True):
        if papers and row["method"] == "realm" and place in defaults:
            row["method"] = PAPER_ARM
    return rows


def _setting(cell: Cell, name: str) -> Any:
    return cell.settings.get(name, "chosen" if name in cell.choose else "default")


def method_of(cell: Cell) -> str:
    """What tables call the method of a cell."""
    if channel := cell.data.describe().get("channel"):
        return next((name for name, rival in RIVALS.items() if rival == channel), str(channel).rpartition(":")[2])
    return SCALAR if cell.shared_tasks else cell.method


def _pool_size(pool: str | None) -> tuple[str | None, int | None]:
    """Of a pool whose size a spec varies: how accuracies are spread over it, and N. D3 and D1 are those of three."""
    spread, _, size = {"D3": "graded:3", "D1": "one-reliable:3"}.get(pool or "", pool or "").partition(":")
    return (spread, int(size)) if size.isdigit() else (None, None)


def _with_oracles(frame: pd.DataFrame, fields: list[str]) -> pd.DataFrame:
    """With the rows of every oracle in each configuration that it stands beside."""
    is_oracle, settings = frame["method"] == ORACLE, fields[len(CONFIGURATION) :]
    others = frame[~is_oracle].drop_duplicates(fields)
    rows = []
    for oracle in frame[is_oracle].drop_duplicates(["id", *settings]).to_dict("records"):
        same = (others["model"] == oracle["model"]) & (others["benchmark"] == oracle["benchmark"])
        for name in ("steps", *settings):
            same &= others[name] == oracle[name]
        own = others["noise"].isna() & (others["pool"].map(oracle_pool) == oracle["pool"])
        beside = others[same & (others["noise"].notna() if oracle["pool"] is None else own)]
        places = beside[[*fields, "spread", "annotators"]].to_dict("records")
        rows += [{**oracle, **place} for place in places or [{}]]
    return pd.concat([frame[~is_oracle], pd.DataFrame(rows, columns=frame.columns, dtype=object)], ignore_index=True)


def configurations(rows: pd.DataFrame, fields: Iterable[str] = CONFIGURATION) -> Iterable[tuple[dict[str, Any], Any]]:
    """Each configuration that has `realm`, with its rows."""
    names = list(fields)
    for values, part in rows.groupby(names, sort=False, dropna=False):
        if (part["method"] == "realm").any():
            plain = [None if value != value else value for value in values]
            yield dict(zip(names, plain, strict=True)), part


@dataclass(frozen=True)
class Contrast:
    """`realm` against another method in one configuration, paired by seed and by test item.

    | field | meaning |
    |---|---|
    | second | the other method |
    | gaps | difference of accuracy on each seed that both have |
    | p_seeds | two-sided paired t-test over seeds (the paper's); None with one seed |
    | low, high, p_items | paired bootstrap over test items, 95%; None without answers |
    """

    second: str
    gaps: npt.NDArray[np.float64]
    p_seeds: float | None
    low: float | None = None
    high: float | None = None
    p_items: float | None = None

    @property
    def delta(self) -> float:
        return float(self.gaps.mean())

    @property
    def seeds(self) -> int:
        return len(self.gaps)

    @property
    def ahead(self) -> int:
        """On how many seeds `realm` is better."""
        return int((self.gaps > 0).sum())

    @property
    def behind(self) -> int:
        return int((self.gaps < 0).sum())

    @property
    def significant(self) -> bool:
        """By the test over seeds."""
        return self.p_seeds is not None and self.p_seeds < LEVEL

    @property
    def surely(self) -> bool:
        """By the test over seeds and by that over test items."""
        return self.significant and self.p_items is not None and self.p_items < LEVEL


def compare_methods(store: Store | None, rows: pd.DataFrame, second: str, first: str = "realm") -> Contrast | None:
    """Two methods of one configuration; None where no seed has both."""
    finished = [rows[(rows["method"] == name) & rows["finished"]].set_index("seed") for name in (first, second)]
    seeds = finished[0].index.intersection(finished[1].index).sort_values()
    if not len(seeds):
        return None
    both = [part.loc[seeds] for part in finished]
    accuracies = [part["accuracy"].to_numpy(dtype=np.float64) for part in both]
    answers = [None if store is None else store.correct(part["id"].tolist()) for part in both]
    paired = answers[0] is not None and answers[1] is not None and answers[0].shape == answers[1].shape
    over_items = paired_bootstrap(answers[0], answers[1]) if paired else (None, None, None)  # type: ignore[arg-type]
    return Contrast(second, accuracies[0] - accuracies[1], paired_t_test(*accuracies), *over_items)
