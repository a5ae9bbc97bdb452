"""The paper's figure for an entry of ours, where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

SAME_POOL = {"D3": "graded:3", "D1": "one-reliable:3"}
"""Pools that are one and the same, under the names that different tables of the paper give them."""


class Published:
    """The figures of a table of the paper, or of several separated by commas. Without a table it has none.

    An entry of ours corresponds where it agrees in every field that the paper's row names: model, benchmark, noise,
    pool, regime, steps, rate, annotator. A small variant names no table, so that nothing is set beside it.
    """

    def __init__(self, table: str | None) -> None:
        self.table = table
        self._rows: list[dict[str, Any]] = []
        if table is not None:
            from realm.lab.paper.figures import paper_figures

            self._rows = [row for name in table.split(",") for row in _records(paper_figures(name.strip()))]

    def __len__(self) -> int:
        return len(self._rows)

    def figure(self, method: str | None, quantity: str, **fields: Any) -> tuple[float, float | None] | None:
        """Mean and standard deviation (None where not given) in the paper's unit; None where nothing corresponds."""
        wanted = {"method": method, "quantity": quantity, **fields}
        found = [row for row in self._rows if _corresponds(row, wanted)]
        if len(found) != 1:
            return None
        return float(found[0]["mean"]), found[0]["std"]


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _corresponds(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    named = ("model", "benchmark", "noise", "pool", "regime", "method", "quantity", "steps", "rate", "annotator")
    return all(row[name] is None or _same(name, row[name], wanted.get(name)) for name in named)


def _same(name: str, theirs: Any, ours: Any) -> bool:
    if name in ("steps", "rate"):
        return ours is not None and not isinstance(ours, str) and float(theirs) == float(ours)
    return bool(theirs == ours or (name == "pool" and theirs == SAME_POOL.get(ours)))
