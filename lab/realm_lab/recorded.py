"""Finished cells as two text files that a repository can hold, so that tables are redrawn without training.

`cells.jsonl` has a line per cell: what it is, its metrics, and which test items it answered right. `settings.json` has
the settings that decided the results, defaults resolved. A cell is found again only as long as each of them that there
still is has the value it had then.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import RealmError
from realm.comparison.cells import MEASURED, Cell, effective_settings
from realm.comparison.results import Results
from realm_lab.specs import key_of

CELLS, SETTINGS = "cells.jsonl", "settings.json"
DECIDING = ("labels", "soft", "channel", "channel_settings", "objective", "update")
"""Of the row of a method; its title and description decide nothing."""


class Recorded:
    """What `record` wrote, a store of finished cells. `stale` names those that were made by other settings."""

    def __init__(self, folder: str | Path) -> None:
        try:
            rows = [json.loads(line) for line in (Path(folder) / CELLS).read_text(encoding="utf-8").splitlines()]
            self._settings = json.loads((Path(folder) / SETTINGS).read_text(encoding="utf-8"))
            self._rows = {row["key"]: row for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RealmError(f"{folder}: the recorded results cannot be read: {error}.") from None
        self._row_of: dict[str, dict[str, Any]] = {}
        self.stale: dict[str, list[str]] = {}

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per recorded cell, in the order of `cells`: id, the fields of the cell, metrics, seconds."""
        records = []
        for cell in cells:
            if (row := self._rows.get(key_of(cell))) is None:
                continue
            then, now = self._settings[row["effective"]], _effective(cell)
            if changed := [name for name, value in then.items() if now.get(name, value) != value]:
                self.stale[str(cell)] = changed
                continue
            self._row_of[cell.id] = row
            figures = {name: row[name] for name in row if name not in ("key", "effective", "correct", "settings")}
            records.append({**figures, "id": cell.id, **cell.fields()})
        return pd.DataFrame(records)

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each test item was answered right, (cells, items); None where the cells have different items."""
        rows = [self._row_of[id] for id in ids if id in self._row_of]
        if len(rows) < len(ids) or len({row["n_test"] for row in rows}) != 1:
            return None
        bits = [np.frombuffer(base64.b85decode(row["correct"]), dtype=np.uint8) for row in rows]
        return np.stack([np.unpackbits(each)[: rows[0]["n_test"]].astype(bool) for each in bits])

    def table(self, name: str, ids: Sequence[str]) -> pd.DataFrame:
        """Nothing: annotators and curves are not recorded."""
        return pd.DataFrame(columns=["id"])


def record(results: Results, cells: Sequence[Cell]) -> dict[str, str]:
    """The files that record the finished ones of these cells, by name."""
    rows, settings = [], {}
    for cell in cells:
        if results.missing([cell]):
            continue
        found, effective = results.record(cell.id), _effective(cell)
        digest = hashlib.blake2b(json.dumps(effective, sort_keys=True).encode(), digest_size=6).hexdigest()
        settings[digest] = effective
        correct = results.correct([cell.id])
        assert correct is not None
        row = {"key": key_of(cell), **cell.fields(), "settings": dict(cell.settings), **found["metrics"]}
        row |= {"n_test": correct.shape[1], "seconds": round(found["seconds"], 1), "finished_at": found["finished_at"]}
        packed = base64.b85encode(np.packbits(correct[0]).tobytes()).decode("ascii")
        rows.append({**row, "measured": MEASURED, "effective": digest, "correct": packed})
    return {
        CELLS: "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows),
        SETTINGS: json.dumps(settings, indent=1, sort_keys=True) + "\n",
    }


def _effective(cell: Cell) -> dict[str, Any]:
    """Every setting that decides the result, flat, as JSON holds it; the seed, which a row has anyway, left out."""
    effective = effective_settings(cell.method, cell.seed, cell.steps, cell.settings)
    method = {f"method.{name}": effective["method"][name] for name in DECIDING}
    plain = {name: value for name, value in effective.items() if name not in ("seed", "data_seed", "method")}
    return dict(json.loads(json.dumps({**plain, **method}, sort_keys=True, default=str)))
