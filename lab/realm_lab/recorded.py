"""Finished cells as two text files that a repository can hold, so that tables are redrawn without training.

`cells.jsonl` has a line per cell: what it is, its metrics, and which test items it answered right. `settings.json` has
the settings that decided the results, defaults resolved. A cell is found again only as long as each of them that there
still is has the value it had then.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
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
PER_SEED = ("seed", "data_seed")
"""Settings that differ by seed, which a row has anyway."""
DECIDING = ("labels", "soft", "channel", "channel_settings", "objective", "update")
"""Of the row of a method; its title and description decide nothing."""
NEEDED = ("key", "effective", "correct", "n_test", "accuracy")
"""Fields that every line has; all but the last are no figures of a cell."""


class Recorded:
    """What `record` wrote, a store of finished cells. `stale` names those that were made by other settings."""

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        try:
            rows = [json.loads(line) for line in (folder / CELLS).read_text(encoding="utf-8").splitlines()]
            self._settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RealmError(f"{folder}: the recorded results cannot be read: {error}.") from None
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict) or not set(NEEDED) <= set(row) or row["effective"] not in self._settings:
                raise RealmError(f"{folder / CELLS}, line {number}: not a cell with {', '.join(NEEDED)}.")
        self._rows = {row["key"]: row for row in rows}
        self._row_of: dict[str, dict[str, Any]] = {}
        self.stale: dict[str, list[str]] = {}

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per recorded cell, in the order of `cells`: id, the fields of the cell, metrics, seconds."""
        records = []
        for cell in cells:
            row = self._rows.get(key_of(cell))
            if row is None:
                continue
            if changed := _changed(self._settings[row["effective"]], _effective(cell)):
                self.stale[str(cell)] = changed
                continue
            self._row_of[cell.id] = row
            figures = {name: value for name, value in row.items() if name not in (*NEEDED[:-1], "settings")}
            records.append({**figures, "id": cell.id, **cell.fields()})
        return pd.DataFrame(records)

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each test item was answered right, (cells, items); None where the cells have different items."""
        answers = [_unpacked(self._row_of[id]) for id in ids if id in self._row_of]
        if len(answers) < len(ids) or len({len(each) for each in answers}) != 1:
            return None
        return np.stack(answers)

    def table(self, name: str, ids: Sequence[str]) -> pd.DataFrame:
        """Nothing: annotators are not recorded one by one."""
        columns = {"expertise": ["annotator", "pool_accuracy", "expertise", "expertise_trained"], "answers": ["gold"]}
        return pd.DataFrame(columns=["id", *columns.get(name, [])])


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
        fields = {name: value for name, value in cell.fields().items() if name not in ("curve", "trial")}
        row = {"key": key_of(cell), **fields, "settings": dict(cell.settings), **found["metrics"]}
        row |= {"n_test": correct.shape[1], "seconds": round(found["seconds"], 1), "finished_at": found["finished_at"]}
        packed = base64.b85encode(np.packbits(correct[0]).tobytes()).decode("ascii")
        rows.append({**row, "measured": MEASURED, "effective": digest, "correct": packed})
    return {
        CELLS: "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows),
        SETTINGS: json.dumps(settings, indent=1, sort_keys=True) + "\n",
    }


def _effective(cell: Cell) -> dict[str, Any]:
    """Every setting that decides the result, as JSON holds it."""
    effective = effective_settings(cell.method, cell.seed, cell.steps, cell.settings)
    effective["method"] = {name: effective["method"][name] for name in DECIDING}
    plain = {name: value for name, value in effective.items() if name not in PER_SEED}
    return dict(json.loads(json.dumps(plain, sort_keys=True, default=str)))


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The settings that have another value now; a setting that one of the two does not know is not compared."""
    flat = [{**each, **{f"method.{name}": value for name, value in each["method"].items()}} for each in (then, now)]
    return [name for name in flat[0] if name != "method" and name in flat[1] and flat[0][name] != flat[1][name]]


def _unpacked(row: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(base64.b85decode(str(row["correct"])), dtype=np.uint8))
    return bits[: int(row["n_test"])].astype(bool)
