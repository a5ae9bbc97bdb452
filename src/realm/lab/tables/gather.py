"""The cells of a spec with what came of them: one row per cell, finished or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.compare.significance import Bools
from realm.errors import RealmError
from realm.lab.grid.cell import Cell
from realm.lab.grid.spec import COUNTS, Spec, expand

FIELDS = ("model", "benchmark", "noise", "pool", "regime", "steps", "rate")
"""What makes a configuration, beside method and seed and the settings that a spec compares."""
RATE = "expertise_learning_rate"
SCALAR = "realm-scalar"
"""How tables name `realm` with one number per annotator over all tasks."""
FLAN = "google/flan-t5-"


class Kept(Protocol):
    """What a table reads of a results file (`realm.lab.grid.results.Results`)."""

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame: ...
    def predictions(self, id: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...
    def expertise(self, ids: Sequence[str]) -> pd.DataFrame: ...
    def curves(self, ids: Sequence[str]) -> pd.DataFrame: ...
    def trajectories(self, ids: Sequence[str]) -> pd.DataFrame: ...


@dataclass(frozen=True)
class Gathered:
    """The cells of a spec and their results.

    `frame` has a row per cell: id, model, benchmark, noise, pool, regime, method, seed, steps, rate, `finished`,
    accuracy and the other figures (NaN where the cell is not finished). `spread` and `annotators` describe pools that
    come in several sizes. `rate` is the expertise rate where the spec compares rates, else None. The models `small`,
    `base` and `large` are the three sizes of Flan-T5.

    `settings` are the other settings whose values the spec compares, a column each: None for a method that does not
    read the setting, and so is the same under each of its values.
    """

    spec: Spec
    frame: pd.DataFrame
    kept: Kept | None
    settings: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """What makes a configuration, beside method and seed."""
        return (*FIELDS, *self.settings)

    @property
    def unread(self) -> tuple[str, ...]:
        """The fields that some methods do not read."""
        return ("rate", *self.settings)

    @property
    def missing(self) -> int:
        return int((~self.frame["finished"]).sum())

    def of(self, method: str | None = None, **fields: Any) -> pd.DataFrame:
        """The rows of a configuration, by seed. What a field of the cell leaves open (None) agrees with anything."""
        said = {} if method is None else {"method": method}
        return select(self.frame, {**said, **fields}, open_fields=tuple(fields)).sort_values("seed", kind="stable")

    def right(self, ids: Sequence[str]) -> Bools | None:
        """Whether each answer was right, (cells, items); None where the cells have no or different items."""
        if self.kept is None or not len(ids):
            return None
        answers = [self.kept.predictions(id) for id in ids]
        if not all(len(labels) and np.array_equal(gold, answers[0][1]) for labels, gold in answers):
            return None
        return np.stack([labels == gold for labels, gold in answers])


def select(frame: pd.DataFrame, fields: Mapping[str, Any], open_fields: Sequence[str] = ()) -> pd.DataFrame:
    """The rows with these values; in `open_fields` a row without a value agrees with any."""
    agree = np.ones(len(frame), dtype=bool)
    for name, value in fields.items():
        column = frame[name].to_numpy(dtype=object)
        agree &= (column == value) | (frame[name].isna().to_numpy() if name in open_fields else False)
    return frame[agree]


def fullest(keys: Sequence[dict[str, Any]], unread: Sequence[str]) -> list[dict[str, Any]]:
    """The keys without those that leave a setting unread and agree with another that says it: they are shown there."""

    def shown_in(key: dict[str, Any], other: dict[str, Any]) -> bool:
        silent = {name for name in unread if name in key and pd.isna(key[name])}
        rest = ((value, other[name]) for name, value in key.items() if name not in silent)
        return any(not pd.isna(other[name]) for name in silent) and all(a == b or pd.isna(a) for a, b in rest)

    return [key for key in keys if not any(shown_in(key, other) for other in keys)]


def gather(spec: Spec, kept: Kept | None) -> Gathered:
    """Put the cells of a spec and the results together."""
    cells = expand(spec)
    compared = _compared(spec, cells)
    settings = tuple(name for name in compared if name != RATE)
    rows = pd.DataFrame([{**_row(cell), **_values(cell, compared)} for cell in cells])
    rows = rows.rename(columns={RATE: "rate"}) if RATE in compared else rows.assign(rate=None)
    rows = rows.astype({name: object for name in ("id", "benchmark", "method", *FIELDS, *settings) if name != "steps"})
    found = pd.DataFrame() if kept is None else kept.frame(cells)
    if len(found):
        known = {*rows.columns, *(name for cell in cells for name in (*cell.settings, *cell.choose))} - {"id"}
        figures = found[[name for name in found.columns if name not in known]]
        rows = rows.merge(figures, on="id", how="left")
    if "accuracy" not in rows.columns:
        rows["accuracy"] = np.nan
    rows["finished"] = rows["accuracy"].notna()
    return Gathered(spec, rows, kept, settings)


def _compared(spec: Spec, cells: Sequence[Cell]) -> list[str]:
    """The settings in which cells differ that are the same in every other field, method and seed."""
    alike: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        alike.setdefault(tuple(value for name, value in _row(cell).items() if name != "id"), []).append(cell)
    found: dict[str, None] = {}
    for group in alike.values():
        names = [name for cell in group for name in (*cell.settings, *cell.choose, *COUNTS)] if len(group) > 1 else []
        differing = [
            name for name in dict.fromkeys(names)
            if name != "expertise" and len({_value(cell, name) for cell in group}) > 1
        ]  # fmt: skip
        if len({tuple(_value(cell, name) for name in differing) for cell in group}) < len(group):
            raise RealmError(
                f"{spec.path}: {group[0]} is there {len(group)} times, with different values of `choose`; a table "
                "cannot tell them apart. Put them in specs of their own."
            )
        found |= dict.fromkeys(differing)
    return list(found)


def _values(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
    """The settings by name; None for those that the cell's method does not read."""
    return {
        name: None if name.startswith("expertise") and cell.method != "realm" else _value(cell, name) for name in names
    }


def _value(cell: Cell, name: str) -> Any:
    if name in COUNTS:
        value = getattr(cell, name)
        return "all" if value is None else value
    return cell.settings.get(name, "chosen" if name in cell.choose else "default")


def _row(cell: Cell) -> dict[str, Any]:
    scalar = cell.method == "realm" and cell.settings.get("expertise") == "scalar"
    return {
        "id": cell.id,
        "model": cell.model.removeprefix(FLAN),
        "benchmark": cell.benchmark,
        "noise": cell.noise,
        "pool": cell.pool,
        "regime": cell.regime,
        "method": SCALAR if scalar else cell.method,
        "seed": cell.seed,
        "steps": cell.steps,
        **_size(cell.pool),
    }


def _size(pool: str | None) -> dict[str, Any]:
    """Of a pool whose size a spec varies: how accuracies are spread over it, and N. D3 and D1 are those of three."""
    spread, _, size = {"D3": "graded:3", "D1": "one-reliable:3"}.get(pool or "", pool or "").partition(":")
    return {"spread": spread, "annotators": int(size)} if size.isdigit() else {"spread": None, "annotators": None}
