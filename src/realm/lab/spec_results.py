"""The cells of a spec with their results: one row per cell, finished or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from realm import PAPER, RealmError
from realm.comparison.cells import Cell, is_read
from realm.comparison.results import Results
from realm.lab.recorded import RecordedResults
from realm.lab.spec import COUNTS, Spec, expand

FIELDS = ("model", "benchmark", "noise", "pool", "regime", "steps", "rate")
"""What distinguishes configurations, beside method, seed and the settings that a spec compares."""
RATE = "expertise_learning_rate"
SCALAR = "realm-scalar"
"""How tables name `realm` with one expertise per annotator over all tasks."""
PAPER_ARM = "realm-paper"
"""How tables name `realm` in the paper's setting, where it stands beside the default."""
FLAN = "google/flan-t5-"


@dataclass(frozen=True)
class SpecResults:
    """The cells of a spec and their results.

    `frame` has a row per cell: id, model, benchmark, noise, pool, regime, method, seed, steps, rate, `finished`,
    accuracy and the other metrics (NaN where the cell is not finished). `spread` and `annotators` describe pools that
    come in several sizes. `rate` is the expertise rate where the spec compares rates, else None. The models `small`,
    `base` and `large` are the three sizes of Flan-T5.

    `settings` are the other settings whose values the spec compares, a column each: None for a method that does not
    read the setting, and so is the same under each of its values.
    """

    spec: Spec
    frame: pd.DataFrame
    results: Results | RecordedResults | None
    settings: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """What distinguishes configurations, beside method and seed."""
        return (*FIELDS, *self.settings)

    @property
    def unread(self) -> tuple[str, ...]:
        """The fields that some methods do not read."""
        return ("rate", *self.settings)

    @property
    def missing(self) -> int:
        return int((~self.frame["finished"]).sum())

    def rows(self, **fields: Any) -> pd.DataFrame:
        """The rows of a configuration, by seed. A field that is None in a row agrees with any value."""
        return select(self.frame, fields, open_fields=tuple(fields)).sort_values("seed", kind="stable")


def select(frame: pd.DataFrame, fields: Mapping[str, Any], open_fields: Sequence[str] = ()) -> pd.DataFrame:
    """The rows with these values; in `open_fields` a row without a value agrees with any."""
    agree = np.ones(len(frame), dtype=bool)
    for name, value in fields.items():
        column = frame[name].to_numpy(dtype=object)
        agree &= (column == value) | (frame[name].isna().to_numpy() if name in open_fields else False)
    return frame[agree]


def is_absent(value: Any) -> bool:
    """Whether a field of a row has no value: None or NaN."""
    return value is None or value != value


def most_specific(keys: Sequence[dict[str, Any]], unread: Sequence[str]) -> list[dict[str, Any]]:
    """The keys without those that lack a setting and agree with another key that has it: they stand in its rows."""

    def is_part_of(key: dict[str, Any], other: dict[str, Any]) -> bool:
        lacking = {name for name in unread if name in key and is_absent(key[name])}
        rest = ((value, other[name]) for name, value in key.items() if name not in lacking)
        return any(not is_absent(other[name]) for name in lacking) and all(a == b or is_absent(a) for a, b in rest)

    return [key for key in keys if not any(is_part_of(key, other) for other in keys)]


def load_spec_results(spec: Spec, results: Results | RecordedResults | None) -> SpecResults:
    """The cells of a spec with the results that the file has of them; None for no file."""
    cells = expand(spec)
    own_rows = dict(zip(cells, _rows(cells), strict=True))
    compared_settings = _compared_settings(spec, own_rows)
    settings = tuple(name for name in compared_settings if name != RATE)
    rows = pd.DataFrame([{**row, **_values(cell, compared_settings)} for cell, row in own_rows.items()])
    rows = rows.rename(columns={RATE: "rate"}) if RATE in compared_settings else rows.assign(rate=None)
    rows = rows.astype({name: object for name in ("id", "method", *FIELDS, *settings) if name != "steps"})
    finished = pd.DataFrame() if results is None else results.frame(cells)
    if len(finished):
        other = {*rows.columns, *(name for cell in cells for name in (*cell.settings, *cell.choose))} - {"id"}
        rows = rows.merge(finished[[name for name in finished.columns if name not in other]], on="id", how="left")
    if "accuracy" not in rows.columns:
        rows["accuracy"] = np.nan
    rows["finished"] = rows["accuracy"].notna()
    return SpecResults(spec, rows, results, settings)


def _compared_settings(spec: Spec, rows: Mapping[Cell, Mapping[str, Any]]) -> list[str]:
    """The settings in which cells differ that are the same in every other field, method and seed."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell, row in rows.items():
        groups.setdefault(tuple(value for name, value in row.items() if name != "id"), []).append(cell)
    names_in_order: dict[str, None] = {}
    for group in groups.values():
        names = [name for cell in group for name in (*cell.settings, *cell.choose, *COUNTS)] if len(group) > 1 else []
        differing = [name for name in dict.fromkeys(names) if len({_value(cell, name) for cell in group}) > 1]
        if len({tuple(_value(cell, name) for name in differing) for cell in group}) < len(group):
            raise RealmError(
                f"{spec.path}: {group[0]} is listed {len(group)} times, with different values of `choose`; a table "
                "cannot tell them apart. Put them in specs of their own."
            )
        names_in_order |= dict.fromkeys(differing)
    return list(names_in_order)


def _values(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
    """The settings by name; None for those that the cell's method does not read."""
    return {name: _value(cell, name) if is_read(name, cell.method) else None for name in names}


def _value(cell: Cell, name: str) -> Any:
    if name in COUNTS:
        value = {**cell.data.describe(), "curve": cell.curve}[name]
        return "all" if value is None else value
    return cell.settings.get(name, "chosen" if name in cell.choose else "default")


def _rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """A row per cell. `realm` in the paper's setting is a method of its own where the default stands beside it."""

    def configuration(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(value for name, value in row.items() if name not in ("id", "seed"))

    rows = [_row(cell) for cell in cells]
    is_papers = [all(cell.settings.get(name) == value for name, value in PAPER.items()) for cell in cells]
    defaults = {configuration(row) for row, papers in zip(rows, is_papers, strict=True) if not papers}
    return [
        {**row, "method": PAPER_ARM} if papers and row["method"] == "realm" and configuration(row) in defaults else row
        for row, papers in zip(rows, is_papers, strict=True)
    ]


def _row(cell: Cell) -> dict[str, Any]:
    data = cell.data.describe()
    return {
        "id": cell.id,
        "model": cell.model.removeprefix(FLAN),
        **{name: data[name] for name in ("benchmark", "noise", "pool", "regime")},
        "method": SCALAR if cell.shared_tasks else cell.method,
        "seed": cell.seed,
        "steps": cell.steps,
        **_pool_size(data["pool"]),
    }


def _pool_size(pool: str | None) -> dict[str, Any]:
    """Of a pool whose size a spec varies: how accuracies are spread over it, and N. D3 and D1 are those of three."""
    spread, _, size = {"D3": "graded:3", "D1": "one-reliable:3"}.get(pool or "", pool or "").partition(":")
    return {"spread": spread, "annotators": int(size)} if size.isdigit() else {"spread": None, "annotators": None}
